// The figures of an experiment, from its runs.
//
// A curve is the median over seeds on a grid of points that all lines of the figure share, its band
// goes from the least to the greatest. A run that stopped because it had settled is held at its
// last value; any other that ended is left out from there on.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "report/collection.h"
#include "report/figure.h"
#include "report/inspection.h"

namespace nru::report {

struct NamedFigure {
  std::string name;     // of the file, unique in a report
  std::string caption;  // what is shown, in words: also its alternative text
  std::variant<LineFigure, BarFigure, HeatMap> drawing;
};

// A memory to scrub through, of one run.
struct NamedMap {
  std::string name;
  std::string label;  // "NRU, seed 1"
  MemoryMap map;
};

struct Figures {
  std::vector<NamedFigure> figures;
  std::vector<NamedMap> maps;
};

Figures figures_of(const Collection& collection, const experiments::Experiment& experiment,
                   const std::vector<Series>& series);

// Which rows and which column of them a line figure shows.
struct Shown {
  Rows Run::*rows = &Run::train;
  std::optional<double> training::MetricsRow::*value = &training::MetricsRow::loss;
  bool by_epoch = false;
};

// One line per series with any points, all on the same x.
std::vector<Line> median_lines(const std::vector<const Series*>& series, const Shown& shown);

// Two columns of a file of `nru inspect`.
struct TableColumns {
  std::string file, x, y;
  bool over_last = false;  // y as a share of its last value
};

// One line per series that has them, on the x of its longest table.
std::vector<Line> median_lines(const std::vector<Series>& series, const TableColumns& columns);

}  // namespace nru::report
