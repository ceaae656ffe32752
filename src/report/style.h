// How a cell looks in every figure: one table, so that the NRU is the same line everywhere.
//
// Colours differ by at least 25 units of CIE76 in Lab for normal sight and under simulated
// protanopia, deuteranopia and tritanopia, and have a contrast of at least 3:1 to their background;
// the dash pattern says the same a second time.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace nru::report {

struct Style {
  std::string cell;       // the cell's name; empty for a variant's style
  std::string label;      // as the paper writes it: "LSTM-chrono"
  std::string color;      // "#rrggbb" on white
  std::string dark;       // on a dark page
  std::vector<int> dash;  // lengths of strokes and gaps in pixels; empty: solid
  double width = 1.8;
};

// The ten cells in the paper's order, the NRU last.
const std::vector<Style>& cell_styles();

// The style of a cell; of one the table does not know, its name in grey.
Style style_of(std::string_view cell);

// The i-th of a series of things that are not cells, such as the variants of one. The first has the
// NRU's look.
Style style_at(std::size_t index);

// Where the cell comes in figures and tables: its place in the table, unknown ones last.
std::size_t place_of(std::string_view cell);

}  // namespace nru::report
