#include "report/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "report/inspection.h"
#include "support/words.h"

namespace nru::report {
namespace {

using training::Metrics;

constexpr double kNever = std::numeric_limits<double>::infinity();

enum class Kind { updates, share, bits, loss, count, ratio, seconds };

struct Metric {
  std::string title;
  Kind kind;
  bool lower_is_better;
  std::function<std::optional<double>(const Run&)> value;  // of a run with a result
};

template <class T>
std::optional<double> number(const std::optional<T>& value) {
  return value ? std::optional<double>(static_cast<double>(*value)) : std::nullopt;
}

using Part = std::optional<double> Metrics::*;
// The best weights' where they were kept, else those of the last.
std::optional<double> score(const std::optional<Metrics>& best, const std::optional<Metrics>& last,
                            Part part) {
  if (best && (*best).*part) return (*best).*part;
  return last ? (*last).*part : std::nullopt;
}
std::optional<double> valid(const Run& run, Part part) {
  return score(run.result->best.valid, run.result->final.valid, part);
}
std::optional<double> test(const Run& run, Part part) {
  return score(run.result->best.test, run.result->final.test, part);
}

std::optional<double> far_accuracy(const Run& run) {
  const auto table = read_numbers(run.directory / "inspect" / "lags.csv");
  const std::vector<double> column = table ? table->column("accuracy") : std::vector<double>();
  return column.empty() ? std::nullopt : std::optional(column.back());
}

// A run that diverged was not stable, even if its loss had never been low.
std::optional<double> bursts(const Run& run) {
  const std::int64_t least = run.state == RunState::diverged ? 1 : 0;
  return static_cast<double>(std::max(run.measures.bursts, least));
}

std::optional<double> blank_share(const Run& run) {
  const std::optional<MemoryMap> map = read_memory_map(run.directory);
  return map ? map->blank_share() : std::nullopt;
}

const std::map<std::string, Metric>& metrics() {
  using R = const Run&;
  const auto count = [](auto value) { return std::optional<double>(static_cast<double>(value)); };
  static const std::map<std::string, Metric> table = {
      {"solved_at",
       {"solved at", Kind::updates, true,
        [](R run) { return number(run.result->solved_at).value_or(kNever); }}},
      {"solved_at_1pct",
       {"below 1 % at", Kind::updates, true,
        [](R run) { return number(run.result->solved_at_1pct).value_or(kNever); }}},
      {"best_loss", {"best loss", Kind::loss, true, [](R run) { return run.measures.best_loss; }}},
      {"final_loss",
       {"final loss", Kind::loss, true, [](R run) { return run.measures.final_loss; }}},
      {"best_ratio",
       {"best loss / baseline", Kind::ratio, true, [](R run) { return run.measures.best_ratio; }}},
      {"baseline_ratio",
       {"final loss / baseline", Kind::ratio, true,
        [](R run) { return run.measures.final_ratio; }}},
      {"early_grad_norm",
       {"early gradient norm", Kind::loss, true,
        [](R run) { return run.measures.early_grad_norm; }}},
      {"max_memory",
       {"largest |m|", Kind::loss, true, [](R run) { return run.measures.max_memory; }}},
      {"max_hidden",
       {"largest |h|", Kind::loss, true, [](R run) { return run.measures.max_hidden; }}},
      {"spikes", {"spikes", Kind::count, true, [=](R run) { return count(run.result->spikes); }}},
      {"bursts", {"bursts", Kind::count, true, bursts}},
      {"skipped",
       {"skipped updates", Kind::count, true, [=](R run) { return count(run.measures.skipped); }}},
      {"valid_drop",
       {"largest fall", Kind::share, true, [](R run) { return run.measures.valid_drop; }}},
      {"blank_share", {"change on blanks", Kind::share, true, blank_share}},
      {"far_accuracy", {"accuracy at the longest lag", Kind::share, false, far_accuracy}},
      {"valid_accuracy",
       {"validation accuracy", Kind::share, false,
        [](R run) { return valid(run, &Metrics::accuracy); }}},
      {"test_accuracy",
       {"test accuracy", Kind::share, false, [](R run) { return test(run, &Metrics::accuracy); }}},
      {"valid_bpc",
       {"validation BPC", Kind::bits, true, [](R run) { return valid(run, &Metrics::bpc); }}},
      {"test_bpc", {"test BPC", Kind::bits, true, [](R run) { return test(run, &Metrics::bpc); }}},
      {"seconds", {"time", Kind::seconds, true, [=](R run) { return count(run.result->seconds); }}},
      {"parameters",
       {"parameters", Kind::updates, true, [=](R run) { return count(run.result->parameters); }}},
      {"top1", {"first", Kind::count, false, [](R) { return std::optional<double>(); }}},
      {"top2",
       {"among the first two", Kind::count, false, [](R) { return std::optional<double>(); }}},
  };
  return table;
}

const Metric* find_metric(const std::string& name) {
  const auto found = metrics().find(name);
  return found == metrics().end() ? nullptr : &found->second;
}

Kind kind_of(const std::string& name) {
  const Metric* metric = find_metric(name);
  return metric != nullptr ? metric->kind : Kind::loss;
}

}  // namespace

std::optional<double> value_of(const Run& run, const std::string& metric) {
  const Metric* found = find_metric(metric);
  if (found == nullptr || !run.counts() || !run.result) return std::nullopt;
  const std::optional<double> value = found->value(run);
  return value && std::isnan(*value) ? std::nullopt : value;
}

bool is_open(const Run& run, const std::string& metric) {
  if (!run.cut_short() || metric == "parameters") return false;
  if (metric == "solved_at") return !run.solved();
  if (metric == "solved_at_1pct") return !run.result || !run.result->solved_at_1pct;
  if (metric == "early_grad_norm") return run.measures.last_update < kEarlyUpdates;
  return true;
}

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return (values[middle - 1] + values[middle]) / 2;
}

