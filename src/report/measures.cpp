#include "report/measures.h"

#include <fmt/format.h>
#include <nru/error.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>

#include "support/json.h"
#include "training/criteria.h"

namespace nru::report {
namespace {

using training::MetricsRow;
using Json = nlohmann::ordered_json;
using Field = std::optional<double> MetricsRow::*;

constexpr double kBurst = 10;

// How many rows make up the window of "solved".
std::size_t window_of(const Rows& rows) {
  const std::int64_t every = rows.size() > 1 ? rows[1].update - rows[0].update : rows[0].update;
  const std::int64_t window = training::SolvedTracker::window;
  return static_cast<std::size_t>(
      std::max<std::int64_t>(1, window / std::max<std::int64_t>(1, every)));
}

struct BestAndFinal {
  std::optional<double> best, final;
};

// The least and the last mean of a window of rows that all have the field; of what there is when
// there are fewer.
BestAndFinal windows(const Rows& rows, Field field) {
  std::vector<double> values;
  for (const MetricsRow& row : rows) {
    if (row.*field) values.push_back(*(row.*field));
  }
  if (values.empty()) return {};
  const std::size_t size = std::min(window_of(rows), values.size());
  BestAndFinal found;
  for (std::size_t end = size; end <= values.size(); ++end) {
    double sum = 0;  // afresh each time: an infinite loss must not stay in a running sum
    for (std::size_t i = end - size; i < end; ++i) sum += values[i];
    found.final = sum / static_cast<double>(size);
    if (!found.best || *found.final < *found.best) found.best = found.final;
  }
  return found;
}

void raise(std::optional<double>& largest, const std::optional<double>& value) {
  if (value && (!largest || *value > *largest)) largest = value;
}

void measure_training(const Rows& rows, Measures& measures) {
  double grad_sum = 0, grad_count = 0;
  bool below = false;
  for (const MetricsRow& row : rows) {
    measures.last_update = row.update;
    measures.skipped += row.skipped.value_or(0);
    raise(measures.max_memory, row.max_memory);
    raise(measures.max_hidden, row.max_hidden);
    if (row.grad_norm && row.update <= kEarlyUpdates) {
      grad_sum += *row.grad_norm;
      grad_count += 1;
    }
    if (!row.relative_loss || !row.loss) continue;
    const double ratio = *row.relative_loss;
    if (ratio > 0 && std::isfinite(ratio)) {
      const double baseline = *row.loss / ratio;
      if (!measures.baseline) measures.baseline = baseline;
      if (std::abs(baseline / *measures.baseline - 1) > 0.01) measures.baseline_varies = true;
    }
    if (ratio < 1) below = true;
    if (below && !(ratio <= kBurst)) {
      ++measures.bursts;
      below = false;
    }
  }
  if (grad_count > 0) measures.early_grad_norm = grad_sum / grad_count;
}

// Calls visit(name, value) for every optional measure: the one list of them.
template <class M, class Visit>
void for_each_measure(M& measures, Visit visit) {
  visit("baseline", measures.baseline);
  visit("best_loss", measures.best_loss);
  visit("final_loss", measures.final_loss);
  visit("best_ratio", measures.best_ratio);
  visit("final_ratio", measures.final_ratio);
  visit("early_grad_norm", measures.early_grad_norm);
  visit("max_memory", measures.max_memory);
  visit("max_hidden", measures.max_hidden);
  visit("valid_drop", measures.valid_drop);
}

MetricsRow mean_row(std::span<const MetricsRow> rows) {
  MetricsRow mean = rows.back();
  for (const Field field : {&MetricsRow::loss, &MetricsRow::relative_loss, &MetricsRow::accuracy,
                            &MetricsRow::exact, &MetricsRow::bpc, &MetricsRow::grad_norm}) {
    double sum = 0, count = 0;
    for (const MetricsRow& row : rows) {
      if (!(row.*field)) continue;
      sum += *(row.*field);
      count += 1;
    }
    mean.*field = count > 0 ? std::optional(sum / count) : std::nullopt;
  }
  for (const MetricsRow& row : rows.first(rows.size() - 1)) {
    raise(mean.max_memory, row.max_memory);
    raise(mean.max_hidden, row.max_hidden);
    if (row.skipped) mean.skipped = mean.skipped.value_or(0) + *row.skipped;
    if (row.overflows) mean.overflows = mean.overflows.value_or(0) + *row.overflows;
  }
  return mean;
}

}  // namespace

Measures measure(const Rows& train, const Rows& valid) {
  Measures measures;
  measure_training(train, measures);
  const BestAndFinal loss = windows(train, &MetricsRow::loss);
  const BestAndFinal ratio = windows(train, &MetricsRow::relative_loss);
  measures.best_loss = loss.best;
  measures.final_loss = loss.final;
  measures.best_ratio = ratio.best;
  measures.final_ratio = ratio.final;
  std::optional<double> best;
  for (const MetricsRow& row : valid) {
    if (!row.accuracy) continue;
    raise(best, row.accuracy);
    raise(measures.valid_drop, *best - *row.accuracy);
  }
  return measures;
}

Rows thin_rows(const Rows& rows, std::size_t most) {
  if (rows.size() <= most) return rows;
  Rows thin;
  thin.reserve(most);
  for (std::size_t group = 0; group < most; ++group) {
    const std::size_t first = group * rows.size() / most, last = (group + 1) * rows.size() / most;
    thin.push_back(mean_row(std::span(rows).subspan(first, last - first)));
  }
  return thin;
}

std::string to_json(const Measures& measures) {
  Json json;
  for_each_measure(measures, [&](const char* name, const std::optional<double>& value) {
    json[name] = or_null(value);
  });
  json["baseline_varies"] = measures.baseline_varies;
  json["bursts"] = measures.bursts;
  json["skipped"] = measures.skipped;
  json["last_update"] = measures.last_update;
  return json.dump(2) + "\n";
}

Measures parse_measures(const std::string& text, const std::string& name) {
  try {
    const Json json = Json::parse(text);
    Measures measures;
    for_each_measure(measures, [&](const char* key, std::optional<double>& value) {
      const Json& found = json.at(key);
      if (!found.is_null()) value = found.get<double>();
    });
    json.at("baseline_varies").get_to(measures.baseline_varies);
    json.at("bursts").get_to(measures.bursts);
    json.at("skipped").get_to(measures.skipped);
    json.at("last_update").get_to(measures.last_update);
    return measures;
  } catch (const Json::exception& error) {
    throw Error(fmt::format("{} does not hold the measures of a run: {}; thin the run again", name,
                            error.what()));
  }
}

}  // namespace nru::report
