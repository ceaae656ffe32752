// Curves in characters: exact pictures of small ones, and the properties of the rest.
#include "training/curve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>

namespace nru::training {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr TerminalStyle kAscii{false, false, false, 80};
constexpr TerminalStyle kUnicode{true, false, true, 80};
constexpr TerminalStyle kColor{true, true, true, 80};

// Ten to the 0, -1, -2, -3: a straight line on a log axis.
CurveSeries decades() { return {"nru", {0, 10, 20, 30}, {1, 0.1, 0.01, 0.001}}; }

TEST(Curve, AStraightLineInAscii) {
  CurveOptions options;
  options.width = 4;
  options.height = 4;
  EXPECT_EQ(render_curve({decades()}, options, kAscii),
            "        1 |*\n"
            "          | *\n"
            "          |  *\n"
            "    0.001 |   *\n"
            "          +----\n"
            "           0 30 updates\n"
            "           * nru\n");
}

TEST(Curve, AStraightLineInBraille) {
  CurveOptions options;
  options.width = 2;
  options.height = 2;
  // 4 x 8 dots: points at (0,0), (1,2), (2,5), (3,7), joined by (1,1), (1,3), (2,4), (3,6).
  EXPECT_EQ(render_curve({decades()}, options, kUnicode),
            "        1 \u2524\u28b1\n"
            "    0.001 \u2524 \u28a3\n"
            "          \u2514\u2500\u2500\n"
            "           0 30 updates\n"
            "           \u2501 nru\n");
}

TEST(Curve, ReferenceLineAndItsNumber) {
  CurveOptions options;
  options.width = 4;
  options.height = 4;
  options.reference = 0.1;
  EXPECT_EQ(render_curve({decades()}, options, kAscii),
            "        1 |*\n"
            "      0.1 |-*--\n"
            "          |  *\n"
            "    0.001 |   *\n"
            "          +----\n"
            "           0 30 updates\n"
            "           * nru   - baseline\n");
}

TEST(Curve, SeriesCanBeToldApart) {
  const CurveSeries flat{"lstm", {0, 30}, {1, 1}};
  const std::string letters = render_curve({decades(), flat}, {}, kUnicode);
  EXPECT_THAT(letters, HasSubstr("* nru   o lstm"));
  EXPECT_THAT(letters, HasSubstr("ooooo"));
  EXPECT_THAT(letters, Not(HasSubstr("\x1b")));
  const std::string colored = render_curve({decades(), flat}, {}, kColor);
  EXPECT_THAT(colored, HasSubstr("\x1b[36m"));
  EXPECT_THAT(colored, HasSubstr("\x1b[33m"));
  EXPECT_THAT(colored, HasSubstr("\u2501\x1b[0m lstm"));
}

TEST(Curve, EveryLineFitsTheGivenSize) {
  CurveSeries noisy{"nru", {}, {}};
  for (int i = 0; i < 5000; ++i) {
    noisy.x.push_back(i);
    noisy.y.push_back(std::exp(std::sin(i * 0.7) * 5));
  }
  CurveOptions options;
  options.width = 40;
  options.height = 6;
  std::istringstream lines(render_curve({noisy}, options, kAscii));
  std::string line;
  int count = 0;
  for (; std::getline(lines, line); ++count) EXPECT_LE(line.size(), 11u + 40u);
  EXPECT_EQ(count, 6 + 3);
}

TEST(Curve, PointsThatCannotBeDrawnAreLeftOut) {
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  CurveSeries with_holes = decades();
  for (double bad : {nan, inf, -inf, 0.0, -1.0}) {
    with_holes.x.push_back(10);  // beside a good point
    with_holes.y.push_back(bad);
  }
  EXPECT_EQ(render_curve({with_holes}, {}, kUnicode), render_curve({decades()}, {}, kUnicode));
  EXPECT_EQ(render_curve({}, {}, kAscii), "");
  EXPECT_EQ(render_curve({{"nru", {}, {}}}, {}, kAscii), "");
  EXPECT_EQ(render_curve({{"nru", {1, 2}, {nan, -1}}}, {}, kAscii), "");
  EXPECT_THAT(render_curve({{"nru", {5}, {0.3}}}, {}, kAscii), HasSubstr("*"));  // a single point
  CurveOptions linear;
  linear.log_y = false;
  EXPECT_THAT(render_curve({{"nru", {0, 1}, {-1, 0}}}, linear, kAscii), HasSubstr("-1 |"));
}

}  // namespace
}  // namespace nru::training
