// A run of the grid as the scheduler sees it, and what its directory says about it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiments/definition.h"
#include "experiments/schedule.h"
#include "training/config.h"

namespace nru::experiments {

struct Job {
  PlannedRun run;
  training::RunConfig config;          // resolved; config.out is the directory
  Kind kind;                           // runs that take alike per unit of cost
  std::int64_t updates = 0;            // in all; 0: not known before the data is there
  std::int64_t updates_per_epoch = 0;  // 0: the task has no epochs
  double cost_per_update = 0;          // steps * rows * parameters
  bool inspect = false;                // `nru inspect` follows the training
  std::string problem;                 // why it cannot be made here, such as missing data

  std::string name() const { return run.directory.string(); }
  std::filesystem::path directory() const { return config.out; }
  std::filesystem::path log() const { return directory() / "log.txt"; }
};

// How far a run has come.
struct RunState {
  enum class Stage {
    absent,    // nothing there
    begun,     // goes on from its checkpoint, or from the start
    done,      // as the plan has it
    diverged,  // an outcome as well: from its last good checkpoint it would do so again
  };
  Stage stage = Stage::absent;
  std::int64_t updates = 0;  // made, as far as files tell
  double seconds = 0;        // of computing; 0: not known
  std::optional<std::int64_t> solved_at;
  bool inspection_missing = false;

  bool training_over() const { return stage == Stage::done || stage == Stage::diverged; }
};

// Never throws: files may be half made or damaged.
RunState look_at(const Job& job);

// Throws nru::Error when the directory holds a run that the plan would change or cut short: other
// settings than the job's, or a longer budget. A shorter one is fine, the run goes on.
void check_fits(const Job& job);

// The newest line of metrics.csv about training. Never throws: the file may be half made.
struct Progressed {
  std::int64_t update = 0;
  std::optional<double> loss, relative_loss;
};
std::optional<Progressed> last_progress(const std::filesystem::path& directory);

// Whether some process holds the run directory: an earlier scheduler's run that is still saving, or
// a run of someone else.
bool in_use(const std::filesystem::path& directory);

// Why a program stopped, from what it wrote after the first `skip` bytes of its log: the last error
// ("nru: ..."), which need not be the last line where two processes write, else the last line with
// text in it. "" where there is none.
std::string last_words(const std::filesystem::path& log, std::int64_t skip = 0);
std::int64_t log_size(const std::filesystem::path& log);  // 0 where there is none

// The command lines of the two steps, without the program's name.
std::vector<std::string> train_command(const Job& job, std::size_t threads);
std::vector<std::string> inspect_command(const Job& job);

}  // namespace nru::experiments
