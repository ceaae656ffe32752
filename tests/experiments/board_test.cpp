// The live state of a grid, on a terminal and elsewhere.
#include "experiments/board.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#include <sstream>

#include "support/posix.h"

namespace nru::experiments {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

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
  for (const int columns : {1, 10, 25, 40, 60}) {
    for (const std::string& line : board(true, columns).lines({training_run()}, some_totals()))
      EXPECT_LT(line.size(), static_cast<std::size_t>(columns));
  }
}

TEST_F(BoardTest, LeavesOutWhatMattersLeastAndKeepsTheTimeLeft) {
  const auto lines = [&](int columns) {
    return board(true, columns).lines({training_run()}, some_totals());
  };
  EXPECT_THAT(
      lines(80),
      ElementsAre("  copy-100/nru-seed1  12,300/200,000 (6 %)  loss 0.0123 (7.1 %)  ETA 6m 10s",
                  "12 of 30 runs done (1 diverged), 1 running, 15 queued, 1 failed, ETA 1h 02m"));
  EXPECT_EQ(lines(75)[0], "  copy-100/nru-seed1  12,300/200,000  loss 0.0123 (7.1 %)  ETA 6m 10s");
  EXPECT_EQ(lines(65)[0], "  copy-100/nru-seed1  12,300/200,000  loss 0.0123  ETA 6m 10s");
  EXPECT_EQ(lines(60)[0], "  copy-100/nru-seed1  12,300/200,000  ETA 6m 10s");
  EXPECT_EQ(lines(60)[1], "12 of 30 runs done, 1 running, 1 failed, ETA 1h 02m");
  EXPECT_EQ(lines(40)[0], "  copy-100/nru-seed1  ETA 6m 10s");
}

TEST_F(BoardTest, CountsTheRunsThatHaveNoRow) {
  const auto board_of = [&](bool terminal, int rows) {
    return Board({.terminal = terminal, .columns = 200, .rows = rows}, out_, [] { return 0.0; });
  };
  const std::vector<RunLine> runs(30, training_run());
  const std::vector<std::string> lines = board_of(true, 24).lines(runs, some_totals());
  ASSERT_EQ(lines.size(), 23u);  // the cursor is in the last row
  EXPECT_THAT(lines[20], HasSubstr("12,300/200,000"));
  EXPECT_EQ(lines[21], "  and 9 more");
  EXPECT_EQ(lines[22], kTotals);
  EXPECT_THAT(board_of(true, 3).lines(runs, some_totals()), ElementsAre("  and 30 more", kTotals));
  EXPECT_THAT(board_of(true, 1).lines(runs, some_totals()), ElementsAre("  and 30 more", kTotals));
  EXPECT_THAT(board_of(true, 33).lines(runs, some_totals()), Not(Contains(HasSubstr("more"))));
  EXPECT_EQ(board_of(false, 24).lines(runs, some_totals()).size(), 31u);
}

TEST_F(BoardTest, FollowsTheSizeOfTheWindow) {
  const Descriptor window(::posix_openpt(O_RDWR | O_NOCTTY));
  if (window.get() < 0) GTEST_SKIP() << "no pseudo-terminals here";
  const auto resize = [&](unsigned short columns, unsigned short rows) {
    const winsize size{rows, columns, 0, 0};
    ASSERT_EQ(::ioctl(window.get(), TIOCSWINSZ, &size), 0);
  };
  Board live({.terminal = true, .fd = window.get()}, out_, [this] { return now_; });
  const std::vector<RunLine> runs(30, training_run());
  resize(100, 12);
  live.update(runs, some_totals());
  EXPECT_THAT(taken(), AllOf(HasSubstr("ETA 6m 10s\n"), HasSubstr("  and 21 more\n")));
  resize(30, 6);
  now_ += 1;
  live.update(runs, some_totals());
  const std::string erase = "\x1b[11A\r\x1b[J";  // what stood there, not what comes
  const std::string text = taken();
  ASSERT_THAT(text, StartsWith(erase));
  std::istringstream drawn(text.substr(erase.size()));
  std::vector<std::string> lines;
  for (std::string line; std::getline(drawn, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[3], "  and 27 more");
  for (const std::string& line : lines) EXPECT_LT(line.size(), 30u) << line;
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
