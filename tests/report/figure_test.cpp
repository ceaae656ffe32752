// Figures: what gnuplot is asked to draw, and that it draws it.
#include "report/figure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>

#include "../support/test_files.h"
#include "report/escape.h"
#include "report/gnuplot.h"

namespace nru::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Line line(const std::string& name, std::vector<double> y) {
  Line made;
  made.name = name;
  made.style = style_of("nru");
  for (std::size_t i = 0; i < y.size(); ++i) made.x.push_back(static_cast<double>(i));
  made.y = std::move(y);
  return made;
}

LineFigure figure_of(Line one) {
  LineFigure figure;
  figure.title = "a figure";
  figure.x.label = "updates";
  figure.y.label = "loss";
  figure.lines.push_back(std::move(one));
  return figure;
}

// Without the whole document in the message.
bool contains(const std::string& svg, const std::string& text) {
  return svg.find(text) != std::string::npos;
}

#define NEEDS_GNUPLOT() \
  if (!has_gnuplot()) GTEST_SKIP() << "gnuplot is not installed (apt-get install gnuplot-nox)"

TEST(Figure, LinesBandAndReferenceAreDrawn) {
  NEEDS_GNUPLOT();
  Line nru = line("NRU", {3, 2, 1});
  nru.low = {2, 1, 0.5};
  nru.high = {4, 3, 2};
  LineFigure figure = figure_of(nru);
  figure.references.push_back({2.5, "baseline"});
  const std::string svg = to_svg(figure);
  for (const char* text : {"a figure", "NRU", "baseline", "updates", "loss", "</svg>"}) {
    EXPECT_TRUE(contains(svg, text)) << text;
  }
  EXPECT_TRUE(contains(svg, "fill-opacity"));        // the band
  EXPECT_TRUE(contains(svg, "rgb(154,   6,   0)"));  // the NRU's colour
  EXPECT_THAT(gnuplot_script(figure), HasSubstr("filledcurves"));
  figure.lines[0].low.clear();
  EXPECT_THAT(gnuplot_script(figure), Not(HasSubstr("filledcurves")));
}

TEST(Figure, LongNamesGoBelowThePlot) {
  LineFigure figure = figure_of(line("NRU", {3, 2, 1}));
  EXPECT_THAT(gnuplot_script(figure), HasSubstr("set key outside right top "));
  figure.lines.push_back(line("a name that would leave no room for the curves", {1, 2, 3}));
  EXPECT_THAT(gnuplot_script(figure), HasSubstr("set key outside center bottom "));
}

TEST(Figure, HostileNamesAreOnlyText) {
  NEEDS_GNUPLOT();
  const test::TempDir folder;
  const std::string witness = (folder / "witness").string();
  const std::string command = "touch " + witness;
  for (const std::string& name :
       {"'; system('" + command + "') #", "\"; system(\"" + command + "\") #", "`" + command + "`",
        "@x\n!" + command, std::string("\\' . system('") + command + "') . '",
        std::string("$x ' \\134 <script>&\xff\x01")}) {
    LineFigure figure = figure_of(line(name, {1, 2}));
    figure.title = figure.x.label = name;
    const std::string svg = to_svg(figure);
    EXPECT_TRUE(contains(svg, "</svg>")) << name;
    EXPECT_FALSE(contains(svg, "<script>")) << name;
    EXPECT_TRUE(svg == clean_text(svg)) << name;  // valid UTF-8, no control characters
    EXPECT_FALSE(std::filesystem::exists(witness)) << name;
  }
}

TEST(Figure, GapsAndPointsALogAxisCannotShow) {
  LineFigure figure = figure_of(line("x", {1, kNaN, 3, 0, INFINITY}));
  EXPECT_THAT(gnuplot_script(figure), HasSubstr("0 1 1 1\n\n2 3 3 3\n3 0 0 0\n\nEOD"));
  figure.y.log = true;
  EXPECT_THAT(gnuplot_script(figure), HasSubstr("0 1 1 1\n\n2 3 3 3\n\n\nEOD"));
}

