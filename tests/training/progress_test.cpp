// The progress display against a clock the test turns.
#include "training/progress.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <sstream>

#include "support/posix.h"

namespace nru::training {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(Format, Durations) {
  EXPECT_EQ(format_duration(0), "0s");
  EXPECT_EQ(format_duration(59.4), "59s");
  EXPECT_EQ(format_duration(59.6), "1m 00s");
  EXPECT_EQ(format_duration(200), "3m 20s");
  EXPECT_EQ(format_duration(3720), "1h 02m");
  EXPECT_EQ(format_duration(90000), "1d 01h");
  EXPECT_EQ(format_duration(-5), "0s");
}

TEST(Format, Counts) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1000), "1,000");
  EXPECT_EQ(format_count(1234567), "1,234,567");
  EXPECT_EQ(format_count(-123), "-123");
  EXPECT_EQ(format_count(-1234), "-1,234");
}

class Display : public testing::Test {
 protected:
  Progress make(TerminalStyle style, std::int64_t first = 0, std::int64_t total = 1000) {
    return Progress("nru copy-100", first, total, style, out_, [this] { return now_; });
  }
  // Runs from update `from` at `per_second` for `seconds`.
  void run(Progress& progress, std::int64_t from, int per_second, double seconds) {
    const double start = now_;
    for (int i = 1; i <= per_second * seconds; ++i) {
      now_ = start + static_cast<double>(i) / per_second;
      progress.update({from + i, 0.0123, 0.071});
    }
  }
  int count(char c) { return static_cast<int>(std::ranges::count(out_.str(), c)); }

  std::ostringstream out_;
  double now_ = 100;
};

constexpr TerminalStyle kTerminal{true, false, false, 100};

TEST_F(Display, TerminalRedrawsAtMostTenTimesASecond) {
  Progress progress = make(kTerminal);
  run(progress, 0, 1000, 0.95);
  EXPECT_GE(count('\r'), 9);
  EXPECT_LE(count('\r'), 10);
  EXPECT_EQ(count('\n'), 0);
  progress.finish();
  EXPECT_EQ(count('\n'), 1);
  EXPECT_THAT(out_.str(), EndsWith("\x1b[K\n"));
  EXPECT_THAT(out_.str().substr(out_.str().rfind('\r')), HasSubstr(" 950/1,000 "));
  const std::string before = out_.str();
  progress.finish();
  EXPECT_EQ(out_.str(), before);
}

TEST_F(Display, ShowsRateLossAndTimeLeft) {
  Progress progress = make(kTerminal);
  run(progress, 0, 100, 4);
  const std::string line = progress.line({400, 0.0123, 0.071});
  EXPECT_EQ(line,
            "nru copy-100  ############------------------  400/1,000  100/s  loss 0.0123 (7.1 %)  "
            "ETA 6s");
  EXPECT_THAT(progress.line({1000, std::nullopt, std::nullopt}), Not(HasSubstr("ETA")));
}

// Updates made before a resume are on the bar but not in the rate.
TEST_F(Display, RateStartsAtTheResumedUpdate) {
  Progress progress = make(kTerminal, 500);
  run(progress, 500, 10, 2);
  EXPECT_THAT(progress.line({520, 0.5, std::nullopt}),
              HasSubstr("520/1,000  10/s  loss 0.5  ETA 48s"));
}

TEST_F(Display, RateFollowsAChangeOfSpeed) {
  Progress progress = make(kTerminal, 0, 100000);
  run(progress, 0, 100, 10);
  run(progress, 1000, 1000, 30);
  const std::string line = progress.line({31000, std::nullopt, std::nullopt});
  const double rate = std::stod(line.substr(line.find("  ", line.find("31,000/")) + 2));
  EXPECT_GT(rate, 900);
  EXPECT_LE(rate, 1000);
}

TEST_F(Display, NeverWiderThanTheTerminal) {
  for (int columns : {1, 10, 40, 60, 70, 100, 300}) {
    TerminalStyle style = kTerminal;
    style.columns = columns;
    Progress progress = make(style);
    run(progress, 0, 100, 2);
    EXPECT_LT(progress.line({200, 0.0123, 0.071}).size(), static_cast<std::size_t>(columns));
  }
}

