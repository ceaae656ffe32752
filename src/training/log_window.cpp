#include "training/log_window.h"

#include <algorithm>

namespace nru::training {

void LogWindow::add(double loss, std::optional<double> relative_loss, double grad_norm,
                    std::optional<double> max_memory, std::optional<double> max_hidden,
                    std::int64_t overflows) {
  const auto add_optional = [&](std::optional<double> value, Sum sum, Sum count) {
    if (!value) return;
    sums_[sum] += *value;
    sums_[count] += 1;
  };
  sums_[kApplied] += 1;
  sums_[kLoss] += loss;
  sums_[kGradNorm] += grad_norm;
  sums_[kOverflows] += static_cast<double>(overflows);
  add_optional(relative_loss, kRelative, kRelativeCount);
  add_optional(max_memory, kMemory, kMemoryCount);
  add_optional(max_hidden, kHidden, kHiddenCount);
}

void LogWindow::add_skipped(std::int64_t overflows) {
  sums_[kSkipped] += 1;
  sums_[kOverflows] += static_cast<double>(overflows);
}

MetricsRow LogWindow::row(std::int64_t update, std::optional<std::int64_t> epoch,
                          double seconds) const {
  MetricsRow row;
  row.update = update;
  row.epoch = epoch;
  row.split = "train";
  row.loss = mean(kLoss, kApplied);
  row.relative_loss = mean(kRelative, kRelativeCount);
  row.grad_norm = mean(kGradNorm, kApplied);
  row.max_memory = mean(kMemory, kMemoryCount);
  row.max_hidden = mean(kHidden, kHiddenCount);
  row.skipped = static_cast<std::int64_t>(sums_[kSkipped]);
  row.overflows = static_cast<std::int64_t>(sums_[kOverflows]);
  row.seconds = seconds;
  return row;
}

void LogWindow::restore(std::span<const double> state) {
  if (state.size() != sums_.size())
    throw Error("the log window of the checkpoint has the wrong size");
  std::copy(state.begin(), state.end(), sums_.begin());
}

}  // namespace nru::training
