// When a task counts as learned, and what happens after that.
//
// All of it is about the mean, over the last 200 updates, of the training loss relative to the
// batch's own baseline (the loss of the best predictor without memory): "solved" below 5 %, "solved
// at 1 %" below 1 %, a "spike" above 100 % after being solved, "settled" 20,000 updates after
// solved. 5 and not 10 %, because a network that recalls 9 of 10 symbols sits at exactly 10 %.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace nru::training {

class SolvedTracker {
 public:
  static constexpr int window = 200;
  static constexpr double solved_below = 0.05;
  static constexpr double solved_below_1pct = 0.01;
  static constexpr double spike_above = 1.0;
  static constexpr std::int64_t settled_after = 20000;

  // One update's loss divided by its batch's baseline. A non-finite loss counts as infinite: it
  // cannot be averaged away, and it must neither solve a task nor hide a spike.
  void add(double relative_loss);

  std::int64_t updates() const { return updates_; }  // how many were added
  // Mean of the last 200; empty before there are 200.
  std::optional<double> mean() const;
  // Counted from 1: the number of updates made when the criterion first held.
  std::optional<std::int64_t> solved_at() const { return solved_at_; }
  std::optional<std::int64_t> solved_at_1pct() const { return solved_at_1pct_; }
  // Excursions above the baseline after solved. One ends only when the mean is back below 5 %, so
  // that a loss which hovers around the baseline is one spike and not many.
  std::int64_t spikes() const { return spikes_; }
  bool settled() const;

  // For the checkpoint. The mean is summed afresh, oldest first, at every update and no running sum
  // is kept: a restored tracker goes on bit for bit like one that was never saved.
  std::vector<double> state() const;
  // Throws nru::Error when the numbers cannot come from state().
  void restore(std::span<const double> state);

  bool operator==(const SolvedTracker&) const = default;

 private:
  std::int64_t updates_ = 0;
  std::vector<double> recent_;  // the last losses, oldest first
  std::optional<std::int64_t> solved_at_;
  std::optional<std::int64_t> solved_at_1pct_;
  std::int64_t spikes_ = 0;
  bool in_spike_ = false;
};

}  // namespace nru::training
