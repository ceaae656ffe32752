// What the report says about a run in numbers, by the names of experiments::metric_names().
//
// Some come from result.json, the others are measured on all rows of metrics.csv, before these are
// thinned for figures. A thinned copy of a run keeps them in measures.json, so that it gives the
// same report as the run itself.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "training/metrics.h"

namespace nru::report {

// Rows of one split in the order of the file.
using Rows = std::vector<training::MetricsRow>;

inline constexpr std::int64_t kEarlyUpdates = 10000;

struct Measures {
  std::optional<double> baseline;  // loss over relative loss, at the first row that has both
  bool baseline_varies = false;    // by more than 1 % between rows: each batch has its own
  std::optional<double> best_loss, final_loss;    // means of 200 updates, training
  std::optional<double> best_ratio, final_ratio;  // the same of the relative loss
  std::optional<double> early_grad_norm;          // mean of the first kEarlyUpdates
  std::optional<double> max_memory, max_hidden;
  std::optional<double> valid_drop;  // largest fall of the accuracy below its best so far
  std::int64_t bursts = 0;           // above 10 times the baseline after having been below it
  std::int64_t skipped = 0;          // updates
  std::int64_t last_update = 0;

  bool operator==(const Measures&) const = default;
};

Measures measure(const Rows& train, const Rows& valid);

std::string to_json(const Measures& measures);
// Throws nru::Error when `text` is not what to_json writes; `name` stands for the file.
Measures parse_measures(const std::string& text, const std::string& name);

// At most `most` rows: means of equal groups (of max_memory and max_hidden the maxima, of skipped
// and overflows the sums), each at the last update of its group. Short ones stay as they are.
Rows thin_rows(const Rows& rows, std::size_t most = 400);

}  // namespace nru::report
