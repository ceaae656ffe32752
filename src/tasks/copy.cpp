// Copying memory: read ten symbols, wait T steps, and on a marker say them again.
//
//   step     0 .. 9      10 .. T+8    T+9      T+10 .. T+19
//   input    10 symbols  blanks       marker   blanks
//   target   blanks      blanks       blank    the 10 symbols
//
// Input classes: 0 blank, 1..8 symbols, 9 marker. The marker is never a target, hence 9 outputs. A
// predictor without memory says "blank" until the marker and guesses after it: 10 ln 8 spread over
// T+20 steps is the baseline. (The paper prints T+16 in the denominator; its own figures have
// T+20.)
#include <fmt/format.h>
#include <nru/error.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>

#include "kernels/philox.h"
#include "tasks/registry.h"

namespace nru::tasks {
namespace {

constexpr int kRecall = 10;  // symbols to remember
constexpr int kSymbols = 8;  // different ones
constexpr int kBlank = 0;
constexpr int kMarker = kSymbols + 1;
constexpr int kLongestLag = 1'000'000;

kernels::Stream stream_of(Split split) {
  switch (split) {
    case Split::train:
      return kernels::Stream::train_batches;
    case Split::valid:
      return kernels::Stream::valid_batches;
    case Split::test:
      return kernels::Stream::test_batches;
  }
  throw std::logic_error("no such split");
}

class Copy : public Task {
 public:
  explicit Copy(const TaskSettings& settings)
      : seed_(settings.seed),
        rows_(settings.batch_size),
        lag_(settings.lag),
        evaluation_batches_(get<std::int64_t>(settings.options, "evaluation_batches")) {
    if (lag_ < 1 || lag_ > kLongestLag) {
      throw Error(
          fmt::format("lag {} is not possible for task copy; choose 1 to {}", lag_, kLongestLag));
    }
    if (rows_ < 1)
      throw Error(fmt::format("batch_size {} is not possible; choose 1 or more", rows_));
    if (evaluation_batches_ < 1) {
      throw Error(
          fmt::format("task_options.evaluation_batches {} is not possible; choose 1 or more",
                      evaluation_batches_));
    }
  }

  int input_size() const override { return kSymbols + 2; }
  int output_size() const override { return kSymbols + 1; }
  std::int64_t evaluation_batches(Split) const override { return evaluation_batches_; }
  double baseline() const override { return kRecall * std::log(kSymbols) / steps(); }

  void make_batch(Split split, std::uint64_t index, Batch& batch) const override {
    batch.steps = steps();
    batch.rows = rows_;
    batch.dense.clear();
    batch.weights.clear();
    batch.loss_from = 0;
    batch.carry = Carry::nothing;
    batch.baseline = baseline();
    const std::size_t positions = static_cast<std::size_t>(steps()) * rows_;
    batch.symbols.assign(positions, kBlank);
    batch.targets.assign(positions, kBlank);

    const kernels::Philox random(seed_, stream_of(split));
    for (int row = 0; row < rows_; ++row) {
      for (int i = 0; i < kRecall; ++i) {
        const std::uint64_t element = static_cast<std::uint64_t>(row) * kRecall + i;
        const int symbol = 1 + static_cast<int>(random.below(kSymbols, index, element));
        batch.symbols[at(i, row)] = symbol;
        batch.targets[at(recall_from() + i, row)] = symbol;
      }
      batch.symbols[at(recall_from() - 1, row)] = kMarker;
    }
  }

  // Accuracy is about the ten recalled symbols: the blanks are right from the first hundred updates
  // on and would drown them. A sequence is exact when all of it is right, blanks included.
  Score score(const Batch& batch, std::span<const std::int32_t> predictions) const override {
    if (predictions.size() != batch.targets.size()) {
      throw std::invalid_argument(
          fmt::format("{} predictions for {} targets", predictions.size(), batch.targets.size()));
    }
    Score score;
    for (int row = 0; row < batch.rows; ++row) {
      bool exact = true;
      for (int step = 0; step < batch.steps; ++step) {
        const std::size_t position = static_cast<std::size_t>(step) * batch.rows + row;
        const bool right = predictions[position] == batch.targets[position];
        exact = exact && right;
        if (step >= batch.steps - kRecall) {
          ++score.counted;
          score.right += right;
        }
      }
      ++score.sequences;
      score.exact += exact;
    }
    return score;
  }

 private:
  int steps() const { return lag_ + 2 * kRecall; }
  int recall_from() const { return lag_ + kRecall; }
  std::size_t at(int step, int row) const { return static_cast<std::size_t>(step) * rows_ + row; }

  std::uint64_t seed_;
  int rows_;
  int lag_;
  std::int64_t evaluation_batches_;
};

TaskInfo copy_info() {
  TaskInfo info;
  info.name = "copy";
  info.summary = "copying memory: repeat 10 symbols after a delay of T steps";
  info.options = {{"evaluation_batches", std::int64_t{50}, "fresh batches in one evaluation", {}}};
  info.defaults.updates = 200'000;
  info.defaults.batch_size = 10;
  info.defaults.lag = 100;
  info.defaults.evaluate_every = 1000;
  info.size_class = "copy";
  info.widths = {kSymbols + 2, 0, kSymbols + 1};
  info.chrono_t_max = [](const TaskSettings& settings) { return settings.lag + 2 * kRecall; };
  info.make = [](const TaskSettings& settings) { return std::make_unique<Copy>(settings); };
  return info;
}

const Registrar registrar(copy_info());

}  // namespace
}  // namespace nru::tasks
