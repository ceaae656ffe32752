// Figures as data, and as static SVG through gnuplot. The same data feeds the interactive page.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "report/style.h"

namespace nru::report {

struct Axis {
  std::string label;
  bool log = false;  // values that are not positive are left out
  std::optional<double> low = {}, high = {};
  bool counts = false;  // large whole numbers, written as 50k
};

struct Line {
  std::string name;  // for the legend
  Style style;
  std::vector<double> x, y;       // non-finite y: a gap
  std::vector<double> low, high;  // a band, as long as y; empty: none
};

struct Reference {  // a horizontal line, such as the baseline
  double y = 0;
  std::string label;
};

struct LineFigure {
  std::string title;
  Axis x, y;
  std::vector<Line> lines;
  std::vector<Reference> references;
};

// Groups of bars, one bar of each series in every group.
struct BarFigure {
  struct Bar {
    std::optional<double> value;                // empty: nothing to show there
    std::optional<double> low = {}, high = {};  // whiskers
    bool open = false;  // at least this much: not solved within so many updates
  };
  struct Series {
    std::string name;
    Style style;
    std::vector<Bar> bars;  // one per group
  };
  std::string title;
  Axis y;
  std::vector<std::string> groups;
  std::vector<Series> series;
};

// A matrix as colours, symmetric around zero: blue below, white at zero, red above.
struct HeatMap {
  struct Stretch {  // a run of columns with a name, marked above the map
    int first = 0, last = 0;
    std::string label;
  };
  std::string title;
  std::string x_label, y_label;
  int columns = 0, rows = 0;
  std::vector<double> values;   // [rows, columns], row 0 at the bottom; non-finite: left blank
  std::optional<double> limit;  // of the colours; empty: the largest magnitude
  std::vector<Stretch> stretches;
};

// The figure as an SVG document. Throws nru::Error when gnuplot is missing (with the way to get it)
// or refuses. Names and labels may hold anything.
std::string to_svg(const LineFigure& figure);
std::string to_svg(const BarFigure& figure);
std::string to_svg(const HeatMap& figure);

bool has_gnuplot();

// Rows that a plot of a few hundred pixels needs: x and y become the means of `most` equal groups
// of points, `low` and `high` the extremes. Up to `most` points stay as they are.
Line thinned(const Line& line, std::size_t most = 400);

// The gnuplot program of a figure, for those who want to change it and for tests.
std::string gnuplot_script(const LineFigure& figure);
std::string gnuplot_script(const BarFigure& figure);
std::string gnuplot_script(const HeatMap& figure);

}  // namespace nru::report
