// Copying memory: layout, purity, statistics and scores of the generator; the table it is found in.
#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "../support/test_files.h"
#include "tasks/registry.h"

namespace nru::tasks {
namespace {

std::unique_ptr<Task> make_copy(int lag, int rows = 10, std::uint64_t seed = 1) {
  TaskSettings settings;
  settings.seed = seed;
  settings.batch_size = rows;
  settings.lag = lag;
  settings.options = resolve_options(find_task("copy").options, {}, "task copy");
  return find_task("copy").make(settings);
}

Batch batch_of(const Task& task, Split split, std::uint64_t index) {
  Batch batch;
  task.make_batch(split, index, batch);
  return batch;
}

// The whole sequence, position by position, as the paper's task has it; T=1 leaves no blank before
// the marker.
TEST(Copy, LayoutOfEveryLag) {
  for (int lag : {1, 2, 20, 100}) {
    const int rows = 3;
    const Batch batch = batch_of(*make_copy(lag, rows), Split::train, 7);
    ASSERT_EQ(batch.steps, lag + 20);
    ASSERT_EQ(batch.rows, rows);
    ASSERT_EQ(batch.symbols.size(), static_cast<std::size_t>(batch.steps * rows));
    ASSERT_EQ(batch.targets.size(), batch.symbols.size());
    EXPECT_TRUE(batch.dense.empty());
    EXPECT_TRUE(batch.weights.empty());
    EXPECT_EQ(batch.loss_from, 0);
    EXPECT_EQ(batch.carry, Carry::nothing);
    EXPECT_EQ(batch.weight_sum(), batch.steps * rows);
    for (int row = 0; row < rows; ++row) {
      for (int t = 0; t < batch.steps; ++t) {
        const int input = batch.symbols[t * rows + row];
        const int target = batch.targets[t * rows + row];
        SCOPED_TRACE(testing::Message() << "lag " << lag << " step " << t << " row " << row);
        if (t < 10) {
          EXPECT_GE(input, 1);
          EXPECT_LE(input, 8);
        } else {
          EXPECT_EQ(input, t == lag + 9 ? 9 : 0);
        }
        EXPECT_EQ(target, t < lag + 10 ? 0 : batch.symbols[(t - lag - 10) * rows + row]);
      }
    }
  }
}

TEST(Copy, SizesAndBaselines) {
  const auto task = make_copy(100);
  EXPECT_EQ(task->input_size(), 10);
  EXPECT_EQ(task->output_size(), 9);
  EXPECT_EQ(task->embedding_size(), 0);
  TaskSettings settings;
  settings.lag = 100;
  EXPECT_EQ(find_task("copy").chrono_t_max(settings), 120);
  EXPECT_EQ(task->updates_per_epoch(), 0);
  EXPECT_EQ(task->evaluation_batches(Split::valid), 50);
  EXPECT_FALSE(task->bpc(1.0).has_value());
  EXPECT_NEAR(make_copy(100)->baseline(), 0.17329, 5e-6);
  EXPECT_NEAR(make_copy(200)->baseline(), 0.09452, 5e-6);
  EXPECT_NEAR(make_copy(500)->baseline(), 0.03999, 5e-6);
  EXPECT_NEAR(make_copy(2000)->baseline(), 0.01029, 5e-6);
  EXPECT_EQ(batch_of(*task, Split::test, 0).baseline, task->baseline());
}

TEST(Copy, ABatchDependsOnNothingButItsCoordinates) {
  const auto task = make_copy(30);
  const Batch first = batch_of(*task, Split::train, 5);
  Batch reused;
  reused.dense = {1.0f};
  reused.weights = {0.5f};
  reused.loss_from = 9;
  reused.carry = Carry::state;
  make_copy(200, 17)->make_batch(Split::test, 99, reused);
  task->make_batch(Split::valid, 4, reused);
  task->make_batch(Split::train, 5, reused);
  EXPECT_EQ(reused.symbols, first.symbols);
  EXPECT_EQ(reused.targets, first.targets);
  EXPECT_TRUE(reused.dense.empty() && reused.weights.empty());
  EXPECT_EQ(reused.loss_from, 0);
  EXPECT_EQ(reused.carry, Carry::nothing);
}

TEST(Copy, SeedSplitAndIndexAllMatter) {
  std::set<std::vector<std::int32_t>> seen;
  for (std::uint64_t seed : {1, 2}) {
    for (Split split : {Split::train, Split::valid, Split::test}) {
      for (std::uint64_t index : {0, 1, 2}) {
        seen.insert(batch_of(*make_copy(30, 10, seed), split, index).symbols);
      }
    }
  }
  EXPECT_EQ(seen.size(), 18u);
}

// The symbols of a row do not depend on how many rows or steps there are.
TEST(Copy, RowsKeepTheirSymbolsWhenTheBatchGrows) {
  const Batch small = batch_of(*make_copy(10, 2), Split::train, 3);
  const Batch large = batch_of(*make_copy(50, 5), Split::train, 3);
  for (int t = 0; t < 10; ++t) {
    for (int row = 0; row < 2; ++row)
      EXPECT_EQ(small.symbols[t * 2 + row], large.symbols[t * 5 + row]);
  }
}

// 80,000 symbols over 8 classes at each of 10 places: chi-square with 79 degrees of freedom stays
// below 135 in 99.99 %.
TEST(Copy, SymbolsAreUniformAtEveryPlace) {
  const auto task = make_copy(1, 10);
  std::vector<int> counts(10 * 9, 0);
  Batch batch;
  for (std::uint64_t index = 0; index < 800; ++index) {
    task->make_batch(Split::train, index, batch);
    for (int t = 0; t < 10; ++t) {
      for (int row = 0; row < 10; ++row) ++counts[t * 9 + batch.symbols[t * 10 + row]];
    }
  }
  double chi_square = 0;
  for (int t = 0; t < 10; ++t) {
    EXPECT_EQ(counts[t * 9], 0);
    for (int symbol = 1; symbol <= 8; ++symbol) {
      const double off = counts[t * 9 + symbol] - 1000.0;
      chi_square += off * off / 1000.0;
    }
  }
  EXPECT_LT(chi_square, 135);
  EXPECT_GT(chi_square, 30);
}

TEST(Copy, ScoresHandMadePredictions) {
  const int rows = 4;
  const auto task = make_copy(5, rows);
  const Batch batch = batch_of(*task, Split::valid, 0);
  std::vector<std::int32_t> predictions = batch.targets;
  EXPECT_EQ(task->score(batch, predictions), (Score{40, 40, 4, 4}));

  const int last = batch.steps - 1;
  predictions[last * rows + 0] = 0;  // row 0: one recalled symbol wrong
  predictions[3 * rows + 1] = 5;     // row 1: one blank wrong
  for (int t = 15; t <= last; ++t) predictions[t * rows + 2] = 0;  // row 2: recalls nothing
  const Score score = task->score(batch, predictions);
  EXPECT_EQ(score, (Score{29, 40, 1, 4}));
  EXPECT_DOUBLE_EQ(*score.accuracy(), 29.0 / 40);
  EXPECT_DOUBLE_EQ(*score.exact_rate(), 0.25);

  predictions.pop_back();
  EXPECT_THROW(task->score(batch, predictions), std::invalid_argument);
}

TEST(Copy, RejectsImpossibleSettings) {
  for (int lag : {0, -3, 1'000'001}) {
    EXPECT_NE(test::error_of([&] { make_copy(lag); }).find("lag " + std::to_string(lag)),
              std::string::npos);
  }
  EXPECT_NE(test::error_of([&] { make_copy(10, 0); }).find("batch_size 0"), std::string::npos);
  TaskSettings settings;
  settings.lag = 10;
  settings.options =
      resolve_options(find_task("copy").options, {{"evaluation_batches", std::int64_t{0}}}, "copy");
  EXPECT_NE(test::error_of([&] { find_task("copy").make(settings); }).find("evaluation_batches 0"),
            std::string::npos);
}

TEST(Score, AddsUpAndHasNoRateWithoutCounts) {
  EXPECT_FALSE(Score{}.accuracy().has_value());
  EXPECT_FALSE(Score{}.exact_rate().has_value());
  Score sum{1, 2, 0, 1};
  sum += Score{3, 6, 1, 1};
  EXPECT_EQ(sum, (Score{4, 8, 1, 2}));
}

TEST(Batch, WeightSumFollowsMaskAndFirstStep) {
  Batch batch;
  batch.steps = 3;
  batch.rows = 2;
  EXPECT_EQ(batch.weight_sum(), 6);
  batch.loss_from = 2;
  EXPECT_EQ(batch.weight_sum(), 2);
  batch.weights = {9, 9, 9, 9, 0.5f, 0.25f};
  EXPECT_EQ(batch.weight_sum(), 0.75);
}

TEST(Tasks, TableIsSortedUniqueAndComplete) {
  ASSERT_FALSE(tasks().empty());
  for (std::size_t i = 1; i < tasks().size(); ++i) EXPECT_LT(tasks()[i - 1].name, tasks()[i].name);
  for (const TaskInfo& info : tasks()) {
    SCOPED_TRACE(info.name);
    EXPECT_FALSE(info.summary.empty());
    EXPECT_FALSE(info.size_class.empty());
    EXPECT_TRUE(info.make);
    EXPECT_TRUE(info.chrono_t_max);
    EXPECT_NE(info.defaults.updates > 0, info.defaults.epochs > 0);
    EXPECT_GT(info.defaults.batch_size, 0);
  }
}

TEST(Tasks, UnknownNameGetsTheNearest) {
  const std::string message = test::error_of([] { find_task("cpoy"); });
  EXPECT_NE(message.find("'cpoy'"), std::string::npos);
  EXPECT_NE(message.find("did you mean 'copy'"), std::string::npos);
}

}  // namespace
}  // namespace nru::tasks
