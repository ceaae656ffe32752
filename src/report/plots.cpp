#include "report/plots.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "report/values.h"

namespace nru::report {
namespace {

using experiments::Experiment;
using experiments::FigureKind;
using training::MetricsRow;

constexpr std::size_t kMostMaps = 6;

// The series that share a figure.
struct Panel {
  std::string suffix;  // of the figure's name
  std::string title;   // appended to the experiment's
  std::vector<const Series*> series;
};

std::string keys_of(const experiments::Variant& variant) {
  std::string keys;
  for (const auto& [key, value] : variant.settings) keys += (keys.empty() ? "" : "+") + key;
  return keys;
}

std::vector<const Series*> with_variant(const std::vector<Series>& all,
                                        const std::set<std::string>& variants) {
  std::vector<const Series*> found;
  for (const Series& one : all) {
    if (variants.contains(one.variant)) found.push_back(&one);
  }
  return found;
}

// Many cells with many variants: a figure per variant. One cell of which one variant is unchanged
// and the others change different settings: a figure per setting, with the unchanged one in each.
std::vector<Panel> panels_of(const Experiment& experiment, const std::vector<Series>& series) {
  Panel whole;
  for (const Series& one : series) whole.series.push_back(&one);
  if (experiment.variants.size() < 2) return {whole};
  std::vector<Panel> panels;
  if (experiment.cells.size() > 1) {
    for (const experiments::Variant& variant : experiment.variants) {
      panels.push_back({"-" + variant.name, variant.label, with_variant(series, {variant.name})});
    }
    return panels;
  }
  std::map<std::string, std::set<std::string>> by_keys;
  std::set<std::string> unchanged;
  for (const experiments::Variant& variant : experiment.variants) {
    const std::string keys = keys_of(variant);
    (keys.empty() ? unchanged : by_keys[keys]).insert(variant.name);
  }
  if (by_keys.size() < 2 || unchanged.empty()) return {whole};
  for (auto& [keys, variants] : by_keys) {
    std::string name = keys.substr(keys.rfind('.') + 1);
    std::ranges::replace(name, '_', ' ');
    variants.insert(unchanged.begin(), unchanged.end());
    std::string suffix = "-" + name;
    std::ranges::replace(suffix, ' ', '-');
    panels.push_back({suffix, name, with_variant(series, variants)});
  }
  return panels;
}

// The common baseline of the series; nothing where they differ, between series or between rows.
std::optional<double> common_baseline(const std::vector<const Series*>& series) {
  std::optional<double> common;
  for (const Series* one : series) {
    for (const Run* run : one->runs) {
      if (run->train.empty()) continue;
      const std::optional<double>& own = run->measures.baseline;
      if (!own || run->measures.baseline_varies) return std::nullopt;
      if (common && std::abs(*own / *common - 1) > 0.01) return std::nullopt;
      common = own;
    }
  }
  return common;
}

template <class Holds>
bool any_row(const std::vector<const Series*>& series, Rows Run::*rows, Holds holds) {
  for (const Series* one : series) {
    for (const Run* run : one->runs) {
      if (std::ranges::any_of(run->*rows, holds)) return true;
    }
  }
  return false;
}

// A burst can take the loss to a million times the baseline, and everything else would be a line at
// the bottom: the figure ends where losses of a network that knows nothing end. At the other end a
// network that has solved its task goes on for many orders of magnitude which say nothing more.
void frame_by_baseline(LineFigure& figure) {
  if (figure.references.empty()) return;
  const double most = 30 * figure.references[0].y, least = 1e-6 * figure.references[0].y;
  for (const Line& line : figure.lines) {
    const auto& highest = line.high.empty() ? line.y : line.high;
    if (std::ranges::any_of(highest, [&](double y) { return y > most; })) figure.y.high = most;
    if (std::ranges::any_of(line.y, [&](double y) { return y < least; })) figure.y.low = least;
  }
}

// Early epochs, or a fall, can take a line so far off that the others cannot be told apart: the
// figure ends a little beyond where lines are in their second half. One that has exploded by then,
// to many times the lowest, is not waited for.
void frame_the_end(LineFigure& figure, bool lower_is_better) {
  constexpr double kExploded = 10;
  std::vector<double> ends;
  double lowest = INFINITY, highest = -INFINITY;
  for (const Line& line : figure.lines) {
    std::vector<double> late;
    for (std::size_t i = 0; i < line.y.size(); ++i) {
      if (!std::isfinite(line.y[i])) continue;
      if (2 * i >= line.y.size()) late.push_back(line.y[i]);
      lowest = std::min(lowest, line.y[i]);
      highest = std::max(highest, line.y[i]);
    }
    if (!late.empty()) ends.push_back(median_of(std::move(late)));
  }
  if (ends.empty()) return;
  std::sort(ends.begin(), ends.end());
  const double least = ends.front();
  if (lower_is_better) std::erase_if(ends, [&](double end) { return end > kExploded * least; });
  const double most = ends.back();
  const double margin = std::max((most - least) / 2, 0.05 * most);
  if (lower_is_better && highest > most + margin) figure.y.high = most + margin;
  if (!lower_is_better && lowest < least - margin) figure.y.low = least - margin;
}

class Builder {
 public:
  Builder(const Collection& collection, const Experiment& experiment,
          const std::vector<Series>& series)
      : collection_(collection), experiment_(experiment), series_(series) {}

