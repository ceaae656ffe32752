#include "tasks/recall.h"

#include <fmt/format.h>
#include <nru/error.h>

#include <cmath>
#include <stdexcept>
#include <utility>

namespace nru::tasks {
namespace {

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

}  // namespace

TaskInfo RecallTask::info(std::string name, std::string summary) {
  TaskInfo info;
  info.name = std::move(name);
  info.summary = std::move(summary);
  info.options = {{"evaluation_batches", std::int64_t{50}, "fresh batches in one evaluation", {}}};
  info.defaults.updates = 200'000;
  info.defaults.batch_size = 10;
  info.defaults.lag = 100;
  info.defaults.evaluate_every = 1000;
  info.size_class = "copy";
  info.widths = {kSymbols + 2, 0, kSymbols + 1};
  return info;
}

RecallTask::RecallTask(const TaskSettings& settings, int least_lag)
    : seed_(settings.seed),
      rows_(settings.batch_size),
      lag_(settings.lag),
      evaluation_batches_(get<std::int64_t>(settings.options, "evaluation_batches")) {
  if (lag_ < least_lag || lag_ > kLongestLag) {
    throw Error(fmt::format("lag {} is not possible for this task; choose {} to {}", lag_,
                            least_lag, kLongestLag));
  }
  if (rows_ < 1) throw Error(fmt::format("batch_size {} is not possible; choose 1 or more", rows_));
  if (evaluation_batches_ < 1) {
    throw Error(fmt::format("task_options.evaluation_batches {} is not possible; choose 1 or more",
                            evaluation_batches_));
  }
}

kernels::Philox RecallTask::generator(Split split) const { return {seed_, stream_of(split)}; }

double RecallTask::guessing() { return kRecall * std::log(kSymbols); }

BatchShape RecallTask::plain_shape(int steps, double baseline, int loss_from) const {
  BatchShape shape;
  shape.steps = steps;
  shape.rows = rows_;
  shape.loss_from = loss_from;
  shape.baseline = baseline;
  shape.weight_sum = shape.counted_positions();
  return shape;
}

Score RecallTask::score(const Batch& batch, std::span<const std::int32_t> predictions) const {
  if (predictions.size() != batch.targets.size()) {
    throw std::invalid_argument(
        fmt::format("{} predictions for {} targets", predictions.size(), batch.targets.size()));
  }
  Score score;
  for (int row = 0; row < batch.rows; ++row) {
    bool exact = true;
    for (int step = batch.loss_from; step < batch.steps; ++step) {
      const std::size_t position = static_cast<std::size_t>(step) * batch.rows + row;
      if (!batch.weights.empty() && batch.weights[position] == 0) continue;
      const bool right = predictions[position] == batch.targets[position];
      exact = exact && right;
      if (batch.targets[position] != kBlank) {
        ++score.counted;
        score.right += right;
      }
    }
    ++score.sequences;
    score.exact += exact;
  }
  return score;
}

std::vector<Stretch> RecallTask::stretches(const Batch& batch) const {
  int shown = 0, marker = 0;  // symbols before the first blank; the marker's step
  while (batch.symbols[at(shown, 0)] != kBlank && shown < kRecall) ++shown;
  while (batch.symbols[at(marker, 0)] != kMarker) ++marker;
  const int recall = marker + 1, end = recall + kRecall;
  if (shown < kRecall) return {{"symbols and blanks", 0, recall}, {"recall", recall, end}};
  return {{"symbols", 0, kRecall}, {"blanks", kRecall, recall}, {"recall", recall, end}};
}

}  // namespace nru::tasks
