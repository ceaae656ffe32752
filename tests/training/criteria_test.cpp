// "Solved", "settled" and spikes on hand-made loss series, and the tracker's way through a
// checkpoint.
#include "training/criteria.h"

#include <gtest/gtest.h>
#include <nru/error.h>

#include <cmath>
#include <limits>

#include "kernels/philox.h"

namespace nru::training {
namespace {

void add(SolvedTracker& tracker, int times, double loss) {
  for (int i = 0; i < times; ++i) tracker.add(loss);
}

TEST(SolvedTracker, NeedsAFullWindow) {
  SolvedTracker tracker;
  add(tracker, 199, 0.0);
  EXPECT_FALSE(tracker.mean().has_value());
  EXPECT_FALSE(tracker.solved_at().has_value());
  tracker.add(0.0);
  EXPECT_EQ(tracker.mean(), 0.0);
  EXPECT_EQ(tracker.solved_at(), 200);
  EXPECT_EQ(tracker.solved_at_1pct(), 200);
}

// From 1 straight to 0 after 500 updates: the mean after n more is (200-n)/200.
TEST(SolvedTracker, FirstUpdateBelowEachLevel) {
  SolvedTracker tracker;
  add(tracker, 500, 1.0);
  add(tracker, 190, 0.0);
  EXPECT_FALSE(tracker.solved_at().has_value());  // exactly 5 % is not below
  tracker.add(0.0);
  EXPECT_EQ(tracker.solved_at(), 691);
  add(tracker, 7, 0.0);
  EXPECT_FALSE(tracker.solved_at_1pct().has_value());
  tracker.add(0.0);
  EXPECT_EQ(tracker.solved_at_1pct(), 699);
  EXPECT_EQ(tracker.solved_at(), 691);
  EXPECT_EQ(tracker.updates(), 699);
}

// A network that recalls 9 of 10 symbols sits at 10 % of the baseline.
TEST(SolvedTracker, NineOfTenIsNotSolved) {
  SolvedTracker tracker;
  add(tracker, 5000, 0.1);
  EXPECT_FALSE(tracker.solved_at().has_value());
  EXPECT_EQ(tracker.spikes(), 0);
}

TEST(SolvedTracker, OneExcursionIsOneSpike) {
  SolvedTracker tracker;
  add(tracker, 300, 5.0);  // before solved: no spike
  EXPECT_EQ(tracker.spikes(), 0);
  add(tracker, 200, 0.01);
  EXPECT_EQ(tracker.spikes(), 0);
  tracker.add(150.0);  // the mean stays below 1
  EXPECT_EQ(tracker.spikes(), 0);
  tracker.add(150.0);
  EXPECT_EQ(tracker.spikes(), 1);
  for (int i = 0; i < 5; ++i) {  // hovers around the baseline
    add(tracker, 200, 0.9);
    add(tracker, 200, 1.1);
  }
  EXPECT_EQ(tracker.spikes(), 1);
  add(tracker, 200, 0.01);
  add(tracker, 200, 2.0);
  EXPECT_EQ(tracker.spikes(), 2);
  EXPECT_EQ(tracker.solved_at(), 499);
}

TEST(SolvedTracker, SettledTwentyThousandUpdatesLater) {
  SolvedTracker tracker;
  add(tracker, 20199, 0.0);
  EXPECT_FALSE(tracker.settled());
  tracker.add(0.0);
  EXPECT_TRUE(tracker.settled());
}

TEST(SolvedTracker, NonFiniteLossesCountAsInfinite) {
  SolvedTracker tracker;
  add(tracker, 200, 0.0);
  tracker.add(std::nan(""));
  EXPECT_EQ(tracker.spikes(), 1);
  EXPECT_EQ(tracker.mean(), std::numeric_limits<double>::infinity());
  tracker.add(-std::numeric_limits<double>::infinity());
  add(tracker, 200, 0.0);
  EXPECT_EQ(tracker.mean(), 0.0);
  EXPECT_EQ(tracker.spikes(), 1);
}

double noisy(std::uint64_t i) {
  const kernels::Philox random(7, 0u);
  const double level = i < 400 ? 1.0 : (i / 300) % 3 == 0 ? 2.0 : 0.02;
  return level * (0.5 + random.uniform_double(0, i)) * 0.1 + level * 0.9;
}

// Saved and restored at every kind of moment (empty, half a window, in a spike), it goes on with
// the same bits.
TEST(SolvedTracker, RestoredGoesOnBitForBit) {
  for (std::uint64_t cut : {0, 1, 77, 200, 350, 700, 1000, 1500}) {
    SolvedTracker whole, first;
    for (std::uint64_t i = 0; i < cut; ++i) {
      whole.add(noisy(i));
      first.add(noisy(i));
    }
    SolvedTracker second;
    second.add(123.0);  // whatever it held before is gone
    second.restore(first.state());
    for (std::uint64_t i = cut; i < 2500; ++i) {
      whole.add(noisy(i));
      second.add(noisy(i));
      ASSERT_EQ(whole.mean(), second.mean()) << cut << " " << i;
    }
    EXPECT_EQ(whole, second);
    EXPECT_EQ(whole.state(), second.state());
    EXPECT_GE(whole.spikes(), 2);
  }
}

TEST(SolvedTracker, RejectsDamagedState) {
  SolvedTracker tracker;
  add(tracker, 300, 0.02);
  const std::vector<double> good = tracker.state();
  const auto expect_rejected = [&](std::vector<double> state) {
    SolvedTracker other;
    EXPECT_THROW(other.restore(state), Error);
    EXPECT_EQ(other, SolvedTracker{});
  };
  expect_rejected({});
  expect_rejected(std::vector<double>(good.begin(), good.end() - 1));
  for (std::size_t slot = 0; slot < 6; ++slot) {
    for (double bad : {0.5, -2.0, std::nan(""), 1e300}) {
      std::vector<double> state = good;
      state[slot] = bad;
      expect_rejected(state);
    }
  }
  std::vector<double> state = good;
  state.back() = std::nan("");
  expect_rejected(state);
}

}  // namespace
}  // namespace nru::training
