// The gnuplot programs behind the static figures.
#include "report/figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "report/gnuplot.h"

namespace nru::report {
namespace {

constexpr char kGrey[] = "#777777";

std::string opening(const std::string& title, int width, int height) {
  return fmt::format(
      "set terminal svg size {},{} font 'sans-serif,13' noenhanced background 'white' rounded\n"
      "set title {} font ',15'\n"
      "set grid ytics lc rgb '#dddddd' lw 0.7\n"
      "set border 3 lc rgb '{}'\n"
      "set tics nomirror textcolor rgb '#222222'\n",
      width, height, gnuplot_string(title), kGrey);
}

std::string bound(const std::optional<double>& value) {
  return value ? gnuplot_number(*value) : "*";
}

std::string axis(char name, const Axis& axis) {
  std::string text = fmt::format("set {0}label {1}\nset {0}range [{2}:{3}]\n", name,
                                 gnuplot_string(axis.label), bound(axis.low), bound(axis.high));
  if (axis.log) text += fmt::format("set logscale {0} 10\nset format {0} '%g'\n", name);
  if (axis.counts) text += fmt::format("set format {} '%.0s%c'\n", name);
  return text;
}

std::string dash_of(const Style& style) {
  if (style.dash.empty()) return "dt solid";
  return fmt::format("dt ({})", fmt::join(style.dash, ","));
}

double drawable(double value, const Axis& axis) {
  const bool hidden = !std::isfinite(value) || (axis.log && value <= 0);
  return hidden ? std::numeric_limits<double>::quiet_NaN() : value;
}

// x, y and the band, one point a line; a gap is an empty line.
std::string data_block(const std::string& name, const Line& line, const LineFigure& figure) {
  const bool band = line.low.size() == line.y.size() && line.high.size() == line.y.size();
  std::string text = fmt::format("${} << EOD\n", name);
  for (std::size_t i = 0; i < std::min(line.x.size(), line.y.size()); ++i) {
    const double x = drawable(line.x[i], figure.x), y = drawable(line.y[i], figure.y);
    if (std::isnan(x) || std::isnan(y)) {
      text += "\n";
      continue;
    }
    double low = band ? drawable(line.low[i], figure.y) : y;
    double high = band ? drawable(line.high[i], figure.y) : y;
    if (std::isnan(low)) low = y;
    if (std::isnan(high)) high = y;
    text += fmt::format("{} {} {} {}\n", gnuplot_number(x), gnuplot_number(y), gnuplot_number(low),
                        gnuplot_number(high));
  }
  return text + "EOD\n";
}

bool has_points(const Line& line, const LineFigure& figure) {
  for (std::size_t i = 0; i < std::min(line.x.size(), line.y.size()); ++i) {
    if (!std::isnan(drawable(line.x[i], figure.x)) && !std::isnan(drawable(line.y[i], figure.y)))
      return true;
  }
  return false;
}

// gnuplot refuses a plot without points: an empty frame says so instead.
std::string empty_plot() {
  return "set xrange [0:1]\nset yrange [0:1]\nunset tics\nunset logscale\n"
         "set label 1 'no data yet' at graph 0.5,0.5 center\nplot NaN notitle\n";
}

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

Line thinned(const Line& line, std::size_t most) {
  const std::size_t count = std::min(line.x.size(), line.y.size());
  if (count <= most || most == 0) return line;
  Line result;
  result.name = line.name;
  result.style = line.style;
  const bool band = line.low.size() == count && line.high.size() == count;
  for (std::size_t group = 0; group < most; ++group) {
    const std::size_t first = group * count / most, last = (group + 1) * count / most;
    const auto part = [&](const std::vector<double>& all) {
      return std::span(all).subspan(first, last - first);
    };
    result.x.push_back(mean(part(line.x)));
    result.y.push_back(mean(part(line.y)));
    if (band) {
      result.low.push_back(std::ranges::min(part(line.low)));
      result.high.push_back(std::ranges::max(part(line.high)));
    }
  }
  return result;
}

// Long names go below the plot, one a line: beside it they would leave no room for the curves.
std::string gnuplot_script(const LineFigure& figure) {
  constexpr std::size_t kBeside = 28;
  constexpr int kLineHeight = 20;
  const bool below = std::ranges::any_of(
      figure.lines, [](const Line& line) { return line.name.size() > kBeside; });
  const int names = static_cast<int>(figure.lines.size() + figure.references.size());
  std::string text = opening(figure.title, 860, 480 + (below ? kLineHeight * names : 0));
  text += axis('x', figure.x) + axis('y', figure.y);
  text += fmt::format("set key outside {} Left reverse width -1 samplen 3\n",
                      below ? "center bottom maxcols 1" : "right top");
  if (below) text += "set xlabel offset 0,0.6\n";
  std::vector<std::string> bands, curves;
  for (std::size_t i = 0; i < figure.lines.size(); ++i) {
    const Line line = thinned(figure.lines[i]);
    if (!has_points(line, figure)) continue;
    const std::string data = fmt::format("line{}", i);
    text += data_block(data, line, figure);
    if (!line.low.empty()) {
      bands.push_back(
          fmt::format("${} using 1:3:4 with filledcurves fs transparent solid 0.15 noborder lc rgb "
                      "'{}' notitle",
                      data, line.style.color));
    }
    curves.push_back(fmt::format("${} using 1:2 with lines lc rgb '{}' lw {:.3g} {} title {}", data,
                                 line.style.color, line.style.width, dash_of(line.style),
                                 gnuplot_string(line.name)));
  }
  if (curves.empty()) return text + empty_plot();
  for (const Reference& reference : figure.references) {
    if (std::isnan(drawable(reference.y, figure.y))) continue;
    curves.push_back(fmt::format("{} with lines lc rgb '{}' lw 1.2 dt (4,4) title {}",
                                 gnuplot_number(reference.y), kGrey,
                                 gnuplot_string(reference.label)));
  }
  bands.insert(bands.end(), curves.begin(), curves.end());
  return text + fmt::format("plot {}\n", fmt::join(bands, ", \\\n  "));
}

// In short lines, so that neighbours have room.
std::string group_label(const std::string& name) {
  constexpr std::size_t kWidth = 16;
  std::string label;
  std::size_t begin = 0;
  while (name.size() - begin > kWidth) {
    const std::size_t space = name.rfind(' ', begin + kWidth);
    if (space == std::string::npos || space <= begin) break;
    label += gnuplot_string(name.substr(begin, space - begin)) + ".\"\\n\".";
    begin = space + 1;
  }
  return label + gnuplot_string(name.substr(begin));
}

std::string gnuplot_script(const BarFigure& figure) {
  std::string text = opening(figure.title, 860, 440);
  text += axis('y', figure.y);
  text += "set key outside right top Left reverse width -1\nunset grid\nset boxwidth 1\n";
  text += "set bmargin 4\n";  // for group_label()
  const double step = static_cast<double>(figure.series.size()) + 1;
  std::vector<std::string> tics, plots;
  for (std::size_t group = 0; group < figure.groups.size(); ++group) {
    tics.push_back(fmt::format("{} {}", group_label(figure.groups[group]),
                               static_cast<double>(group) * step + (step - 2) / 2));
  }
  for (std::size_t i = 0; i < figure.series.size(); ++i) {
    const BarFigure::Series& series = figure.series[i];
    std::string solid, open, whiskers;
    for (std::size_t group = 0; group < series.bars.size(); ++group) {
      const BarFigure::Bar& bar = series.bars[group];
      if (!bar.value || std::isnan(drawable(*bar.value, figure.y))) continue;
      const double x = static_cast<double>(group) * step + static_cast<double>(i);
      (bar.open ? open : solid) += fmt::format("{} {}\n", x, gnuplot_number(*bar.value));
      if (bar.low && bar.high && *bar.low < *bar.high) {
        whiskers += fmt::format("{} {} {} {}\n", x, gnuplot_number(*bar.value),
                                gnuplot_number(*bar.low), gnuplot_number(*bar.high));
      }
    }
    const auto add = [&](const char* kind, const std::string& rows, const std::string& how) {
      if (rows.empty()) return;
      const std::string data = fmt::format("{}{}", kind, i);
      text += fmt::format("${} << EOD\n{}EOD\n", data, rows);
      plots.push_back(fmt::format("${} {}", data, how));
    };
    const std::string title = gnuplot_string(series.name), &color = series.style.color;
    add("solid", solid,
        fmt::format("with boxes lc rgb '{}' fs solid 0.9 noborder title {}", color, title));
    add("open", open,
        fmt::format("with boxes lc rgb '{0}' fs pattern 4 border lc rgb '{0}' {1}", color,
                    solid.empty() ? "title " + title : "notitle"));
    add("whiskers", whiskers,
        "using 1:3:(0):($4-$3) with vectors heads size graph 0.008,90 lw 1.3 lc rgb '#222222' "
        "notitle");
  }
  if (plots.empty()) return text + empty_plot();
  const double end = static_cast<double>(figure.groups.size()) * step - 1;
  text += fmt::format("set xrange [-1:{}]\nset xtics scale 0 ({})\n", end, fmt::join(tics, ", "));
  return text + fmt::format("plot {}\n", fmt::join(plots, ", \\\n  "));
}

std::string gnuplot_script(const HeatMap& figure) {
  std::string text = opening(figure.title, 860, 460);
  const auto expected = static_cast<std::size_t>(figure.rows) * figure.columns;
  double largest = 0;
  for (const double value : figure.values) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  if (expected == 0 || figure.values.size() != expected) return text + empty_plot();
  const double limit = figure.limit.value_or(largest > 0 ? largest : 1);
  text += fmt::format(
      "unset grid\nunset key\nset border 15\nset xlabel {}\nset ylabel {}\n"
      "set palette defined (-1 '#053061', -0.5 '#4393c3', 0 '#f7f7f7', 0.5 '#d6604d', "
      "1 '#67001f')\n"
      "set cbrange [{}:{}]\nset xrange [-0.5:{}]\nset yrange [-0.5:{}]\n",
      gnuplot_string(figure.x_label), gnuplot_string(figure.y_label), gnuplot_number(-limit),
      gnuplot_number(limit), figure.columns - 0.5, figure.rows - 0.5);
  int label = 1;
  for (const HeatMap::Stretch& stretch : figure.stretches) {
    text += fmt::format(
        "set label {} {} at {},graph 1.03 center font ',11'\n"
        "set arrow {} from {},graph 0 to {},graph 1 nohead lw 1 dt (3,3) lc rgb '#222222' front\n",
        label, gnuplot_string(stretch.label), (stretch.first + stretch.last) / 2.0, label,
        stretch.last + 0.5, stretch.last + 0.5);
    ++label;
  }
  if (!figure.stretches.empty()) text += "set title offset 0,0.4\n";
  text += "$map << EOD\n";
  for (int row = 0; row < figure.rows; ++row) {
    for (int column = 0; column < figure.columns; ++column) {
      text +=
          gnuplot_number(figure.values[static_cast<std::size_t>(row) * figure.columns + column]);
      text += column + 1 < figure.columns ? ' ' : '\n';
    }
  }
  return text + "EOD\nplot $map matrix with image\n";
}

std::string to_svg(const LineFigure& figure) { return run_gnuplot(gnuplot_script(figure)); }
std::string to_svg(const BarFigure& figure) { return run_gnuplot(gnuplot_script(figure)); }

std::string to_svg(const HeatMap& figure) {
  std::string svg = run_gnuplot(gnuplot_script(figure));
  // Browsers blur an enlarged image unless told that its pixels are the message.
  const std::string image = "<image ";
  const std::size_t at = svg.find(image);
  if (at != std::string::npos) svg.insert(at + image.size(), "style='image-rendering:pixelated' ");
  return svg;
}

}  // namespace nru::report
