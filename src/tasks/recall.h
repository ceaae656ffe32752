// What the synthetic tasks share: ten symbols to remember, a marker that asks for them, and scores.
//
// Input classes: 0 blank, 1..8 symbols, 9 marker. The marker is never a target, hence 9 outputs. A
// predictor without memory says "blank" until the marker and guesses after it: 10 ln 8 for a
// sequence, spread over the positions that count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/philox.h"
#include "tasks/task.h"

namespace nru::tasks {

class RecallTask : public Task {
 public:
  static constexpr int kRecall = 10;  // symbols to remember
  static constexpr int kSymbols = 8;  // different ones
  static constexpr int kBlank = 0;
  static constexpr int kMarker = kSymbols + 1;

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

  // All blank, nothing masked.
  void clear(Batch& batch, int steps) const;
  std::size_t at(int step, int row) const { return static_cast<std::size_t>(step) * rows_ + row; }

  // Symbol i of a row: 1..8.
  static int symbol(const kernels::Philox& random, std::uint64_t index, int row, int i);

  // Copying memory in one row: the row's symbols in steps 0..9, the marker `lag` steps after the
  // last, and the symbols as targets behind it.
  void show_and_ask(Batch& batch, const kernels::Philox& random, std::uint64_t index, int row,
                    int lag) const;

  // Numbers of a batch other than its symbols are drawn from elements that no symbol reaches, so
  // that a row's numbers do not depend on how many rows there are.
  static constexpr std::uint64_t kLags = std::uint64_t{1} << 40;
  static constexpr std::uint64_t kPlaces = std::uint64_t{2} << 40;
  static constexpr std::uint64_t kLabels = std::uint64_t{3} << 40;

 private:
  std::uint64_t seed_;
  int rows_;
  int lag_;
  std::int64_t evaluation_batches_;
};

}  // namespace nru::tasks
