// Curves in characters: points are averaged into the columns there are and joined by lines.
#include "training/curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "training/progress.h"

namespace nru::training {
namespace {

constexpr char kMarks[] = "*o+x#@";
constexpr int kColors[] = {36, 33, 35, 32, 31, 34};  // cyan, yellow, magenta, green, red, blue
constexpr int kStyles = 6;

// Dots of a braille character, by column and row.
constexpr std::uint8_t kDots[2][4] = {{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}};

std::string braille(std::uint8_t dots) {  // U+2800 + dots
  return {'\xe2', static_cast<char>(0xa0 | (dots >> 6)), static_cast<char>(0x80 | (dots & 0x3f))};
}

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return low > high; }
  // 0..count-1, for values within.
  int place(double value, int count) const {
    if (high == low) return (count - 1) / 2;
    const double part = std::clamp((value - low) / (high - low), 0.0, 1.0);
    return static_cast<int>(std::lround(part * (count - 1)));
  }
};

// What is in one character of the plot.
struct Cell {
  std::uint8_t dots = 0;
  int series = -1;  // the last that drew here
  bool reference = false;
};

class Plot {
 public:
  Plot(const CurveOptions& options, const TerminalStyle& style, bool dots)
      : options_(options),
        style_(style),
        fine_x_(dots ? 2 : 1),
        fine_y_(dots ? 4 : 1),
        width_(std::max(options.width, 2)),
        height_(std::max(options.height, 2)),
        cells_(static_cast<std::size_t>(width_) * height_) {}

  bool drawable(double x, double y) const {
    return std::isfinite(x) && std::isfinite(y) && (!options_.log_y || y > 0);
  }
  double scaled(double y) const { return options_.log_y ? std::log10(y) : y; }

  void set_ranges(const std::vector<CurveSeries>& series);
  bool empty() const { return x_.empty(); }
  void draw_reference();
  void draw(const CurveSeries& series, int number);
  std::string text(const std::vector<CurveSeries>& series) const;

 private:
  std::vector<double> column_means(const CurveSeries& series) const;
  void dot(int column, int row, int series);
  std::string cell_text(const Cell& cell) const;
  std::string row_text(int row) const;
  std::string colored(const std::string& text, int series) const;
  std::string label(int row) const;
  std::string legend(const std::vector<CurveSeries>& series) const;
  Cell& cell(int column, int row) {
    return cells_[static_cast<std::size_t>(row) * width_ + column];
  }
  const Cell& cell(int column, int row) const {
    return cells_[static_cast<std::size_t>(row) * width_ + column];
  }
  // Through the finer rows, so that a curve at the reference lies in the same line.
  int reference_row() const {
    const int rows = height_ * fine_y_;
    return (rows - 1 - y_.place(scaled(*options_.reference), rows)) / fine_y_;
  }

  const CurveOptions& options_;
  const TerminalStyle& style_;
  int fine_x_, fine_y_;  // dots per character
  int width_, height_;
  std::vector<Cell> cells_;
  Range x_, y_;
};

// x as given, y as means per column: a single spike must not flatten everything else.
void Plot::set_ranges(const std::vector<CurveSeries>& series) {
  for (const CurveSeries& one : series) {
    for (std::size_t i = 0; i < std::min(one.x.size(), one.y.size()); ++i) {
      if (drawable(one.x[i], one.y[i])) x_.include(one.x[i]);
    }
  }
  for (const CurveSeries& one : series) {
    for (double mean : column_means(one)) {
      if (!std::isnan(mean)) y_.include(mean);
    }
  }
  if (!empty() && options_.reference && drawable(0, *options_.reference)) {
    y_.include(scaled(*options_.reference));
  }
}

// The mean (on the axis' scale) of the points that fall into each dot column; NaN where there are
// none.
std::vector<double> Plot::column_means(const CurveSeries& series) const {
  const int columns = width_ * fine_x_;
  std::vector<double> sums(columns, 0.0);
  std::vector<int> counts(columns, 0);
  for (std::size_t i = 0; i < std::min(series.x.size(), series.y.size()); ++i) {
    if (!drawable(series.x[i], series.y[i])) continue;
    const int column = x_.place(series.x[i], columns);
    sums[column] += scaled(series.y[i]);
    ++counts[column];
  }
  for (int c = 0; c < columns; ++c) {
    sums[c] = counts[c] > 0 ? sums[c] / counts[c] : std::numeric_limits<double>::quiet_NaN();
  }
  return sums;
}

void Plot::dot(int column, int row, int series) {
  Cell& at = cell(column / fine_x_, row / fine_y_);
  at.dots |= kDots[column % fine_x_][row % fine_y_];
  at.series = series;
}

void Plot::draw_reference() {
  if (!options_.reference || !drawable(0, *options_.reference)) return;
  for (int column = 0; column < width_; ++column) cell(column, reference_row()).reference = true;
}

