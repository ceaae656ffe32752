#include "report/ranking.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "report/values.h"

namespace nru::report {
namespace {

constexpr double kTie = 1.1;

enum class Rule { solved, solved_ties, bits, accuracy };

Rule rule_of(const experiments::Experiment& task) {
  static const std::map<std::string, Rule> rules = {
      {"denoise", Rule::solved_ties}, {"char-lm", Rule::bits}, {"psmnist", Rule::accuracy}};
  const auto name = task.run.find("task");
  if (name == task.run.end()) return Rule::solved;
  const auto* text = std::get_if<std::string>(&name->second);
  const auto rule = text == nullptr ? rules.end() : rules.find(*text);
  return rule == rules.end() ? Rule::solved : rule->second;
}

struct Entry {
  std::string cell;
  double first = 0;   // what counts, less is better
  double second = 0;  // among those that did not solve
  std::string reason;
};

std::optional<Entry> entry_of(const Series& all, Rule rule) {
  const Series series = all.comparable();
  const char* metric = rule == Rule::bits       ? "test_bpc"
                       : rule == Rule::accuracy ? "test_accuracy"
                                                : "solved_at";
  const std::optional<Spread> spread = full_spread_of(series, metric);
  if (!spread) return std::nullopt;
  Entry entry{series.cell, spread->median, 0, in_words(metric, spread->median)};
  if (rule == Rule::bits) entry.first = std::round(100 * spread->median) / 100;
  if (rule == Rule::accuracy) entry.first = -std::round(1000 * spread->median) / 1000;
  if (std::isinf(entry.first)) {
    const std::optional<Spread> loss = spread_of(series, "best_loss");
    entry.second = loss ? loss->median : std::numeric_limits<double>::infinity();
    entry.reason = fmt::format("not solved, best loss {:.3g}", entry.second);
  }
  return entry;
}

bool tied(const Entry& leader, const Entry& other, Rule rule) {
  const bool solved = std::isfinite(leader.first) && std::isfinite(other.first);
  if (!solved) return leader.first == other.first && leader.second == other.second;
  if (rule == Rule::solved_ties) return true;
  return rule == Rule::solved ? other.first <= kTie * leader.first : other.first == leader.first;
}

}  // namespace

TaskRanking rank(const experiments::Experiment& task, const std::vector<Series>& series) {
  TaskRanking ranking{task.name, task.title, {}, {}};
  const Rule rule = rule_of(task);
  std::vector<Entry> entries;
  for (const Series& one : series) {
    if (auto entry = entry_of(one, rule)) {
      entries.push_back(std::move(*entry));
    } else {
      ranking.missing.push_back(one.cell);
    }
  }
  std::ranges::stable_sort(entries, [](const Entry& a, const Entry& b) {
    return std::pair(a.first, a.second) < std::pair(b.first, b.second);
  });
  std::size_t leader = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (!tied(entries[leader], entries[i], rule)) leader = i;
    ranking.places.push_back(
        {entries[i].cell, static_cast<int>(leader) + 1, std::move(entries[i].reason)});
  }
  return ranking;
}

Ranking rank_all(const Collection& collection, const experiments::Experiment& experiment) {
  Ranking ranking;
  for (const std::string& cell : experiment.cells) ranking.top1[cell] = ranking.top2[cell] = 0;
  const std::vector<Series> all = series_of(collection, experiment);
  for (const std::string& name : experiment.uses) {
    std::vector<Series> series;
    std::ranges::copy_if(all, std::back_inserter(series),
                         [&](const Series& one) { return one.experiment == name; });
    ranking.tasks.push_back(
        rank(experiments::find_experiment(collection.experiments, name), series));
    const TaskRanking& task = ranking.tasks.back();
    if (!task.complete()) continue;
    ++ranking.complete;
    for (const Place& place : task.places) {
      if (place.place == 1) ++ranking.top1[place.cell];
      if (place.place <= 2) ++ranking.top2[place.cell];
    }
  }
  return ranking;
}

}  // namespace nru::report