std::optional<Spread> spread_of(const Series& series, const std::string& metric) {
  std::vector<double> values;
  for (const Run* run : series.runs) {
    if (const auto value = value_of(*run, metric)) values.push_back(*value);
  }
  if (values.empty()) return std::nullopt;
  return Spread{median_of(values), std::ranges::min(values), std::ranges::max(values),
                static_cast<int>(values.size())};
}

std::optional<Spread> full_spread_of(const Series& series, const std::string& metric) {
  const std::vector<const Run*> runs = series.counted();
  const bool open =
      std::ranges::any_of(runs, [&](const Run* run) { return is_open(*run, metric); });
  return open ? std::nullopt : spread_of(series, metric);
}

std::int64_t budget_of(const Series& series) {
  std::int64_t unsolved = 0, longest = 0;
  for (const Run* run : series.counted()) {
    const std::int64_t made = run->result->updates;
    longest = std::max(longest, made);
    if (!run->solved()) unsolved = unsolved == 0 ? made : std::min(unsolved, made);
  }
  return unsolved > 0 ? unsolved : longest;
}

bool is_metric(const std::string& name) { return find_metric(name) != nullptr; }

bool lower_is_better(const std::string& metric) {
  const Metric* found = find_metric(metric);
  return found == nullptr || found->lower_is_better;
}

std::string title_of(const std::string& metric) {
  const Metric* found = find_metric(metric);
  return found != nullptr ? found->title : metric;
}

std::string in_words(const std::string& metric, double value) {
  if (std::isinf(value)) {
    if (kind_of(metric) != Kind::updates) return "infinite";
    return metric == "solved_at" ? "not solved" : "not reached";
  }
  switch (kind_of(metric)) {
    case Kind::updates:
      return format_count(std::llround(value));
    case Kind::share:
      return fmt::format("{:.2f} %", 100 * value);
    case Kind::bits:
      return fmt::format("{:.3f}", value);
    case Kind::loss:
      return fmt::format("{:.3g}", value);
    case Kind::ratio:
      return value < 1e-4 ? "< 0.01 %" : fmt::format("{:.3g} %", 100 * value);
    case Kind::count:
      return fmt::format("{:g}", value);
    case Kind::seconds:
      return format_duration(value);
  }
  return "";
}

std::string difference_in_words(const std::string& metric, double ours, double paper) {
  const double difference = ours - paper;
  switch (kind_of(metric)) {
    case Kind::share:
      return fmt::format("{:+.2f} points", 100 * difference);
    case Kind::bits:
      return fmt::format("{:+.3f}", difference);
    case Kind::updates:
      return std::isinf(difference)
                 ? "not solved"
                 : (difference > 0 ? "+" : "") + format_count(std::llround(difference));
    default:
      return difference == 0 ? "0" : fmt::format("{:+.3g}", difference);
  }
}

std::string in_words(const std::string& metric, const Spread& spread) {
  const std::string median = in_words(metric, spread.median);
  const std::string low = in_words(metric, spread.low), high = in_words(metric, spread.high);
  return low == high ? median : fmt::format("{} ({} to {})", median, low, high);
}

}  // namespace nru::report
