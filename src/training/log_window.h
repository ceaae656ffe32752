// Sums over the updates since the last line of metrics.csv: a line is the mean of its updates.
#pragma once

#include <nru/error.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "training/metrics.h"

namespace nru::training {

class LogWindow {
 public:
  // One update that was applied or skipped. Skipped updates count in `skipped` alone: a non-finite
  // loss says nothing in a mean.
  void add(double loss, std::optional<double> relative_loss, double grad_norm,
           std::optional<double> max_memory, std::optional<double> max_hidden,
           std::int64_t overflows);
  void add_skipped(std::int64_t overflows);

  bool empty() const { return updates() == 0; }
  std::int64_t updates() const {
    return static_cast<std::int64_t>(sums_[kApplied] + sums_[kSkipped]);
  }
  MetricsRow row(std::int64_t update, std::optional<std::int64_t> epoch, double seconds) const;
  std::optional<double> mean_loss() const { return mean(kLoss, kApplied); }
  std::optional<double> mean_relative_loss() const { return mean(kRelative, kRelativeCount); }
  void clear() { sums_ = {}; }

  std::vector<double> state() const { return {sums_.begin(), sums_.end()}; }
  void restore(std::span<const double> state);  // throws nru::Error on the wrong size

 private:
  enum Sum {
    kApplied,
    kSkipped,
    kLoss,
    kRelative,
    kRelativeCount,
    kGradNorm,
    kMemory,
    kMemoryCount,
    kHidden,
    kHiddenCount,
    kOverflows,
    kSums
  };
  std::optional<double> mean(Sum sum, Sum count) const {
    return sums_[count] > 0 ? std::optional(sums_[sum] / sums_[count]) : std::nullopt;
  }
  std::array<double, kSums>
      sums_{};  // doubles, counts too: exact, and one tensor in the checkpoint
};

}  // namespace nru::training