TEST_F(Display, KeepsTheCountAndTheTimeLeftLongest) {
  const auto line = [&](int columns) {
    TerminalStyle style = kTerminal;
    style.columns = columns;
    Progress progress = make(style, 0, 10000);
    run(progress, 0, 100, 4);
    return progress.line({400, 0.0123, 0.071});
  };
  EXPECT_EQ(line(70), "nru copy-100  400/10,000  100/s  loss 0.0123 (7.1 %)  ETA 1m 36s");
  EXPECT_EQ(line(64), "nru copy-100  400/10,000  loss 0.0123 (7.1 %)  ETA 1m 36s");
  EXPECT_EQ(line(56), "nru copy-100  400/10,000  loss 0.0123  ETA 1m 36s");
  EXPECT_EQ(line(43), "nru copy-100  400/10,000  ETA 1m 36s");
  EXPECT_EQ(line(30), "nru copy-100  ETA 1m 36s");
}

TEST_F(Display, FollowsTheWidthOfTheWindow) {
  const Descriptor window(::posix_openpt(O_RDWR | O_NOCTTY));
  if (window.get() < 0) GTEST_SKIP() << "no pseudo-terminals here";
  Progress progress = make({.terminal = true, .fd = window.get()});
  for (const unsigned short columns : {90, 30, 50}) {
    const winsize size{24, columns, 0, 0};
    ASSERT_EQ(::ioctl(window.get(), TIOCSWINSZ, &size), 0);
    now_ += 1;
    out_.str("");
    progress.update({static_cast<std::int64_t>(now_), 0.0123, 0.071});
    const std::string drawn = out_.str();  // "\r", the line, "\x1b[K"
    EXPECT_LE(drawn.size() - 4, columns - 1u) << drawn;
    EXPECT_GT(drawn.size() - 4, columns - 10u) << drawn;
  }
}

TEST_F(Display, BlocksAndColourOnlyWhereTheyCanBeShown) {
  Progress plain = make(kTerminal);
  plain.update({500, 0.1, std::nullopt});
  EXPECT_THAT(out_.str(), Not(HasSubstr("\x1b[3")));
  EXPECT_THAT(out_.str(), HasSubstr("###"));
  out_.str("");
  Progress rich = make({true, true, true, 100});
  rich.update({500, 0.1, std::nullopt});
  EXPECT_THAT(out_.str(), HasSubstr("\x1b[32m\u2501"));
  EXPECT_THAT(rich.line({500, 0.1, std::nullopt}), Not(HasSubstr("\x1b")));
}

TEST_F(Display, PlainLinesEveryTenSecondsThenEveryMinute) {
  Progress progress = make({false, false, true, 80}, 0, 100000);
  run(progress, 0, 100, 9.5);
  EXPECT_EQ(out_.str(), "");
  run(progress, 950, 100, 49.5);
  EXPECT_EQ(count('\n'), 5);
  run(progress, 5900, 100, 250);
  EXPECT_EQ(count('\n'), 5 + 1 + 4);
  EXPECT_EQ(count('\r'), 0);
  EXPECT_EQ(count('\x1b'), 0);
  EXPECT_THAT(out_.str(), StartsWith("nru copy-100: update 1,000 of 100,000, 100 updates/s, "
                                     "loss 0.0123 (7.1 % of the baseline), ETA 16m 30s\n"));
  progress.finish();
  EXPECT_EQ(count('\n'), 11);
  EXPECT_THAT(out_.str(), HasSubstr("update 30,900 of 100,000"));
}

TEST_F(Display, MessagesStandOnTheirOwnLine) {
  Progress progress = make(kTerminal);
  progress.update({1, 0.1, std::nullopt});
  out_.str("");
  progress.message("solved at update 1");
  EXPECT_EQ(out_.str(), "\r\x1b[Ksolved at update 1\n");
  out_.str("");
  progress.finish();  // the live line was wiped: it is drawn once more
  EXPECT_THAT(out_.str(), HasSubstr("1/1,000"));

  out_.str("");
  Progress lines = make({false, false, false, 80});
  lines.message("hello");
  lines.finish();
  EXPECT_EQ(out_.str(), "hello\n");
}

}  // namespace
}  // namespace nru::training
