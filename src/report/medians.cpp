// Medians over seeds on a common grid.
#include <algorithm>
#include <cmath>
#include <limits>

#include "report/plots.h"
#include "report/values.h"

namespace nru::report {
namespace {

constexpr double kGap = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kPoints = 400;

// One run's points.
struct Path {
  std::vector<double> x, y;
  bool held = false;  // at its last value after its end
};

Path path_of(const Run& run, const Shown& shown) {
  Path path;
  path.held = run.state == RunState::solved;
  for (const training::MetricsRow& row : run.*shown.rows) {
    const std::optional<double>& value = row.*shown.value;
    if (!value || !std::isfinite(*value)) continue;
    const bool epoch = shown.by_epoch && row.epoch;
    path.x.push_back(static_cast<double>(epoch ? *row.epoch : row.update));
    path.y.push_back(*value);
  }
  return path;
}

double value_at(const Path& path, double x) {
  const double slack = 1e-9 * std::abs(x);
  if (path.x.empty() || x < path.x.front() - slack) return kGap;
  if (x > path.x.back() + slack) return path.held ? path.y.back() : kGap;
  const auto after = std::ranges::lower_bound(path.x, x);
  if (after == path.x.end()) return path.y.back();
  const std::size_t i = static_cast<std::size_t>(after - path.x.begin());
  if (i == 0 || path.x[i] == x || path.x[i] == path.x[i - 1]) return path.y[i];
  const double part = (x - path.x[i - 1]) / (path.x[i] - path.x[i - 1]);
  return path.y[i - 1] + part * (path.y[i] - path.y[i - 1]);
}

std::vector<double> grid_of(const std::vector<std::vector<Path>>& all) {
  double end = 0;
  std::size_t points = 0;
  for (const std::vector<Path>& paths : all) {
    for (const Path& path : paths) {
      if (path.x.empty()) continue;
      end = std::max(end, path.x.back());
      points = std::max(points, path.x.size());
    }
  }
  points = std::min(points, kPoints);
  std::vector<double> grid;
  for (std::size_t i = 1; i <= points; ++i) {
    grid.push_back(end * static_cast<double>(i) / static_cast<double>(points));
  }
  return grid;
}

Line line_of(const Series& series, const std::vector<Path>& paths,
             const std::vector<double>& grid) {
  Line line{series.label, series.style, grid, {}, {}, {}};
  for (const double x : grid) {
    std::vector<double> values;
    for (const Path& path : paths) {
      const double value = value_at(path, x);
      if (!std::isnan(value)) values.push_back(value);
    }
    line.y.push_back(values.empty() ? kGap : median_of(values));
    line.low.push_back(values.empty() ? kGap : std::ranges::min(values));
    line.high.push_back(values.empty() ? kGap : std::ranges::max(values));
  }
  if (paths.size() < 2) {
    line.low.clear();
    line.high.clear();
  }
  return line;
}

}  // namespace

std::vector<Line> median_lines(const std::vector<const Series*>& series, const Shown& shown) {
  std::vector<std::vector<Path>> all;
  for (const Series* one : series) {
    std::vector<Path>& paths = all.emplace_back();
    for (const Run* run : one->runs) {
      Path path = path_of(*run, shown);
      if (!path.x.empty()) paths.push_back(std::move(path));
    }
  }
  const std::vector<double> grid = grid_of(all);
  std::vector<Line> lines;
  for (std::size_t i = 0; i < series.size(); ++i) {
    if (!all[i].empty()) lines.push_back(line_of(*series[i], all[i], grid));
  }
  return lines;
}

std::vector<Line> median_lines(const std::vector<Series>& series, const TableColumns& columns) {
  std::vector<Line> lines;
  for (const Series& one : series) {
    std::vector<Path> paths;
    std::vector<double> longest;
    for (const Run* run : one.runs) {
      const auto table = read_numbers(run->directory / "inspect" / columns.file);
      std::vector<double> y = table ? table->column(columns.y) : std::vector<double>();
      if (y.empty() || (columns.over_last && !(y.back() > 0))) continue;
      if (columns.over_last) {
        const double last = y.back();
        for (double& value : y) value /= last;
      }
      paths.push_back({table->column(columns.x), std::move(y)});
      if (paths.back().x.size() > longest.size()) longest = paths.back().x;
    }
    if (!paths.empty()) lines.push_back(line_of(one, paths, longest));
  }
  return lines;
}

}  // namespace nru::report
