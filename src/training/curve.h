// A small curve of losses for the terminal, so that a run shows what it learned without opening a
// picture.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "support/terminal.h"

namespace nru::training {

struct CurveSeries {
  std::string name;
  std::vector<double> x;  // updates
  std::vector<double> y;  // losses; points that cannot be drawn (non-finite; not positive on a log
                          // axis) are left out
};

struct CurveOptions {
  int width = 64;   // characters of the plotting area
  int height = 12;  // lines of it
  bool log_y = true;
  std::optional<double> reference;  // a horizontal line, such as the baseline
  std::string reference_name = "baseline";
};

// Lines ending in '\n': the plot with its axes and a legend. Braille dots where the terminal shows
// Unicode and the series can be told apart (a single one, or colours); one letter per series
// otherwise. Empty when there is nothing to draw.
std::string render_curve(const std::vector<CurveSeries>& series, const CurveOptions& options,
                         const TerminalStyle& style);

}  // namespace nru::training
