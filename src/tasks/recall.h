// What the synthetic tasks share: ten symbols to remember, a marker that asks for them, and scores.
//
// Input classes: 0 blank, 1..8 symbols, 9 marker. The marker is never a target, hence 9 outputs. A
// predictor without memory says "blank" until the marker and guesses after it: 10 ln 8 for a
// sequence, spread over the positions that count.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tasks/cuda/rule_batches.h"
#include "tasks/recall_rules.h"
#include "tasks/task.h"

namespace nru::tasks {

class RecallTask : public Task {
 public:
  static constexpr int kRecall = RecallRule::kRecall;
  static constexpr int kSymbols = RecallRule::kSymbols;
  static constexpr int kBlank = RecallRule::kBlank;
  static constexpr int kMarker = RecallRule::kMarker;

  // What the tables say of every such task: sizes, budget, the option evaluation_batches.
  static TaskInfo info(std::string name, std::string summary);

  int input_size() const override { return kSymbols + 2; }
  int output_size() const override { return kSymbols + 1; }
  std::int64_t evaluation_batches(Split) const override { return evaluation_batches_; }

  // Accuracy is about the recalled symbols: the blanks are right from the first hundred updates on
  // and would drown them. A sequence is exact when every position that counts is right, blanks
  // included.
  Score score(const Batch& batch, std::span<const std::int32_t> predictions) const override;

  // Symbols, blanks and recall; without a stretch of symbols where they lie among the blanks.
  std::vector<Stretch> stretches(const Batch& batch) const override;

 protected:
  // Refuses a lag below `least_lag`, and sizes that cannot be.
  RecallTask(const TaskSettings& settings, int least_lag);

  int rows() const { return rows_; }
  int lag() const { return lag_; }
  kernels::Philox generator(Split split) const;

  // Nats that a sequence costs a predictor without memory.
  static double guessing();

  // All positions from loss_from on count alike.
  BatchShape plain_shape(int steps, double baseline, int loss_from = 0) const;

  std::size_t at(int step, int row) const { return static_cast<std::size_t>(step) * rows_ + row; }

 private:
  std::uint64_t seed_;
  int rows_;
  int lag_;
  std::int64_t evaluation_batches_;
};

// Such a task from its rule (recall_rules.h): what is left to it are its options and shapes.
template <class Rule>
class RuleTask : public RecallTask {
 public:
  void make_batch(Split split, std::uint64_t index, Batch& batch) const override {
    batch.reshape(shape(split, index));
    const Rule rule = this->rule(split);
    for (int row = 0; row < batch.rows; ++row) {
      const typename Rule::Row drawn = rule.row(index, row);
      for (int step = 0; step < batch.steps; ++step) {
        const RecallRule::Position position = rule.at(index, row, drawn, step);
        batch.symbols[at(step, row)] = position.symbol;
        batch.targets[at(step, row)] = position.target;
        if (!batch.weights.empty()) batch.weights[at(step, row)] = position.weight;
      }
    }
  }
#ifdef NRU_HAS_CUDA
  std::unique_ptr<DeviceBatches> device_batches() const override {
    return make_rule_batches(std::array{rule(Split::train), rule(Split::valid), rule(Split::test)});
  }
#endif

 protected:
  using RecallTask::RecallTask;
  virtual Rule rule(Split split) const = 0;
};

}  // namespace nru::tasks
