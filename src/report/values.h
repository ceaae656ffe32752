// Metrics by name: of a run, over seeds, in words.
#pragma once

#include <optional>
#include <string>

#include "report/collection.h"

namespace nru::report {

// Of a run that counts; nothing where the run does not have it. solved_at of a run that did not
// solve is infinite. top1 and top2 belong to rankings (ranking.h), not to runs.
std::optional<double> value_of(const Run& run, const std::string& metric);

// Whether more updates might change the metric of a run that was cut short.
bool is_open(const Run& run, const std::string& metric);

// Over the counted runs of a series that have the metric.
struct Spread {
  double median = 0, low = 0, high = 0;
  int runs = 0;
};
std::optional<Spread> spread_of(const Series& series, const std::string& metric);

double median_of(std::vector<double> values);  // of at least one

// The updates that counted runs which did not solve made at least, what "not solved" is about;
// where all solved, those of the longest.
std::int64_t budget_of(const Series& series);

// The same where no run is open; nothing while one is.
std::optional<Spread> full_spread_of(const Series& series, const std::string& metric);

bool is_metric(const std::string& name);
bool lower_is_better(const std::string& metric);

// "12,300", "95.38 %", "1.47 bits", "3.2 % of the baseline", "not solved".
std::string in_words(const std::string& metric, double value);
// The difference of two such values with its sign: "+0.02", "-0.5 points".
std::string difference_in_words(const std::string& metric, double ours, double paper);
// The name of a metric for the head of a column: "test accuracy".
std::string title_of(const std::string& metric);
// "median (low to high)", or the value alone.
std::string in_words(const std::string& metric, const Spread& spread);

}  // namespace nru::report
