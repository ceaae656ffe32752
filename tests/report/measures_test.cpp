// What is measured on the rows of a run, and how they are thinned.
#include "report/measures.h"

#include <gtest/gtest.h>

#include <cmath>

#include "../support/test_files.h"
#include "made_up.h"
#include "report/values.h"

namespace nru::report {
namespace {

using training::MetricsRow;

constexpr double kBaseline = 0.2;

Rows rows_of(const std::vector<double>& ratios, std::int64_t every = 10) {
  Rows rows;
  for (std::size_t i = 0; i < ratios.size(); ++i) {
    MetricsRow row;
    row.update = every * static_cast<std::int64_t>(i + 1);
    row.split = "train";
    row.relative_loss = ratios[i];
    row.loss = ratios[i] * kBaseline;
    row.skipped = 0;
    rows.push_back(row);
  }
  return rows;
}

TEST(Measures, BestAndFinalAreMeansOfTwoHundredUpdates) {
  std::vector<double> ratios(100, 1.0);
  for (int i = 40; i < 60; ++i) ratios[i] = 0.5;  // exactly 200 updates
  ratios[10] = 0.01;                              // one lucky row is no mean
  const Measures measures = measure(rows_of(ratios), {});
  EXPECT_NEAR(*measures.best_ratio, 0.5, 1e-12);
  EXPECT_NEAR(*measures.best_loss, 0.5 * kBaseline, 1e-12);
  EXPECT_NEAR(*measures.final_ratio, 1, 1e-12);
  EXPECT_NEAR(*measures.baseline, kBaseline, 1e-12);
  EXPECT_EQ(measures.last_update, 1000);
}

TEST(Measures, BurstsAreCountedAfterHavingBeenBelow) {
  EXPECT_EQ(measure(rows_of({40, 20, 11, 1.5, 40}), {}).bursts, 0);  // never below
  EXPECT_EQ(measure(rows_of({40, 0.5, 11, 40, 2, 30, 0.9, 50}), {}).bursts, 2);
  EXPECT_EQ(measure(rows_of({0.5, INFINITY}), {}).bursts, 1);
}

TEST(Measures, OfRowsThatLackThings) {
  EXPECT_EQ(measure({}, {}), Measures{});
  Rows rows = rows_of({1, 1});
  rows[0].loss.reset();
  rows[0].relative_loss.reset();
  rows[1].skipped = 3;
  const Measures measures = measure(rows, {});
  EXPECT_EQ(measures.skipped, 3);
  EXPECT_EQ(measures.best_ratio, 1);
}

TEST(Measures, EarlyGradientsAndTheFallOfTheAccuracy) {
  Rows rows = rows_of({1, 1, 1}, 5000), valid;
  rows[0].grad_norm = 2;
  rows[1].grad_norm = 4;
  rows[2].grad_norm = 100;
  for (const double accuracy : {0.5, 0.9, 0.7, 0.95, 0.94}) {
    valid.emplace_back().accuracy = accuracy;
  }
  const Measures measures = measure(rows, valid);
  EXPECT_EQ(measures.early_grad_norm, 3);
  EXPECT_NEAR(*measures.valid_drop, 0.2, 1e-12);
}

TEST(Measures, BaselinesThatVary) {
  Rows rows = rows_of({1, 1});
  EXPECT_FALSE(measure(rows, {}).baseline_varies);
  rows[1].loss = 0.3;
  EXPECT_TRUE(measure(rows, {}).baseline_varies);
}

TEST(Measures, JsonReadsBack) {
  Measures measures = measure(rows_of({1, 0.5, 20}), {});
  measures.valid_drop = 0.1;
  EXPECT_EQ(parse_measures(to_json(measures), "x"), measures);
  measures.final_loss = INFINITY;  // no number of JSON
  EXPECT_EQ(parse_measures(to_json(measures), "x").final_loss, std::nullopt);
  EXPECT_NE(test::error_of([] { parse_measures("{}", "some/file"); }).find("some/file"),
            std::string::npos);
}

TEST(Thinning, MeansMaximaSumsAndTheLastUpdate) {
  Rows rows = rows_of(std::vector<double>(1000, 1.0));
  rows[11].loss = 5;
  rows[12].max_memory = 7;
  rows[13].skipped = 2;
  rows[14].loss.reset();
  const Rows thin = thin_rows(rows, 100);
  ASSERT_EQ(thin.size(), 100u);
  EXPECT_EQ(thin[0].update, 100);
  EXPECT_EQ(thin[99].update, 10000);
  EXPECT_NEAR(*thin[1].loss, (8 * kBaseline + 5) / 9, 1e-12);
  EXPECT_EQ(thin[1].max_memory, 7);
  EXPECT_FALSE(thin[2].max_memory);
  EXPECT_EQ(thin[1].skipped, 2);
  EXPECT_EQ(thin_rows(thin, 100), thin);
}

TEST(Values, MediansAndRanges) {
  test::Cast cast;
  cast.add({.solved_at = 100}).add({.seed = 2, .solved_at = 300}).add({.seed = 3});
  const Series series = cast.series()[0];
  const Spread spread = *spread_of(series, "solved_at");
  EXPECT_EQ(spread.median, 300);
  EXPECT_EQ(spread.low, 100);
  EXPECT_TRUE(std::isinf(spread.high));
  EXPECT_EQ(in_words("solved_at", spread), "300 (100 to not solved)");
  EXPECT_EQ(median_of({4, 1}), 2.5);
  EXPECT_FALSE(spread_of(series, "test_bpc"));
  EXPECT_EQ(in_words("test_accuracy", 0.9538), "95.38 %");
  EXPECT_EQ(difference_in_words("test_accuracy", 0.95, 0.9538), "-0.38 points");
  EXPECT_EQ(difference_in_words("test_bpc", 1.49, 1.47), "+0.020");
}

TEST(Values, EveryMetricOfTheExperimentsIsKnown) {
  for (const std::string& name : experiments::metric_names()) EXPECT_TRUE(is_metric(name)) << name;
  EXPECT_FALSE(is_metric("nonsense"));
}

}  // namespace
}  // namespace nru::report
