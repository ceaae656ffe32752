// What a run needs to go on exactly where it stopped, in one safetensors file.
//
// Batches are pure functions of the update number, so there is no generator state: parameters,
// Adam's moments, the parameters' average, those to go back to, the counters, the half-filled log
// window, the loss window behind "solved", the best validation metric, and the recurrent state
// where batches go on from one another, are all there is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "support/safetensors.h"
#include "training/criteria.h"
#include "training/engine.h"
#include "training/flat_parameters.h"
#include "training/log_window.h"
#include "training/optimizer.h"
#include "training/recovery.h"
#include "training/result.h"

namespace nru::training {

struct TrainingState {
  std::int64_t update = 0;            // updates made, skipped ones included
  std::int64_t skipped_in_a_row = 0;  // non-finite loss or gradient
  double seconds = 0;                 // of all processes that worked on the run
  std::string trained_on;             // by those before this one; empty: nobody wrote it down
  LogWindow window;
  SolvedTracker tracker;
  Result::Best best;  // `test` stays empty until the run ends
  // What the next batch goes on from, for tasks that carry a state; by state part, [B, width].
  CarriedState carried;
  std::map<std::string, std::string> data;  // what the task says of its data (Task::metadata)
  std::optional<Recovery> recovery;         // of runs with `recover`, and:
  Optimizer::Snapshot good;                 // what it goes back to
  Optimizer::Snapshot window_start;         // what it may go back to next
};

// Parameters alone, under their names: best.safetensors, and what other programs read.
void save_weights(const std::filesystem::path& path, const FlatParameters& parameters,
                  const std::map<std::string, std::string>& metadata);
// From a weights file or a checkpoint, whose average, where it has one, comes before the
// parameters: it is what evaluation is about. Throws nru::Error when a parameter is missing or has
// another shape; nothing is changed then.
void load_weights(const SafetensorsFile& file, FlatParameters& parameters);
void load_weights(const std::filesystem::path& path, FlatParameters& parameters);

// Throws nru::Error when the file was made with other data than the task's now: the ids of a
// vocabulary that has changed mean other symbols. Files that say nothing of their data pass.
void require_same_data(const SafetensorsFile& file, const std::map<std::string, std::string>& data);

void save_checkpoint(const std::filesystem::path& path, const FlatParameters& parameters,
                     Optimizer& optimizer, const TrainingState& state);
// Throws nru::Error when the file is damaged or belongs to another network, optimizer or data than
// the state's; nothing is changed then. A state with a recovery gets one from the file.
void load_checkpoint(const std::filesystem::path& path, FlatParameters& parameters,
                     Optimizer& optimizer, TrainingState& state);

}  // namespace nru::training
