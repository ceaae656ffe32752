// result.json: the outcome of a run, for reports and scripts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace nru::training {

enum class RunStatus { finished, solved, diverged, interrupted, failed };

const char* to_string(RunStatus status);

// null in the file where empty.
struct Metrics {
  std::optional<double> loss;
  std::optional<double> accuracy;  // 0..1
  std::optional<double> bpc;
  bool operator==(const Metrics&) const = default;
};

struct Result {
  std::string task;
  std::string cell;
  std::int64_t seed = 0;
  std::int64_t parameters = 0;
  std::int64_t updates = 0;  // made
  RunStatus status = RunStatus::failed;
  std::optional<double> baseline_loss;
  std::optional<std::int64_t> solved_at;
  std::optional<std::int64_t> solved_at_1pct;
  std::int64_t spikes = 0;
  std::int64_t recoveries = 0;  // times that the run went back to good weights
  std::string preset;
  double average = 0;  // decay of the weights' average, which valid and test are of; 0: none
  double seconds = 0;
  std::string device;  // "cpu (AVX2)"; of a run that was moved all of them: see moved_to()
  std::string commit;
  std::map<std::string, std::string> versions;

  struct Final {  // {} in the file where empty: the split was not evaluated
    std::optional<Metrics> train, valid, test;
    bool operator==(const Final&) const = default;
  } final;
  struct Best {  // the weights in best.safetensors
    std::optional<std::int64_t> update;
    std::optional<Metrics> valid, test;
    bool operator==(const Best&) const = default;
  } best;

  bool operator==(const Result&) const = default;
};

// Where a run was trained that goes on after `update` on `device`: the device, or behind those
// before it, "cuda (NVIDIA H200), from update 301 on cpu (AVX2)".
std::string moved_to(const std::string& before, std::int64_t update, const std::string& device);

std::string to_json(const Result& result);
// `name` stands for the file in errors. Throws nru::Error when the text is not such a result.
Result parse_result(const std::string& text, const std::string& name);

void write_result(const std::filesystem::path& path, const Result& result);  // atomic
Result read_result(const std::filesystem::path& path);

// When a run is to stop: after so many updates, or before where it has learned the task.
struct Goal {
  std::int64_t updates = 0;
  bool stop_when_solved = false, stop_when_settled = false;
};

// Whether the run went on after this result, or has yet to: result.json is written where a run
// stops, and one that is extended has the old one until it stops again. `logged` is the newest
// update in metrics.csv; 0: none.
bool is_outdated(const Result& result, const Goal& goal, std::int64_t logged);

}  // namespace nru::training