  Figures build() {
    switch (experiment_.figure) {
      case FigureKind::curves:
        for (const Panel& panel : panels_of(experiment_, series_)) add_loss(panel);
        break;
      case FigureKind::validation:
        for (const Panel& panel : panels_of(experiment_, series_)) add_validation(panel);
        break;
      case FigureKind::gradients:
        add_column("", "gradient norm", "Norm of the gradient before clipping",
                   &MetricsRow::grad_norm);
        add_gradient_flow();
        break;
      case FigureKind::memory:
        for (const Panel& panel : panels_of(experiment_, series_)) add_loss(panel);
        add_column("-memory", "largest |m|", "Largest magnitude in the memory",
                   &MetricsRow::max_memory);
        add_column("-hidden", "largest |h|", "Largest magnitude in the hidden state",
                   &MetricsRow::max_hidden);
        add_column("-gradient", "gradient norm", "Norm of the gradient before clipping",
                   &MetricsRow::grad_norm);
        break;
      case FigureKind::bars:
        add_bars();
        break;
      case FigureKind::heatmap:
        add_maps();
        break;
      case FigureKind::groups:
        add_groups();
        for (const Panel& panel : panels_of(experiment_, series_)) add_loss(panel);
        break;
      case FigureKind::lags:
        add_lags();
        break;
      case FigureKind::ranking:
      case FigureKind::table:
        break;
    }
    return std::move(made_);
  }

 private:
  std::string title(const std::string& more) const {
    return more.empty() ? experiment_.title : fmt::format("{}: {}", experiment_.title, more);
  }

  void add(const std::string& suffix, const std::string& what, LineFigure figure) {
    if (figure.lines.empty()) return;
    const bool band =
        std::ranges::any_of(figure.lines, [](const Line& line) { return !line.low.empty(); });
    std::string caption = fmt::format("{}. {} over {}", figure.title, what, figure.x.label);
    if (band) caption += "; lines are medians over seeds, bands go from the least to the greatest";
    made_.figures.push_back({experiment_.name + suffix, caption + ".", std::move(figure)});
  }

