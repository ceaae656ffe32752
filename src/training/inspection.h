// What a trained network does with a sequence, step by step: how its memory changes, how far
// gradients reach, how much longer than in training it can wait, and whether it makes room by
// itself where nobody resets it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tasks/task.h"
#include "training/evaluation.h"
#include "training/trainer.h"

namespace nru::training {

// One row of a batch as a batch of its own, starting from zero.
tasks::Batch one_row(const tasks::Batch& batch, int row);

// A state part of a single row after every step.
struct MemoryMap {
  std::string part;  // "m", "c", "mu"; "h" where a cell has nothing else
  int steps = 0;
  int units = 0;
  std::vector<float> values;  // [T, units]

  float at(int step, int unit) const {
    return values[static_cast<std::size_t>(step) * units + unit];
  }
  // m_t - m_{t-1}, from a memory of zero.
  float change(int step, int unit) const {
    return at(step, unit) - (step > 0 ? at(step - 1, unit) : 0.0f);
  }
  // The part of sum |change| that falls into steps [begin, end): 0..1, or 0 where nothing changes.
  double share(int begin, int end) const;
};

// Of the batch's first row.
MemoryMap memory_map(const Setup& setup, const tasks::Batch& batch);

// |d loss at the last position / d h_t| for every step t of the batch's first row.
std::vector<double> gradient_flow(const Setup& setup, const tasks::Batch& batch);

// How a network does at a lag, on a part of the test split.
struct LagScore {
  int lag = 0;
  Evaluation scores;
};

// How many batches of the test split longer_lags() looks at, and how many it has; 0 where a task
// does not let one choose.
struct LagBatches {
  std::int64_t part = 0, all = 0;
};
LagBatches lag_batches(const RunConfig& config);

// At the run's lag and at multiples of it up to twenty, for tasks with a lag that reset the state.
std::vector<LagScore> longer_lags(Setup& setup, const EvaluationWatch& watch = {});

// Sequences by their position since the state was last reset.
struct GroupPosition {
  tasks::Score score;
  double memory_at_start = 0;  // mean norm of the memory before the first step ...
  double memory_after = 0;     // ... and after the first `kSettling` steps
  std::int64_t batches = 0;
};
constexpr int kSettling = 10;  // steps: the symbols of a copying task

// Over all batches of the test split, for tasks that carry a state.
std::vector<GroupPosition> group_positions(Setup& setup);

}  // namespace nru::training
