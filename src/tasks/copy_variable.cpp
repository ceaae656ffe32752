// Variable copying: copying memory whose lag is drawn anew from {lag_min..T} for every minibatch,
// so that no fixed clock can solve it. Losses of different lags are not comparable: each batch
// brings the baseline of its own lag, 10 ln 8 / (lag + 20).
//
// `per_row` draws a lag for every row. Shorter rows are padded and masked; each row's positions are
// weighted so that every row counts alike, as every minibatch does without the option.
#include <fmt/format.h>
#include <nru/error.h>

#include <algorithm>

#include "tasks/recall.h"
#include "tasks/registry.h"

namespace nru::tasks {
namespace {

class CopyVariable : public RuleTask<CopyVariableRule> {
 public:
  explicit CopyVariable(const TaskSettings& settings)
      : RuleTask(settings, 1),
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
    for (int lag = least_; lag <= this->lag(); ++lag) sum += guessing() / CopyRule::steps(lag);
    return sum / (lag() - least_ + 1);
  }

  // Batches of long lags have more positions, but no more of the task.
  double evaluation_weight(const Batch& batch) const override { return batch.rows; }

  BatchShape shape(Split split, std::uint64_t index) const override {
    const CopyVariableRule rule = this->rule(split);
    int longest = 0;
    double baseline = 0, weight_sum = 0;
    for (int row = 0; row < rows(); ++row) {
      const int lag = rule.row(index, row).lag;
      longest = std::max(longest, lag);
      baseline += guessing() / CopyRule::steps(lag) / rows();
      weight_sum += static_cast<double>(CopyVariableRule::weight(lag)) * CopyRule::steps(lag);
    }
    BatchShape shape = plain_shape(CopyRule::steps(longest), baseline);
    shape.weighted = per_row_;
    if (per_row_) shape.weight_sum = weight_sum;
    return shape;
  }

 private:
  CopyVariableRule rule(Split split) const override {
    return {{generator(split)}, least_, lag(), per_row_};
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