  void add_loss(const Panel& panel) {
    const std::optional<double> baseline = common_baseline(panel.series);
    const bool relative =
        !baseline && any_row(panel.series, &Run::train,
                             [](const MetricsRow& row) { return row.relative_loss.has_value(); });
    LineFigure figure;
    figure.title = title(panel.title);
    figure.x = {.label = "updates", .counts = true};
    figure.y = {.label = relative ? "loss / baseline" : "loss", .log = true};
    Shown shown;
    if (relative) shown.value = &MetricsRow::relative_loss;
    figure.lines = median_lines(panel.series, shown);
    if (baseline)
      figure.references.push_back({*baseline, fmt::format("baseline {:.4g}", *baseline)});
    if (relative) figure.references.push_back({1, "baseline"});
    frame_by_baseline(figure);
    add(panel.suffix, relative ? "Training loss over its baseline" : "Training loss",
        std::move(figure));
  }

  void add_validation(const Panel& panel) {
    const auto has = [&](std::optional<double> MetricsRow::*field) {
      return any_row(panel.series, &Run::valid,
                     [&](const MetricsRow& row) { return (row.*field).has_value(); });
    };
    LineFigure figure;
    figure.title = title(panel.title);
    Shown shown{&Run::valid, &MetricsRow::loss, true};
    figure.x.label = any_row(panel.series, &Run::valid,
                             [](const MetricsRow& row) { return row.epoch.has_value(); })
                         ? "epochs"
                         : "updates";
    figure.x.counts = figure.x.label == "updates";
    figure.y.label = "validation loss";
    if (has(&MetricsRow::accuracy)) {
      shown.value = &MetricsRow::accuracy;
      figure.y.label = "validation accuracy";
    }
    if (has(&MetricsRow::bpc)) {
      shown.value = &MetricsRow::bpc;
      figure.y.label = "validation bits per character";
    }
    figure.lines = median_lines(panel.series, shown);
    frame_the_end(figure, shown.value != &MetricsRow::accuracy);
    std::string what = figure.y.label;
    what[0] = 'V';
    add(panel.suffix, what, std::move(figure));
  }

  void add_column(const std::string& suffix, const std::string& label, const std::string& what,
                  std::optional<double> MetricsRow::*value) {
    std::vector<const Series*> all;
    for (const Series& one : series_) all.push_back(&one);
    LineFigure figure;
    figure.title = title(suffix.empty() ? "" : label);
    figure.x = {.label = "updates", .counts = true};
    figure.y = {.label = label, .log = true};
    figure.lines = median_lines(all, {&Run::train, value, false});
    add(suffix, what, std::move(figure));
  }

  // One line per series that was inspected.
  void add_table_lines(const std::string& suffix, const TableColumns& columns,
                       const std::string& what, LineFigure figure) {
    figure.lines = median_lines(series_, columns);
    add(suffix, what, std::move(figure));
  }

  // As shares of the last step's: a network that has solved its task has next to no gradient.
  void add_gradient_flow() {
    LineFigure figure;
    figure.title = title("how far gradients reach");
    figure.x.label = "step of the sequence";
    figure.y = {.label = "|dL/dh| over the last step's", .log = true};
    add_table_lines("-flow", {"gradient_flow.csv", "step", "norm", true},
                    "Gradient of the last position's loss, as a share of the last step's,",
                    std::move(figure));
  }

  void add_groups() {
    LineFigure accuracy;
    accuracy.title = title("recall by position since the reset");
    accuracy.x.label = "sequences since the reset";
    accuracy.y = {.label = "recall accuracy", .low = 0, .high = 1.05};
    LineFigure memory = accuracy;
    memory.title = title("memory at the start of a sequence");
    memory.y = {.label = "|m| at the start"};
    add_table_lines("-recall", {"groups.csv", "position", "accuracy"}, "Recall accuracy",
                    std::move(accuracy));
    add_table_lines("-start", {"groups.csv", "position", "memory_start"},
                    "Norm of the memory at the start of a sequence", std::move(memory));
  }

  void add_lags() {
    LineFigure figure;
    figure.title = experiment_.title;
    figure.x = {.label = "lag", .low = 0};
    figure.y = {.label = "recall accuracy", .low = 0, .high = 1.05};
    add_table_lines("", {"lags.csv", "lag", "accuracy"}, "Recall accuracy", std::move(figure));
  }

