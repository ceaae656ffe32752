// The window behind "solved", and its form in the checkpoint.
#include "training/criteria.h"

#include <fmt/format.h>
#include <nru/error.h>

#include <cmath>
#include <limits>

namespace nru::training {
namespace {

// Layout of state(): these numbers, then the window. Counts are whole and far below 2^53, so a
// double holds them exactly; -1 stands for "not yet".
enum Slot { kVersion, kUpdates, kSolved, kSolved1pct, kSpikes, kInSpike, kSlots };
constexpr double kLayout = 1;

double optional_count(const std::optional<std::int64_t>& count) {
  return static_cast<double>(count.value_or(-1));
}

bool is_count(double number, double least, double most) {
  return number >= least && number <= most && number == std::floor(number);
}

}  // namespace

void SolvedTracker::add(double relative_loss) {
  if (!std::isfinite(relative_loss)) relative_loss = std::numeric_limits<double>::infinity();
  if (recent_.size() == window) recent_.erase(recent_.begin());
  recent_.push_back(relative_loss);
  ++updates_;

  const std::optional<double> now = mean();
  if (!now) return;
  if (!solved_at_ && *now < solved_below) solved_at_ = updates_;
  if (!solved_at_1pct_ && *now < solved_below_1pct) solved_at_1pct_ = updates_;
  if (solved_at_ && !in_spike_ && *now > spike_above) {
    in_spike_ = true;
    ++spikes_;
  } else if (in_spike_ && *now < solved_below) {
    in_spike_ = false;
  }
}

std::optional<double> SolvedTracker::mean() const {
  if (recent_.size() < window) return std::nullopt;
  double sum = 0;
  for (double loss : recent_) sum += loss;
  return sum / window;
}

bool SolvedTracker::settled() const {
  return solved_at_ && updates_ - *solved_at_ >= settled_after;
}

std::vector<double> SolvedTracker::state() const {
  std::vector<double> state(kSlots);
  state[kVersion] = kLayout;
  state[kUpdates] = static_cast<double>(updates_);
  state[kSolved] = optional_count(solved_at_);
  state[kSolved1pct] = optional_count(solved_at_1pct_);
  state[kSpikes] = static_cast<double>(spikes_);
  state[kInSpike] = in_spike_ ? 1 : 0;
  state.insert(state.end(), recent_.begin(), recent_.end());
  return state;
}

void SolvedTracker::restore(std::span<const double> state) {
  const auto reject = [](const char* reason) {
    throw Error(
        fmt::format("the checkpoint's loss window is damaged ({}); start the run anew", reason));
  };
  if (state.size() < kSlots || state[kVersion] != kLayout) reject("layout");
  const double updates = state[kUpdates];
  if (!is_count(updates, 0, 0x1p53)) reject("updates");
  for (Slot slot : {kSolved, kSolved1pct}) {
    if (!is_count(state[slot], -1, updates)) reject("solved at");
  }
  if (!is_count(state[kSpikes], 0, updates) || !is_count(state[kInSpike], 0, 1)) reject("spikes");
  const std::span<const double> recent = state.subspan(kSlots);
  if (static_cast<double>(recent.size()) != std::min<double>(updates, window)) reject("length");
  for (double loss : recent) {
    if (std::isnan(loss)) reject("not a number");
  }

  const auto count = [&](Slot slot) -> std::optional<std::int64_t> {
    if (state[slot] < 0) return std::nullopt;
    return static_cast<std::int64_t>(state[slot]);
  };
  updates_ = static_cast<std::int64_t>(updates);
  solved_at_ = count(kSolved);
  solved_at_1pct_ = count(kSolved1pct);
  spikes_ = static_cast<std::int64_t>(state[kSpikes]);
  in_spike_ = state[kInSpike] != 0;
  recent_.assign(recent.begin(), recent.end());
}

}  // namespace nru::training
