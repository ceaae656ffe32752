#include "report/style.h"

#include <algorithm>

namespace nru::report {

const std::vector<Style>& cell_styles() {
  static const std::vector<Style> table = {
      {"rnn-orth", "RNN-orth", "#70054a", "#84508f", {2, 3}, 1.8},
      {"rnn-id", "RNN-id", "#989396", "#b56072", {6, 3}, 1.8},
      {"lstm", "LSTM", "#1a0000", "#fff3ba", {10, 4}, 1.8},
      {"lstm-chrono", "LSTM-chrono", "#087d47", "#11bc57", {}, 1.8},
      {"gru", "GRU", "#a25aa3", "#b69dc5", {10, 3, 2, 3}, 1.8},
      {"janet", "JANET", "#0b2a81", "#6057c9", {}, 1.8},
      {"sru", "SRU", "#e76410", "#b1f13c", {4, 3}, 1.8},
      {"eurnn", "EURNN", "#0c98ff", "#96ffef", {}, 1.8},
      {"goru", "GORU", "#7113d1", "#8ea5ff", {14, 3, 2, 3, 2, 3}, 1.8},
      {"nru", "NRU", "#9a0600", "#d54214", {}, 3.0},
  };
  return table;
}

std::size_t place_of(std::string_view cell) {
  const std::vector<Style>& table = cell_styles();
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const Style& style) { return style.cell == cell; });
  return static_cast<std::size_t>(found - table.begin());
}

Style style_of(std::string_view cell) {
  const std::size_t place = place_of(cell);
  if (place < cell_styles().size()) return cell_styles()[place];
  return {std::string(cell), std::string(cell), "#5c5c5c", "#bdbdbd", {8, 2, 2, 2}, 1.8};
}

Style style_at(std::size_t index) {
  // Solid and strong ones first: few variants are told apart best by these.
  static const std::vector<std::string> order = {
      "nru", "eurnn", "lstm-chrono", "goru", "sru", "lstm", "gru", "janet", "rnn-orth", "rnn-id"};
  Style style = style_of(order[index % order.size()]);
  style.cell.clear();
  style.label.clear();
  return style;
}

}  // namespace nru::report