  void add_bars() {
    BarFigure figure;
    figure.title = experiment_.title;
    figure.y = {.label = "updates to solve", .low = 0, .counts = true};
    std::map<std::string, BarFigure::Series> by_cell;
    for (const std::string& name : experiment_.uses) {
      figure.groups.push_back(experiments::find_experiment(collection_.experiments, name).title);
      for (const Series& one : series_) {
        if (one.experiment != name || !one.variant.empty()) continue;
        BarFigure::Series& bars = by_cell[one.cell];
        bars.name = one.label;
        bars.style = one.style;
        bars.bars.resize(figure.groups.size());
        bars.bars.back() = bar_of(one);
      }
    }
    bool any = false;
    for (const Style& style : cell_styles()) {
      const auto found = by_cell.find(style.cell);
      if (found == by_cell.end()) continue;
      found->second.bars.resize(figure.groups.size());
      any = any || std::ranges::any_of(found->second.bars, [](const BarFigure::Bar& bar) {
              return bar.value.has_value();
            });
      figure.series.push_back(std::move(found->second));
    }
    if (!any) return;
    made_.figures.push_back(
        {experiment_.name,
         experiment_.title +
             ". Medians over seeds, whiskers from the least to the greatest, to the end of the "
             "longest run where a seed does not solve it; hatched or dashed: not solved within so "
             "many updates.",
         std::move(figure)});
  }

  static BarFigure::Bar bar_of(const Series& series) {
    const std::optional<Spread> spread = spread_of(series, "solved_at");
    if (!spread) return {};
    if (std::isinf(spread->median)) {
      return {static_cast<double>(budget_of(series)), {}, {}, true};
    }
    BarFigure::Bar bar{spread->median, {}, {}, false};
    if (spread->runs == 1) return bar;
    bar.low = spread->low;
    bar.high = spread->high;
    if (std::isfinite(spread->high)) return bar;
    bar.high = 0;  // a seed does not solve it: the end of the longest run
    for (const Run* run : series.counted())
      bar.high = std::max(*bar.high, static_cast<double>(run->result->updates));
    return bar;
  }

  void add_maps() {
    for (const Series& one : series_) {
      for (const Run* run : one.runs) {
        if (made_.maps.size() >= kMostMaps) return;
        auto map = read_memory_map(run->directory);
        if (!map) continue;
        const std::string name = fmt::format("{}-{}", experiment_.name, made_.maps.size() + 1);
        const std::string label =
            fmt::format("{}, {}, seed {}", one.label, one.experiment, run->seed);
        add_change(name, label, *map);
        made_.maps.push_back({name, label, std::move(*map)});
      }
    }
  }

  void add_change(const std::string& name, const std::string& label, const MemoryMap& map) {
    HeatMap figure;
    figure.title = fmt::format("Change of the memory: {}", label);
    figure.x_label = "step";
    figure.y_label = "unit";
    figure.columns = map.steps;
    figure.rows = map.units;
    for (int unit = 0; unit < map.units; ++unit) {
      for (int step = 0; step < map.steps; ++step) {
        figure.values.push_back(map.changes[static_cast<std::size_t>(step) * map.units + unit]);
      }
    }
    for (const MemoryMap::Stretch& stretch : map.stretches) {
      figure.stretches.push_back({stretch.first, stretch.last, stretch.name});
    }
    made_.figures.push_back({name,
                             fmt::format("{}: m_t - m_(t-1), one column per step, blue below zero, "
                                         "red above.",
                                         figure.title),
                             std::move(figure)});
  }

  const Collection& collection_;
  const Experiment& experiment_;
  const std::vector<Series>& series_;
  Figures made_;
};

}  // namespace

Figures figures_of(const Collection& collection, const Experiment& experiment,
                   const std::vector<Series>& series) {
  return Builder(collection, experiment, series).build();
}

}  // namespace nru::report
