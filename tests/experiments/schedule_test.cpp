// The scheduler's arithmetic: order, estimates, cores.
#include "experiments/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nru::experiments {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::Optional;

const Kind kNru{"copy", "nru"}, kEurnn{"copy", "eurnn"};

TEST(Speeds, KnowNothingBeforeAMeasurement) {
  Speeds speeds;
  EXPECT_EQ(speeds.seconds(kNru, 10), std::nullopt);
  speeds.measured(kNru, 0, 5);  // a run that made no update says nothing
  EXPECT_EQ(speeds.seconds(kNru, 10), std::nullopt);
}

TEST(Speeds, AreOfTheKindOrElseOfTheCellOrElseOfAll) {
  Speeds speeds;
  speeds.measured(kNru, 100, 10);
  speeds.measured(kNru, 100, 30);
  EXPECT_THAT(speeds.seconds(kNru, 10), Optional(DoubleEq(2)));
  speeds.measured(kEurnn, 200, 360);
  EXPECT_THAT(speeds.seconds(kNru, 10), Optional(DoubleEq(2)));
  EXPECT_THAT(speeds.seconds(kEurnn, 10), Optional(DoubleEq(18)));
  // Not measured on this task, but the cell was on another.
  EXPECT_THAT(speeds.seconds({"denoise", "eurnn"}, 10), Optional(DoubleEq(18)));
  EXPECT_THAT(speeds.seconds({"copy", "lstm"}, 10), Optional(DoubleEq(10)));
}

TEST(Longest, GoesByCostWhileNoSpeedIsKnown) {
  EXPECT_EQ(longest({{kNru, 1}, {kEurnn, 3}, {kNru, 2}}, {}), 1u);
  EXPECT_EQ(longest({{kNru, 3}, {kEurnn, 3}}, {}), 0u);
}

TEST(Longest, GoesByTimeOnceSpeedsAreKnown) {
  Speeds speeds;
  speeds.measured(kEurnn, 1, 10);
  speeds.measured(kNru, 1, 1);
  EXPECT_EQ(longest({{kNru, 5}, {kEurnn, 1}}, speeds), 1u);
  EXPECT_EQ(longest({{kNru, 50}, {kEurnn, 1}}, speeds), 0u);
}

TEST(TimeLeft, IsThatOfTheLastSlotToFinish) {
  EXPECT_DOUBLE_EQ(time_left({}, {}, 2), 0);
  EXPECT_DOUBLE_EQ(time_left({7}, {}, 2), 7);
  EXPECT_DOUBLE_EQ(time_left({}, {1, 2, 3}, 1), 6);
  // Longest first: 3 | 2, then 1 where it is free first.
  EXPECT_DOUBLE_EQ(time_left({}, {1, 2, 3}, 2), 3);
  EXPECT_DOUBLE_EQ(time_left({4, 1}, {2, 2}, 2), 5);
}

TEST(ShareCores, GivesEachCoreToOneRun) {
  EXPECT_THAT(share_cores({0, 1, 2, 3}, 2), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  EXPECT_THAT(share_cores({4, 6, 9}, 3),
              ElementsAre(ElementsAre(4), ElementsAre(6), ElementsAre(9)));
  EXPECT_THAT(share_cores({0, 1, 2, 3, 4}, 2),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3, 4)));
}

TEST(ShareCores, PinsNobodyWhenThereAreMoreRunsThanCores) {
  EXPECT_THAT(share_cores({0, 1}, 3),
              ElementsAre(ElementsAre(0, 1), ElementsAre(0, 1), ElementsAre(0, 1)));
}

}  // namespace
}  // namespace nru::experiments
