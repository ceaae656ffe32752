#include "training/recovery.h"

#include <nru/error.h>

#include <algorithm>
#include <cmath>

namespace nru::training {

void Recovery::add(std::optional<double> loss) {
  if (loss) {
    sum_ += *loss;
    worst_ = std::max(worst_, *loss);
    ++applied_;
    in_row_ = 0;
  } else {
    ++skipped_;
    longest_row_ = std::max(longest_row_, ++in_row_);
  }
}

bool Recovery::learned() const { return best_ && *best_ < guess_; }

Recovery::Verdict Recovery::judge() {
  const bool exploded = skipped_ > most_skipped || longest_row_ >= most_in_a_row;
  mean_ = exploded ? INFINITY : sum_ / applied_;
  const double worst = worst_;
  sum_ = worst_ = applied_ = skipped_ = longest_row_ = 0;
  if (exploded || (learned() && !(mean_ < guess_))) return recover();
  failures_ = 0;
  // From weights whose own losses would be skipped there is no way on.
  const bool calm = mean_ >= guess_ || worst <= skip_above * guess_;
  const bool keep =
      calm && mean_ < keep_below * guess_ && (!best_ || mean_ <= keep_within * *best_);
  if (keep || ++calm_in_row_ == calm_enough) {
    halvings_ = std::max<std::int64_t>(halvings_ - 1, 0);
    calm_in_row_ = 0;
  }
  if (!keep) return Verdict::go_on;
  best_ = best_ ? std::min(*best_, mean_) : mean_;
  return Verdict::keep;
}

Recovery::Verdict Recovery::recover() {
  if (failures_ == most_failures) return Verdict::give_up;
  calm_in_row_ = 0;
  ++failures_;
  ++recoveries_;
  in_row_ = 0;
  if (!best_) return Verdict::start_anew;
  halvings_ = std::min<std::int64_t>(halvings_ + 1, most_halvings);
  return Verdict::go_back;
}

kernels::Caution Recovery::caution() const {
  return {halvings_, (learned() ? skip_above : out_of_bounds) * guess_};
}

std::vector<double> Recovery::state() const {
  const auto number = [](std::int64_t n) { return static_cast<double>(n); };
  return {sum_,
          worst_,
          applied_,
          skipped_,
          in_row_,
          longest_row_,
          mean_,
          best_.value_or(INFINITY),
          number(halvings_),
          number(calm_in_row_),
          number(failures_),
          number(recoveries_)};
}

void Recovery::restore(std::span<const double> state) {
  if (state.size() != 12) throw Error("the recovery state of the checkpoint has the wrong size");
  sum_ = state[0];
  worst_ = state[1];
  applied_ = state[2];
  skipped_ = state[3];
  in_row_ = state[4];
  longest_row_ = state[5];
  mean_ = state[6];
  best_ = std::isinf(state[7]) ? std::nullopt : std::optional(state[7]);
  const auto number = [&](int i) { return static_cast<std::int64_t>(state[i]); };
  halvings_ = number(8);
  calm_in_row_ = number(9);
  failures_ = number(10);
  recoveries_ = number(11);
}

}  // namespace nru::training