void Plot::draw(const CurveSeries& series, int number) {
  const std::vector<double> means = column_means(series);
  const int rows = height_ * fine_y_;
  int last_column = -1, last_row = 0;
  for (int column = 0; column < static_cast<int>(means.size()); ++column) {
    if (std::isnan(means[column])) continue;
    const int row = rows - 1 - y_.place(means[column], rows);
    dot(column, row, number);
    const int steps =
        last_column < 0 ? 0 : std::max(column - last_column, std::abs(row - last_row));
    for (int step = 1; step < steps; ++step) {
      const double part = static_cast<double>(step) / steps;
      dot(last_column + static_cast<int>(std::lround(part * (column - last_column))),
          last_row + static_cast<int>(std::lround(part * (row - last_row))), number);
    }
    last_column = column;
    last_row = row;
  }
}

std::string Plot::colored(const std::string& text, int series) const {
  if (!style_.color) return text;
  return fmt::format("\x1b[{}m{}\x1b[0m", kColors[series % kStyles], text);
}

std::string Plot::cell_text(const Cell& cell) const {
  if (cell.series < 0) return !cell.reference ? " " : style_.utf8 ? "\u254c" : "-";
  return fine_x_ == 2 ? braille(cell.dots) : std::string(1, kMarks[cell.series % kStyles]);
}

// One line of the plotting area: neighbours of one series share their colour code, and blanks at
// the end are left out.
std::string Plot::row_text(int row) const {
  std::string line, run;
  int series = -1;
  const auto flush = [&] {
    line += series < 0 ? run : colored(run, series);
    run.clear();
  };
  int last = width_ - 1;
  while (last >= 0 && cell(last, row).series < 0 && !cell(last, row).reference) --last;
  for (int column = 0; column <= last; ++column) {
    const Cell& at = cell(column, row);
    if (at.series != series) flush();
    series = at.series;
    run += cell_text(at);
  }
  flush();
  return line;
}

// Numbers at the top, the bottom and the reference, where they do not meet.
std::string Plot::label(int row) const {
  const auto number = [&](double y) {
    return fmt::format("{:.3g}", options_.log_y ? std::pow(10, y) : y);
  };
  if (row == 0) return number(y_.high);
  if (row == height_ - 1) return number(y_.low);
  if (options_.reference && drawable(0, *options_.reference) && row == reference_row()) {
    return fmt::format("{:.3g}", *options_.reference);
  }
  return "";
}

std::string Plot::legend(const std::vector<CurveSeries>& series) const {
  std::vector<std::string> entries;
  for (std::size_t i = 0; i < series.size(); ++i) {
    const int number = static_cast<int>(i);
    const std::string line = fine_x_ == 2 ? "\u2501" : std::string(1, kMarks[number % kStyles]);
    entries.push_back(fmt::format("{} {}", colored(line, number), series[i].name));
  }
  if (options_.reference && drawable(0, *options_.reference)) {
    entries.push_back(fmt::format("{} {}", style_.utf8 ? "\u254c" : "-", options_.reference_name));
  }
  return fmt::format("{}", fmt::join(entries, "   "));
}

std::string Plot::text(const std::vector<CurveSeries>& series) const {
  const int margin = 9;
  std::string text;
  for (int row = 0; row < height_; ++row) {
    const std::string number = label(row);
    const char* axis = style_.utf8 ? (number.empty() ? "\u2502" : "\u2524") : "|";
    text += fmt::format("{:>{}} {}{}\n", number, margin, axis, row_text(row));
  }
  std::string floor;
  for (int column = 0; column < width_; ++column) floor += style_.utf8 ? "\u2500" : "-";
  text += fmt::format("{:>{}} {}{}\n", "", margin, style_.utf8 ? "\u2514" : "+", floor);
  const std::string first = format_count(std::llround(x_.low));
  const std::string last = format_count(std::llround(x_.high)) + " updates";
  const int gap =
      std::max(width_ - static_cast<int>(first.size()), static_cast<int>(last.size()) + 1);
  text += fmt::format("{:>{}}  {}{:>{}}\n", "", margin, first, last, gap);
  text += fmt::format("{:>{}}  {}\n", "", margin, legend(series));
  return text;
}

}  // namespace

std::string render_curve(const std::vector<CurveSeries>& series, const CurveOptions& options,
                         const TerminalStyle& style) {
  const bool dots = style.utf8 && (series.size() == 1 || style.color);
  Plot plot(options, style, dots);
  plot.set_ranges(series);
  if (plot.empty()) return "";
  plot.draw_reference();
  for (std::size_t i = 0; i < series.size(); ++i) plot.draw(series[i], static_cast<int>(i));
  return plot.text(series);
}

}  // namespace nru::training
