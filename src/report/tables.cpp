#include "report/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "report/values.h"

namespace nru::report {
namespace {

using experiments::Experiment;
using experiments::FigureKind;

const char kNothing[] = "–";

std::vector<std::string> metrics_of(FigureKind kind) {
  switch (kind) {
    case FigureKind::curves:
      return {"solved_at", "solved_at_1pct", "spikes", "bursts", "best_ratio", "seconds"};
    case FigureKind::validation:
      return {"valid_accuracy", "test_accuracy", "valid_bpc", "test_bpc", "valid_drop", "seconds"};
    case FigureKind::gradients:
      return {"early_grad_norm", "solved_at"};
    case FigureKind::memory:
      return {"baseline_ratio", "max_memory", "max_hidden", "skipped", "seconds"};
    case FigureKind::groups:
      return {"solved_at", "best_ratio", "test_accuracy", "seconds"};
    case FigureKind::lags:
      return {"solved_at", "test_accuracy", "far_accuracy", "seconds"};
    case FigureKind::heatmap:
      return {"blank_share"};
    case FigureKind::bars:
    case FigureKind::ranking:
    case FigureKind::table:
      return {};
  }
  return {};
}

// Metrics with a value of the paper, in the order of the file.
std::vector<std::string> paper_metrics(const Experiment& experiment) {
  std::vector<std::string> names;
  for (const experiments::PaperValue& value : experiment.paper_values) {
    if (std::ranges::find(names, value.metric) == names.end()) names.push_back(value.metric);
  }
  return names;
}

std::optional<double> paper_value(const Experiment& experiment, const std::string& cell,
                                  const std::string& variant, const std::string& metric) {
  for (const experiments::PaperValue& value : experiment.paper_values) {
    if (value.cell == cell && value.variant == variant && value.metric == metric) {
      return value.value;
    }
  }
  return std::nullopt;
}

// One column of a table; a table is put together from those that have something to say.
struct Column {
  std::string head;
  bool number = true;
  std::vector<std::string> cells;
};

bool says_something(const Column& column) {
  return std::ranges::any_of(column.cells,
                             [](const std::string& cell) { return cell != kNothing; });
}

Table table_of(std::string title, const std::vector<Column>& columns) {
  Table table;
  table.title = std::move(title);
  for (const Column& column : columns) {
    table.head.push_back(column.head);
    table.number.push_back(column.number);
    table.rows.resize(std::max(table.rows.size(), column.cells.size()));
    for (std::size_t row = 0; row < column.cells.size(); ++row) {
      table.rows[row].push_back(column.cells[row]);
    }
  }
  return table;
}

void add_comparison(const Experiment& experiment, const std::vector<Series>& series,
                    const std::string& metric, std::vector<Column>& columns) {
  Column paper{title_of(metric) + ", paper", true, {}}, ours{"ours", true, {}},
      difference{"difference", true, {}};
  for (const Series& one : series) {
    const auto said = paper_value(experiment, one.cell, one.variant, metric);
    const std::optional<Spread> spread = spread_of(one, metric);
    paper.cells.push_back(said ? in_words(metric, *said) : kNothing);
    ours.cells.push_back(spread ? in_words(metric, *spread) : kNothing);
    difference.cells.push_back(said && spread ? difference_in_words(metric, spread->median, *said)
                                              : kNothing);
  }
  columns.insert(columns.end(), {paper, ours, difference});
}

Table main_table(const Experiment& experiment, const std::vector<Series>& series) {
  std::vector<Column> columns(2);
  columns[0] = {"model", false, {}};
  columns[1] = {"runs", false, {}};
  for (const Series& one : series) {
    columns[0].cells.push_back(one.label);
    columns[1].cells.push_back(runs_in_words(one));
  }
  const std::vector<std::string> compared = paper_metrics(experiment);
  for (const std::string& metric : compared) add_comparison(experiment, series, metric, columns);
  for (const std::string& metric : metrics_of(experiment.figure)) {
    if (std::ranges::find(compared, metric) != compared.end()) continue;
    Column column{title_of(metric), true, {}};
    for (const Series& one : series) {
      const std::optional<Spread> spread = spread_of(one, metric);
      column.cells.push_back(spread ? in_words(metric, *spread) : kNothing);
    }
    const bool quiet = metric == "bursts" && std::ranges::count(column.cells, "0") ==
                                                 static_cast<std::ptrdiff_t>(column.cells.size());
    if (says_something(column) && !quiet) columns.push_back(std::move(column));
  }
  return table_of("", columns);
}

Table bar_table(const Collection& collection, const Experiment& experiment,
                const std::vector<Series>& series) {
  std::vector<Column> columns{{"task", false, {}}};
  std::map<std::string, std::size_t> column_of;
  for (const Series& one : series) {
    if (column_of.try_emplace(one.cell, columns.size()).second) {
      columns.push_back({style_of(one.cell).label + " solved at", true, {}});
    }
  }
  for (const std::string& name : experiment.uses) {
    columns[0].cells.push_back(experiments::find_experiment(collection.experiments, name).title);
    for (std::size_t i = 1; i < columns.size(); ++i) columns[i].cells.emplace_back(kNothing);
    for (const Series& one : series) {
      const auto spread = spread_of(one, "solved_at");
      if (one.experiment != name || !spread) continue;
      columns[column_of[one.cell]].cells.back() = in_words("solved_at", *spread);
    }
  }
  return table_of("", columns);
}

std::vector<Table> ranking_tables(const Experiment& experiment, const Ranking& ranking) {
  std::vector<Column> counts{{"model", false, {}}};
  for (const std::string& cell : experiment.cells) {
    counts[0].cells.push_back(style_of(cell).label);
  }
  for (const char* metric : {"top1", "top2"}) {
    const auto& ours = metric == std::string("top1") ? ranking.top1 : ranking.top2;
    Column paper{title_of(metric) + ", paper", true, {}}, own{"ours", true, {}},
        difference{"difference", true, {}};
    for (const std::string& cell : experiment.cells) {
      const auto said = paper_value(experiment, cell, "", metric);
      const bool known = ranking.complete > 0;
      paper.cells.push_back(said ? in_words(metric, *said) : kNothing);
      own.cells.push_back(known ? fmt::format("{}", ours.at(cell)) : kNothing);
      difference.cells.push_back(said && known ? difference_in_words(metric, ours.at(cell), *said)
                                               : kNothing);
    }
    counts.insert(counts.end(), {paper, own, difference});
  }
  std::vector<Column> places{{"task", false, {}}, {"order", false, {}}, {"not run", false, {}}};
  for (const TaskRanking& task : ranking.tasks) {
    std::vector<std::string> order, missing;
    for (const Place& place : task.places) {
      order.push_back(
          fmt::format("{}. {} ({})", place.place, style_of(place.cell).label, place.reason));
    }
    for (const std::string& cell : task.missing) missing.push_back(style_of(cell).label);
    places[0].cells.push_back(task.title);
    places[1].cells.push_back(order.empty() ? kNothing : fmt::format("{}", fmt::join(order, ", ")));
    places[2].cells.push_back(missing.empty() ? kNothing
                                              : fmt::format("{}", fmt::join(missing, ", ")));
  }
  if (!says_something(places[2])) places.pop_back();
  return {table_of(fmt::format("{} of {} tasks have been run with all models and count",
                               ranking.complete, ranking.tasks.size()),
                   counts),
          table_of("Places by task", places)};
}

}  // namespace

std::string runs_in_words(const Series& series) {
  const auto all = series.runs.size();
  std::map<std::string, int> rest;
  std::size_t counted = 0;
  for (const Run* run : series.runs) {
    if (run->counts()) ++counted;
    if (run->state == RunState::missing || (run->counts() && run->state != RunState::diverged)) {
      continue;
    }
    ++rest[to_string(run->state)];
  }
  std::string words =
      counted == all ? fmt::format("{}", all) : fmt::format("{} of {}", counted, all);
  for (const auto& [state, count] : rest) words += fmt::format(", {} {}", count, state);
  return words;
}

std::vector<Table> tables_of(const Collection& collection, const Experiment& experiment,
                             const std::vector<Series>& series, const Ranking& ranking) {
  if (experiment.figure == FigureKind::ranking) return ranking_tables(experiment, ranking);
  if (experiment.figure == FigureKind::bars) return {bar_table(collection, experiment, series)};
  return {main_table(experiment, series)};
}

}  // namespace nru::report