TEST(Figure, NothingToDrawSaysSo) {
  NEEDS_GNUPLOT();
  EXPECT_TRUE(contains(to_svg(LineFigure{}), "no data yet"));
  EXPECT_TRUE(contains(to_svg(figure_of(line("x", {kNaN, kNaN}))), "no data yet"));
  EXPECT_TRUE(contains(to_svg(BarFigure{}), "no data yet"));
  EXPECT_TRUE(contains(to_svg(HeatMap{}), "no data yet"));
}

TEST(Figure, BarsSolidOpenAndMissing) {
  NEEDS_GNUPLOT();
  BarFigure figure;
  figure.title = "steps";
  figure.groups = {"copy", "denoise", "nothing at all here, T = 100"};
  figure.series = {{"NRU", style_of("nru"), {{100, 80, 120, false}, {200, {}, {}, true}, {}}}};
  const std::string script = gnuplot_script(figure);
  EXPECT_THAT(script, HasSubstr("$solid0 << EOD\n0 100\nEOD"));
  EXPECT_THAT(script, HasSubstr("$open0 << EOD\n2 200\nEOD"));
  EXPECT_THAT(script, HasSubstr("$whiskers0 << EOD\n0 100 80 120\nEOD"));
  EXPECT_THAT(script, HasSubstr("\"nothing at all\".\"\\n\".\"here, T = 100\" 4"));
  EXPECT_TRUE(contains(to_svg(figure), "denoise"));
}

TEST(Figure, HeatMapIsSymmetricAroundZero) {
  NEEDS_GNUPLOT();
  HeatMap map;
  map.columns = 3;
  map.rows = 2;
  map.values = {-4, 0, 1, 2, kNaN, 3};
  map.stretches = {{0, 1, "data"}};
  EXPECT_THAT(gnuplot_script(map), HasSubstr("set cbrange [-4:4]"));
  EXPECT_THAT(gnuplot_script(map), HasSubstr("-4 0 1\n2 NaN 3\n"));
  EXPECT_TRUE(contains(to_svg(map), "data"));
  map.values.pop_back();  // no whole matrix
  EXPECT_TRUE(contains(to_svg(map), "no data yet"));
}

TEST(Figure, ThinningKeepsMeansAndExtremes) {
  Line full = line("x", {});
  for (int i = 0; i < 1000; ++i) {
    full.x.push_back(i);
    full.y.push_back(i % 10);
    full.low.push_back(i == 505 ? -7 : 0);
    full.high.push_back(9);
  }
  const Line thin = thinned(full, 100);
  ASSERT_EQ(thin.x.size(), 100u);
  EXPECT_DOUBLE_EQ(thin.x[0], 4.5);
  EXPECT_DOUBLE_EQ(thin.y[50], 4.5);
  EXPECT_EQ(thin.low[50], -7);
  EXPECT_EQ(thin.low[49], 0);
  EXPECT_EQ(thin.name, "x");
  EXPECT_EQ(thinned(thin, 100).y, thin.y);  // short enough: as it is
}

TEST(Figure, MissingGnuplotSaysHowToGetIt) {
  const char* path = std::getenv("PATH");
  const std::string before = path == nullptr ? "" : path;
  ::setenv("PATH", "/nowhere", 1);
  const std::string message = test::error_of([] { to_svg(LineFigure{}); });
  const bool there = has_gnuplot();
  ::setenv("PATH", before.c_str(), 1);
  EXPECT_THAT(message, HasSubstr("apt-get install gnuplot-nox"));
  EXPECT_FALSE(there);
}

TEST(Figure, WhatGnuplotSaysReachesTheUser) {
  NEEDS_GNUPLOT();
  EXPECT_THAT(test::error_of([] { run_gnuplot("plot nonsense(\n"); }), HasSubstr("gnuplot"));
}

TEST(Escape, HtmlAndMarkdown) {
  EXPECT_EQ(html("<a href=\"x\">&'"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;");
  EXPECT_EQ(html("a\xff\x01"), "a\xef\xbf\xbd ");
  EXPECT_EQ(markdown("a|b\n*c* <d>"), "a\\|b \\*c\\* \\<d\\>");
}

}  // namespace
}  // namespace nru::report
