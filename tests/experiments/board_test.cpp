// The live state of a grid, on a terminal and elsewhere.
#include "experiments/board.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace nru::experiments {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

RunLine training_run() {
  RunLine run;
  run.name = "copy-100/nru-seed1";
  run.step = "training";
  run.update = 12300;
  run.total = 200000;
  run.loss = 0.0123;
  run.relative_loss = 0.071;
  run.rate = 510.4;
  run.seconds_left = 370;
  return run;
}

Totals some_totals() {
  Totals totals;
  totals.runs = 30;
  totals.done = 11;
  totals.diverged = 1;
  totals.running = 1;
  totals.queued = 15;
  totals.waiting = 1;
  totals.failed = 1;
  totals.seconds_left = 3720;
  return totals;
}

constexpr char kTotals[] =
    "12 of 30 runs done (1 diverged), 1 running, 15 queued, 1 in use elsewhere, 1 failed, "
    "ETA 1h 02m";

class BoardTest : public ::testing::Test {
 protected:
  Board board(bool terminal, int columns = 200) {
    return Board({.terminal = terminal, .color = false, .utf8 = false, .columns = columns}, out_,
                 [this] { return now_; });
  }
  std::string taken() {
    const std::string text = out_.str();
    out_.str("");
    return text;
  }
  std::ostringstream out_;
  double now_ = 100;
};

TEST_F(BoardTest, SaysWhatEachRunAndTheWholeAreAt) {
  RunLine starting;
  starting.name = "b";
  starting.step = "starting";
  EXPECT_THAT(board(true).lines({training_run(), starting}, some_totals()),
              ElementsAre("  copy-100/nru-seed1  12,300/200,000 (6 %)  510/s  loss 0.0123 (7.1 %)  "
                          "ETA 6m 10s",
                          "  b                   starting", kTotals));
}

TEST_F(BoardTest, CutsLinesThatWouldWrap) {
  for (const std::string& line : board(true, 40).lines({training_run()}, some_totals()))
    EXPECT_LE(line.size(), 39u);
}

TEST_F(BoardTest, RedrawsInPlaceOnATerminal) {
  Board live = board(true);
  live.update({training_run()}, some_totals());
  EXPECT_THAT(taken(), Not(HasSubstr("\x1b[")));
  now_ += 0.1;
  live.update({training_run()}, some_totals());
  EXPECT_EQ(taken(), "");  // too soon
  now_ += 0.2;
  live.update({}, some_totals());
  EXPECT_EQ(taken(), std::string("\x1b[2A\r\x1b[J") + kTotals + "\n");
  live.message("x: done");
  EXPECT_EQ(taken(), "\x1b[1A\r\x1b[Jx: done\n");
  live.update({}, some_totals());  // at once, below the message
  EXPECT_EQ(taken(), std::string(kTotals) + "\n");
  live.finish();
  EXPECT_EQ(taken(), "\x1b[1A\r\x1b[J");
}

TEST_F(BoardTest, IsSparingElsewhere) {
  Board plain = board(false);
  const auto lines_after = [&](double seconds) {
    now_ += seconds;
    plain.update({}, some_totals());
    return taken();
  };
  EXPECT_EQ(lines_after(1), "");
  EXPECT_EQ(lines_after(9.5), std::string(kTotals) + "\n");
  EXPECT_EQ(lines_after(5), "");
  EXPECT_NE(lines_after(6), "");
  EXPECT_EQ(lines_after(50), "");  // the first minute is over
  EXPECT_NE(lines_after(11), "");
  plain.message("x: done");
  EXPECT_EQ(taken(), "x: done\n");
}

}  // namespace
}  // namespace nru::experiments
