// Variable copying: copying memory whose lag is drawn anew from {lag_min..T} for every minibatch,
// so that no fixed clock can solve it. Losses of different lags are not comparable: each batch
// brings the baseline of its own lag, 10 ln 8 / (lag + 20).
//
// `per_row` draws a lag for every row. Shorter rows are padded and masked; each row's positions are
// weighted so that every row counts alike, as every minibatch does without the option.
#include <fmt/format.h>
#include <nru/error.h>

#include <algorithm>
#include <vector>

#include "tasks/recall.h"
#include "tasks/registry.h"

namespace nru::tasks {
namespace {

class CopyVariable : public RecallTask {
 public:
  explicit CopyVariable(const TaskSettings& settings)
      : RecallTask(settings, 1),
        least_(static_cast<int>(
            std::min<std::int64_t>(get<std::int64_t>(settings.options, "lag_min"), 1'000'001))),
        per_row_(get<bool>(settings.options, "per_row")) {
    if (least_ < 1 || least_ > lag()) {
      throw Error(fmt::format("task_options.lag_min {} is not possible; choose 1 to the lag, {}",
                              get<std::int64_t>(settings.options, "lag_min"), lag()));
    }
  }

  // Expected over the lags.
  double baseline() const override {
    double sum = 0;
    for (int lag = least_; lag <= this->lag(); ++lag) sum += guessing() / steps(lag);
    return sum / (lag() - least_ + 1);
  }

  // Batches of long lags have more positions, but no more of the task.
  double evaluation_weight(const Batch& batch) const override { return batch.rows; }

  void make_batch(Split split, std::uint64_t index, Batch& batch) const override {
    const kernels::Philox random = generator(split);
    std::vector<int> lags(rows());
    for (int row = 0; row < rows(); ++row) lags[row] = draw_lag(random, index, per_row_ ? row : 0);
    clear(batch, steps(*std::max_element(lags.begin(), lags.end())));
    batch.baseline = 0;
    for (int row = 0; row < rows(); ++row) {
      show_and_ask(batch, random, index, row, lags[row]);
      batch.baseline += guessing() / steps(lags[row]) / rows();
    }
    if (per_row_) weigh_rows(lags, batch);
  }

 private:
  static int steps(int lag) { return lag + 2 * kRecall; }

  int draw_lag(const kernels::Philox& random, std::uint64_t index, int row) const {
    const auto lags = static_cast<std::uint32_t>(lag() - least_ + 1);
    return least_ + static_cast<int>(random.below(lags, index, kLags + row));
  }

  void weigh_rows(const std::vector<int>& lags, Batch& batch) const {
    batch.weights.assign(batch.targets.size(), 0.0f);
    for (int row = 0; row < rows(); ++row) {
      const float weight = 1.0f / static_cast<float>(steps(lags[row]));
      for (int step = 0; step < steps(lags[row]); ++step) batch.weights[at(step, row)] = weight;
    }
  }

  int least_;
  bool per_row_;
};

TaskInfo copy_variable_info() {
  TaskInfo info = RecallTask::info("copy-variable",
                                   "variable copying: the delay is drawn from 1..T every time");
  info.options.push_back({"lag_min", std::int64_t{1}, "shortest lag; `lag` is the longest", {}});
  info.options.push_back(
      {"per_row", false, "a lag for every row instead of one per minibatch", {}});
  info.chrono_t_max = [](const TaskSettings& settings) {
    return settings.lag + 2 * RecallTask::kRecall;
  };
  info.make = [](const TaskSettings& settings) { return std::make_unique<CopyVariable>(settings); };
  return info;
}

const Registrar registrar(copy_variable_info());

}  // namespace
}  // namespace nru::tasks
