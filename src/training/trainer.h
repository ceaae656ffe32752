// One run from configuration to result: the training loop.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tasks/registry.h"
#include "training/checkpoint.h"
#include "training/config.h"
#include "training/engine.h"
#include "training/evaluation.h"
#include "training/progress.h"
#include "training/run_directory.h"
#include "training/updater.h"

namespace nru::training {

// The cell table as configurations see it.
CellDefaults cell_defaults(const std::string& name);

// Task, model, engine and optimizer of a configuration: what training and evaluation both need.
// Throws nru::Error where the configuration is impossible.
struct Setup {
  RunConfig config;
  const tasks::TaskInfo* task_info;
  std::unique_ptr<tasks::Task> task;
  Model model;
  FlatParameters parameters;
  std::unique_ptr<Engine> engine;

  explicit Setup(const RunConfig& config);

  std::int64_t total_updates() const;  // throws where epochs are asked of a task without any
  kernels::AdamSettings adam() const;
};

class Trainer {
 public:
  // A run directory that exists already is continued with `resume`, and refused without.
  Trainer(const RunConfig& config, bool resume);

  struct Outcome {
    Result result;
    int signal = 0;       // what stopped the run, if a signal did
    std::string message;  // why it diverged, if it did
  };
  // Trains to the end, a signal, a time limit or divergence, and writes the run directory.
  Outcome run(Progress& progress);

  const TrainingState& state() const { return state_; }
  std::int64_t total_updates() const { return total_updates_; }
  const Engine& engine() const { return *setup_.engine; }
  // Whether all updates are made, or the configuration asks for no more.
  bool complete() const { return state_.update >= total_updates_ || learned(); }
  const RunPaths& paths() const { return directory_.paths(); }

 private:
  enum class Stop { none, finished, solved, signal, time, diverged };
  bool learned() const;  // and the configuration says to stop then
  Stop reason_to_stop() const;
  std::int64_t updates_until_next_look() const;
  Stop absorb(const UpdateOutcome& outcome, Progress& progress);
  Stop skip_update(const UpdateOutcome& outcome);
  Stop make_updates(Progress& progress);
  Stop recover(Progress& progress);
  void log();
  void evaluate_and_select();
  void save();
  bool better(const Metrics& valid) const;
  void select(const Metrics& valid);
  void swap_average();
  Evaluation watched_evaluation(tasks::Split split);
  Evaluation evaluate_split(tasks::Split split);
  std::optional<Metrics> test_of_best();
  std::optional<Metrics> last_training_loss() const;
  std::optional<std::int64_t> epoch() const;
  double seconds() const;
  Result finish(RunStatus status, bool evaluate_splits);

  Setup setup_;
  const bool has_baseline_;  // the task has one
  std::int64_t total_updates_;
  RunDirectory directory_;
  Optimizer optimizer_;
  TrainingState state_;
  MetricsWriter metrics_;
  std::int64_t evaluate_every_ = 0;
  std::unique_ptr<Updater> updater_;
  std::vector<UpdateOutcome> outcomes_;
  double started_ = 0;         // clock at construction
  double seconds_before_ = 0;  // of earlier processes
  std::string message_;
  Progress* progress_ = nullptr;  // run()'s
  bool ending_ = false;           // no updates follow
  bool told_to_wait_ = false;     // that a signal waits for an evaluation
};

}  // namespace nru::training
