// Made-up runs: as objects for the logic, as directories for everything that reads files.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/definition.h"
#include "report/collection.h"

namespace nru::test {

// What a made-up run looks like.
struct MadeUp {
  std::string cell = "nru", variant = {}, task = "copy";
  std::int64_t seed = 1;
  std::int64_t updates = 60000;
  std::optional<std::int64_t> solved_at = {};
  training::RunStatus status = training::RunStatus::finished;
  std::optional<double> accuracy = {}, bpc = {};  // of validation and test
  double best_ratio = 1;                          // of the loss where it is not solved
  int points = 100;                               // training rows of metrics.csv
  int epochs = 0;                                 // rows of the validation split
  std::int64_t lag = 100;
  bool comparable = true, shortened = false;  // in memory only
  OptionMap settings = {};                    // config.toml; empty: of this task, lag and length
};

// In memory, as read_run would leave it.
report::Run run_of(const MadeUp& made);

// As a directory.
void write_run(const std::filesystem::path& directory, const MadeUp& made);
// With inspect/ of a copying sequence of that lag.
void write_inspection(const std::filesystem::path& directory, int lag = 100, int units = 64);

// Runs in memory and the series they make, keyed as claims name them.
class Cast {
 public:
  Cast& add(const MadeUp& made);
  std::vector<report::Series> series() const;

 private:
  std::vector<std::string> order_;
  std::map<std::string, std::vector<report::Run>> runs_;
};

// An experiment of the copying kind, three seeds, with claims and paper values to be added.
experiments::Experiment experiment_of(const std::string& name,
                                      const std::vector<std::string>& cells);

// copy-100 with the NRU and the LSTM, and the claim that the NRU is the first.
std::vector<experiments::Experiment> copying();

// Every run of these experiments under `root`, with made-up outcomes that look like the paper's.
void write_grid(const std::filesystem::path& root,
                const std::vector<experiments::Experiment>& experiments, int points);

}  // namespace nru::test
