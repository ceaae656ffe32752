#include "training/recovery.h"

#include <gtest/gtest.h>
#include <nru/error.h>

#include <cmath>
#include <optional>

namespace nru::training {
namespace {

using Verdict = Recovery::Verdict;

// One window of this loss, with so many updates in a row skipped at its end.
Verdict window_of(Recovery& recovery, double loss, int skipped = 0) {
  for (int i = 0; i < Recovery::window; ++i)
    recovery.add(i < Recovery::window - skipped ? std::optional(loss) : std::nullopt);
  return recovery.judge();
}

TEST(Recovery, KeepsTheBestAndWhatIsNear) {
  Recovery recovery(2.0);
  EXPECT_EQ(window_of(recovery, 201.0), Verdict::go_on);  // nothing worth keeping
  EXPECT_EQ(window_of(recovery, 3.0), Verdict::keep);
  EXPECT_EQ(window_of(recovery, 9.0), Verdict::go_on);  // never below a guess: not bad, either
  EXPECT_EQ(window_of(recovery, 1.0), Verdict::keep);
  EXPECT_EQ(window_of(recovery, 1.05), Verdict::keep);   // a plateau keeps its newest
  EXPECT_EQ(window_of(recovery, 1.11), Verdict::go_on);  // 10 % of the best, not of the last
  EXPECT_EQ(window_of(recovery, 0.5), Verdict::keep);
  EXPECT_EQ(window_of(recovery, 1.0), Verdict::go_on);
  EXPECT_EQ(recovery.recoveries(), 0);
  EXPECT_EQ(recovery.caution().halvings, 0);
}

// Its first updates would be skipped, over and over again.
TEST(Recovery, KeepsNoWeightsThatTheirOwnWindowHadToMend) {
  Recovery recovery(2.0);
  recovery.add(4.1);
  for (int i = 1; i < Recovery::window; ++i) recovery.add(1.0);
  EXPECT_EQ(recovery.judge(), Verdict::go_on);
  EXPECT_EQ(recovery.caution().most_loss, 2e6);
  EXPECT_EQ(window_of(recovery, 1.0), Verdict::keep);
}

TEST(Recovery, GoesBackWhereAWindowIsWorseThanAGuess) {
  Recovery recovery(2.0);
  window_of(recovery, 1.0);
  EXPECT_EQ(window_of(recovery, 2.1), Verdict::go_back);
  EXPECT_EQ(recovery.caution().halvings, 1);
  EXPECT_EQ(window_of(recovery, std::nan("")), Verdict::go_back);
  EXPECT_EQ(recovery.caution().halvings, 2);
  EXPECT_EQ(recovery.recoveries(), 2);
  EXPECT_EQ(window_of(recovery, 1.5), Verdict::go_on);  // good again, but no better
  EXPECT_EQ(recovery.caution().halvings, 2);
  EXPECT_EQ(window_of(recovery, 0.9), Verdict::keep);
  EXPECT_EQ(recovery.caution().halvings, 1);
  window_of(recovery, 0.8);
  window_of(recovery, 0.8);
  EXPECT_EQ(recovery.caution().halvings, 0);
}

TEST(Recovery, FiveCalmWindowsInARowUndoAHalving) {
  Recovery recovery(2.0);
  window_of(recovery, 1.0);
  window_of(recovery, 3.0);
  for (int i = 0; i < 4; ++i) window_of(recovery, 1.5);
  EXPECT_EQ(recovery.caution().halvings, 1);
  window_of(recovery, 3.0);
  for (int i = 0; i < 4; ++i) window_of(recovery, 1.5);
  EXPECT_EQ(recovery.caution().halvings, 2);
  window_of(recovery, 1.5);
  EXPECT_EQ(recovery.caution().halvings, 1);
}

TEST(Recovery, TwentySkippedInARowAreAnOverflow) {
  Recovery recovery(2.0);
  window_of(recovery, 1.0);
  EXPECT_EQ(window_of(recovery, 1.0, 19), Verdict::keep);
  // A row goes on over the end of a window.
  recovery.add(std::nullopt);
  for (int i = 1; i < Recovery::window; ++i) recovery.add(1.0);
  EXPECT_EQ(recovery.judge(), Verdict::go_back);
  EXPECT_EQ(window_of(recovery, 1.0, 20), Verdict::go_back);
  EXPECT_EQ(window_of(recovery, 1.0, Recovery::window), Verdict::go_back);
}

TEST(Recovery, MoreThanHalfOfAWindowSkippedIsTheSame) {
  for (const int period : {2, 3}) {  // every second, or two of three
    Recovery recovery(2.0);
    window_of(recovery, 1.0);
    for (int i = 0; i < Recovery::window; ++i)
      recovery.add(i % period == 0 ? std::optional(1.0) : std::nullopt);
    EXPECT_EQ(recovery.judge(), period == 2 ? Verdict::keep : Verdict::go_back);
  }
}

TEST(Recovery, SkipsWhatIsBadByWhatTheRunHasReached) {
  Recovery recovery(2.0);
  EXPECT_EQ(recovery.caution().most_loss, 2e6);
  window_of(recovery, 3.0);
  EXPECT_EQ(recovery.caution().most_loss, 2e6);
  window_of(recovery, 1.0);
  EXPECT_EQ(recovery.caution().most_loss, 4.0);
}

TEST(Recovery, WithoutGoodWeightsARunMayBeBadButNotSkippedAllTheTime) {
  Recovery recovery(2.0);
  EXPECT_EQ(window_of(recovery, 1.9e6), Verdict::go_on);
  EXPECT_EQ(window_of(recovery, 500.0, 19), Verdict::go_on);
  EXPECT_EQ(window_of(recovery, 5.0, 60), Verdict::start_anew);
  EXPECT_EQ(recovery.caution().halvings, 0);  // the weights are smaller, the steps are not
  EXPECT_EQ(window_of(recovery, 5.0), Verdict::keep);
  EXPECT_EQ(window_of(recovery, 5.0, 60), Verdict::go_back);
  EXPECT_EQ(recovery.recoveries(), 2);
}

TEST(Recovery, GivesUpAfterTwentyThatDidNotHelp) {
  for (const bool good_before : {false, true}) {
    Recovery recovery(2.0);
    if (good_before) window_of(recovery, 1.0);
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(window_of(recovery, 9, 60), good_before ? Verdict::go_back : Verdict::start_anew);
    }
    EXPECT_LE(recovery.caution().halvings, Recovery::most_halvings);
    EXPECT_EQ(window_of(recovery, 9, 60), Verdict::give_up);
  }
}

TEST(Recovery, GoesOnFromItsState) {
  Recovery recovery(2.0);
  for (const double loss : {1.0, 5.0, 0.7}) window_of(recovery, loss);
  recovery.add(0.25);
  recovery.add(std::nullopt);
  Recovery restored(2.0);
  restored.restore(recovery.state());
  EXPECT_EQ(restored, recovery);
  Recovery fresh(2.0), of_fresh(2.0);
  of_fresh.restore(fresh.state());
  EXPECT_EQ(of_fresh, fresh);
  EXPECT_THROW(restored.restore(std::vector<double>(3)), Error);
}

}  // namespace
}  // namespace nru::training
