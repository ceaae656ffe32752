// Written by hand instead of through a JSON library: half a million numbers at four digits each are
// most of the page, and a library would write seventeen.
#include "report/page_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "report/escape.h"

namespace nru::report {
namespace {

// A JSON string; "</script>" and "<!--" cannot occur in it.
std::string text_json(std::string_view text) {
  std::string safe;
  for (const char c : nlohmann::json(clean_text(text)).dump()) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

std::string number_json(double value) {
  return std::isfinite(value) ? fmt::format("{:.4g}", value) : "null";
}

std::string numbers_json(const std::vector<double>& values) {
  std::string text = "[";
  for (const double value : values) {
    if (text.size() > 1) text += ',';
    text += number_json(value);
  }
  return text + "]";
}

std::string style_json(const std::string& name, const Style& style) {
  return fmt::format("\"name\":{},\"color\":{},\"dark\":{},\"dash\":[{}],\"width\":{}",
                     text_json(name), text_json(style.color), text_json(style.dark),
                     fmt::join(style.dash, ","), style.width);
}

std::string axes_json(const char* kind, const std::string& caption, const Axis& x, const Axis& y) {
  return fmt::format(
      "\"kind\":\"{}\",\"caption\":{},\"xLabel\":{},\"yLabel\":{},\"log\":{},\"yCounts\":{},"
      "\"yLow\":{},\"yHigh\":{}",
      kind, text_json(caption), text_json(x.label), text_json(y.label), y.log, y.counts,
      y.low ? number_json(*y.low) : "null", y.high ? number_json(*y.high) : "null");
}

// The x of all lines together: those of a figure mostly share theirs.
std::vector<double> common_x(const std::vector<Line>& lines) {
  std::vector<double> all;
  for (const Line& line : lines) {
    if (line.x == all) continue;
    all.insert(all.end(), line.x.begin(), line.x.end());
    std::ranges::sort(all);
    all.erase(std::ranges::unique(all).begin(), all.end());
  }
  return all;
}

std::vector<double> values_at(const std::vector<double>& grid, const std::vector<double>& x,
                              const std::vector<double>& y) {
  if (grid == x) return y;
  std::vector<double> values(grid.size(), std::numeric_limits<double>::quiet_NaN());
  for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    values[std::ranges::lower_bound(grid, x[i]) - grid.begin()] = y[i];
  }
  return values;
}

std::string figure_json(const LineFigure& figure, const std::string& caption) {
  std::vector<Line> lines;
  for (const Line& line : figure.lines) lines.push_back(thinned(line));
  const std::vector<double> grid = common_x(lines);
  std::vector<std::string> series, references;
  for (const Line& line : lines) {
    std::string one = fmt::format("{{{},\"y\":{}", style_json(line.name, line.style),
                                  numbers_json(values_at(grid, line.x, line.y)));
    if (!line.low.empty()) {
      one += fmt::format(",\"low\":{},\"high\":{}", numbers_json(values_at(grid, line.x, line.low)),
                         numbers_json(values_at(grid, line.x, line.high)));
    }
    series.push_back(one + "}");
  }
  for (const Reference& reference : figure.references) {
    references.push_back(fmt::format("{{\"y\":{},\"label\":{}}}", number_json(reference.y),
                                     text_json(reference.label)));
  }
  // x are whole updates or epochs: all their digits.
  std::vector<std::string> x;
  for (const double at : grid) x.push_back(fmt::format("{:.7g}", at));
  return fmt::format("{{{},\"x\":[{}],\"references\":[{}],\"series\":[{}]}}",
                     axes_json("lines", caption, figure.x, figure.y), fmt::join(x, ","),
                     fmt::join(references, ","), fmt::join(series, ","));
}

std::string figure_json(const BarFigure& figure, const std::string& caption) {
  std::vector<std::string> series, groups, x;
  for (const BarFigure::Series& one : figure.series) {
    std::vector<double> y, low, high;
    std::vector<std::string> open;
    const auto or_nan = [](const std::optional<double>& value) {
      return value.value_or(std::numeric_limits<double>::quiet_NaN());
    };
    for (const BarFigure::Bar& bar : one.bars) {
      y.push_back(or_nan(bar.value));
      low.push_back(or_nan(bar.low));
      high.push_back(or_nan(bar.high));
      open.emplace_back(bar.open ? "true" : "false");
    }
    series.push_back(fmt::format("{{{},\"y\":{},\"low\":{},\"high\":{},\"open\":[{}]}}",
                                 style_json(one.name, one.style), numbers_json(y),
                                 numbers_json(low), numbers_json(high), fmt::join(open, ",")));
  }
  for (std::size_t i = 0; i < figure.groups.size(); ++i) {
    groups.push_back(text_json(figure.groups[i]));
    x.push_back(fmt::format("{}", i));
  }
  return fmt::format("{{{},\"x\":[{}],\"groups\":[{}],\"references\":[],\"series\":[{}]}}",
                     axes_json("bars", caption, {.label = ""}, figure.y), fmt::join(x, ","),
                     fmt::join(groups, ","), fmt::join(series, ","));
}

std::string figure_json(const HeatMap&, const std::string&) { return "null"; }  // a NamedMap is

std::string map_json(const NamedMap& named) {
  const MemoryMap& map = named.map;
  std::vector<std::string> stretches;
  for (const MemoryMap::Stretch& stretch : map.stretches) {
    stretches.push_back(fmt::format("{{\"name\":{},\"first\":{},\"last\":{}}}",
                                    text_json(stretch.name), stretch.first, stretch.last));
  }
  return fmt::format(
      "{{\"label\":{},\"steps\":{},\"units\":{},\"values\":{},\"changes\":{},\"input\":[{}],"
      "\"stretches\":[{}]}}",
      text_json(named.label), map.steps, map.units, numbers_json(map.values),
      numbers_json(map.changes), fmt::join(map.input, ","), fmt::join(stretches, ","));
}

}  // namespace

std::string page_data(const Report& report) {
  std::vector<std::string> figures, maps;
  for (const Section& section : report.sections) {
    for (const NamedFigure& figure : section.figures.figures) {
      const auto json = [&](const auto& drawing) { return figure_json(drawing, figure.caption); };
      figures.push_back(
          fmt::format("{}:{}", text_json(figure.name), std::visit(json, figure.drawing)));
    }
    for (const NamedMap& map : section.figures.maps) {
      maps.push_back(fmt::format("{}:{}", text_json(map.name), map_json(map)));
    }
  }
  return fmt::format("{{\"figures\":{{{}}},\"maps\":{{{}}}}}", fmt::join(figures, ",\n"),
                     fmt::join(maps, ",\n"));
}

std::string to_base64(std::string_view bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    unsigned group = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      group = group << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0u);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      text += i + j > bytes.size() ? '=' : kDigits[group >> (18 - 6 * j) & 63];
    }
  }
  return text;
}

}  // namespace nru::report
