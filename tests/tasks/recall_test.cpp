// Variable copying, denoising, and the options of copying memory: layouts, masks, baselines and
// histograms.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "../support/test_files.h"
#include "tasks/registry.h"

namespace nru::tasks {
namespace {

std::unique_ptr<Task> make(const std::string& name, int lag, const OptionMap& options = {},
                           int rows = 10) {
  TaskSettings settings;
  settings.batch_size = rows;
  settings.lag = lag;
  settings.options = resolve_options(find_task(name).options, options, "task " + name);
  return find_task(name).make(settings);
}

Batch batch_of(const Task& task, std::uint64_t index, Split split = Split::train) {
  Batch batch;
  batch.weights = {1.0f};  // left over from another task
  batch.carry = Carry::state;
  task.make_batch(split, index, batch);
  return batch;
}

int chrono(const std::string& name, int lag) {
  TaskSettings settings;
  settings.lag = lag;
  return find_task(name).chrono_t_max(settings);
}

// The lag of a row, from where its marker stands; -1 unless there is exactly one.
int lag_of(const Batch& batch, int row) {
  int lag = -1;
  for (int t = 0; t < batch.steps; ++t) {
    if (batch.symbols[t * batch.rows + row] != 9) continue;
    if (lag >= 0) return -1;
    lag = t - 9;
  }
  return lag;
}

TEST(CopyVariable, IsCopyingMemoryAtTheLagOfTheBatch) {
  const auto task = make("copy-variable", 30);
  std::set<int> lags;
  for (std::uint64_t index = 0; index < 300; ++index) {
    const Batch batch = batch_of(*task, index);
    const int lag = lag_of(batch, 0);
    lags.insert(lag);
    ASSERT_EQ(batch.steps, lag + 20);
    EXPECT_TRUE(batch.weights.empty());
    EXPECT_EQ(batch.carry, Carry::nothing);
    EXPECT_DOUBLE_EQ(batch.baseline, 10 * std::log(8) / (lag + 20));
    for (int row = 0; row < batch.rows; ++row) {
      ASSERT_EQ(lag_of(batch, row), lag);
      for (int t = 0; t < batch.steps; ++t) {
        const int shown = t < lag + 10 ? 0 : batch.symbols[(t - lag - 10) * batch.rows + row];
        ASSERT_EQ(batch.targets[t * batch.rows + row], shown);
      }
    }
  }
  EXPECT_EQ(lags.size(), 30u);
  EXPECT_EQ(*lags.begin(), 1);
  EXPECT_EQ(*lags.rbegin(), 30);
}

// 20,000 lags over 20 values: chi-square with 19 degrees of freedom stays below 52 in 99.99 %.
TEST(CopyVariable, LagsAreUniform) {
  const auto task = make("copy-variable", 24, {{"lag_min", std::int64_t{5}}}, 1);
  std::map<int, int> counts;
  for (std::uint64_t index = 0; index < 20000; ++index) ++counts[batch_of(*task, index).steps - 20];
  ASSERT_EQ(counts.size(), 20u);
  double chi_square = 0;
  for (const auto& [lag, count] : counts) {
    EXPECT_TRUE(lag >= 5 && lag <= 24);
    chi_square += (count - 1000.0) * (count - 1000.0) / 1000.0;
  }
  EXPECT_LT(chi_square, 52);
  EXPECT_GT(chi_square, 3);
}

TEST(CopyVariable, BaselinesOfThePaper) {
  EXPECT_NEAR(make("copy-variable", 100)->baseline(), 0.3683, 5e-5);
  EXPECT_NEAR(make("copy-variable", 200)->baseline(), 0.2470, 5e-5);
  EXPECT_EQ(chrono("copy-variable", 100), 120);
}

// Every row is the sequence it would be alone; what lies behind it is masked; all rows count alike.
TEST(CopyVariable, PerRowLagsArePaddedAndMasked) {
  const auto task = make("copy-variable", 40, {{"per_row", true}});
  const auto alone = make("copy-variable", 40, {{"per_row", true}}, 1);
  const Batch batch = batch_of(*task, 3);
  std::set<int> lags;
  double expected = 0;
  for (int row = 0; row < batch.rows; ++row) {
    const int lag = lag_of(batch, row);
    ASSERT_GE(lag, 1);
    lags.insert(lag);
    expected += 10 * std::log(8) / (lag + 20) / batch.rows;
    double sum = 0;
    for (int t = 0; t < batch.steps; ++t) {
      const float weight = batch.weights[t * batch.rows + row];
      if (t < lag + 20) {
        EXPECT_FLOAT_EQ(weight, 1.0f / (lag + 20));
      } else {
        EXPECT_EQ(weight, 0);
        EXPECT_EQ(batch.symbols[t * batch.rows + row], 0);
      }
      sum += weight;
    }
    EXPECT_NEAR(sum, 1, 1e-6);
  }
  EXPECT_GT(lags.size(), 3u);
  EXPECT_EQ(batch.steps, *lags.rbegin() + 20);
  EXPECT_DOUBLE_EQ(batch.baseline, expected);
  EXPECT_EQ(task->evaluation_weight(batch), 10);
  const Batch first = batch_of(*alone, 3);
  ASSERT_EQ(lag_of(first, 0), lag_of(batch, 0));
  for (int t = 0; t < first.steps; ++t) {
    EXPECT_EQ(first.symbols[t], batch.symbols[t * batch.rows]);
    EXPECT_EQ(first.targets[t], batch.targets[t * batch.rows]);
  }
}

TEST(CopyVariable, MaskedPositionsDoNotScore) {
  const auto task = make("copy-variable", 40, {{"per_row", true}});
  const Batch batch = batch_of(*task, 3);
  std::vector<std::int32_t> predictions = batch.targets;
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    if (batch.weights[i] == 0) predictions[i] = 7;
  }
  EXPECT_EQ(task->score(batch, predictions), (Score{100, 100, 10, 10}));
}

TEST(CopyVariable, RejectsImpossibleLags) {
  for (std::int64_t least : {0, 31, -1}) {
    const std::string message = test::error_of([&] {
      make("copy-variable", 30, {{"lag_min", least}});
    });
    EXPECT_NE(message.find("lag_min " + std::to_string(least)), std::string::npos) << message;
  }
}

TEST(Denoise, HasTenSymbolsInOrderAndAsksForThem) {
  for (const int lag : {10, 11, 100}) {
    const auto task = make("denoise", lag);
    for (std::uint64_t index = 0; index < 20; ++index) {
      const Batch batch = batch_of(*task, index);
      ASSERT_EQ(batch.steps, lag + 11);
      EXPECT_EQ(batch.loss_from, lag + 1);
      for (int row = 0; row < batch.rows; ++row) {
        std::vector<int> shown, asked;
        for (int t = 0; t < lag; ++t) {
          const int symbol = batch.symbols[t * batch.rows + row];
          ASSERT_TRUE(symbol >= 0 && symbol <= 8);
          if (symbol > 0) shown.push_back(symbol);
        }
        ASSERT_EQ(batch.symbols[lag * batch.rows + row], 9);
        for (int t = lag + 1; t < batch.steps; ++t) {
          EXPECT_EQ(batch.symbols[t * batch.rows + row], 0);
          asked.push_back(batch.targets[t * batch.rows + row]);
        }
        ASSERT_EQ(shown.size(), 10u);
        EXPECT_EQ(shown, asked);
      }
    }
  }
}

// Each of 30 steps holds a symbol in a third of the sequences: 20,000 sequences, a count's standard
// deviation is 67; five of them.
TEST(Denoise, PlacesAreUniform) {
  const auto task = make("denoise", 30);
  std::vector<int> counts(30, 0);
  for (std::uint64_t index = 0; index < 2000; ++index) {
    const Batch batch = batch_of(*task, index);
    for (int t = 0; t < 30; ++t) {
      for (int row = 0; row < 10; ++row) counts[t] += batch.symbols[t * 10 + row] > 0;
    }
  }
  for (int t = 0; t < 30; ++t) EXPECT_NEAR(counts[t], 20000 / 3.0, 5 * 67) << "step " << t;
}

TEST(Denoise, BaselinesAndMasks) {
  EXPECT_NEAR(make("denoise", 100)->baseline(), 2.0794, 5e-5);
  const auto all = make("denoise", 100, {{"loss_all", true}});
  EXPECT_NEAR(all->baseline(), 0.1873, 5e-5);
  EXPECT_EQ(batch_of(*all, 0).loss_from, 0);
  EXPECT_EQ(chrono("denoise", 100), 111);
  EXPECT_NE(test::error_of([] { make("denoise", 9); }).find("lag 9"), std::string::npos);
}

TEST(Denoise, OnlyTheRecallScores) {
  const auto task = make("denoise", 20, {}, 2);
  const Batch batch = batch_of(*task, 0);
  std::vector<std::int32_t> predictions(batch.targets.size(), 3);
  for (int t = 21; t < batch.steps; ++t) {
    for (int row = 0; row < 2; ++row) predictions[t * 2 + row] = batch.targets[t * 2 + row];
  }
  EXPECT_EQ(task->score(batch, predictions), (Score{20, 20, 2, 2}));
  predictions.back() = 0;
  EXPECT_EQ(task->score(batch, predictions), (Score{19, 20, 1, 2}));
}

TEST(CopyLabels, RandomTargetsDoNotFollowTheInput) {
  const auto recall = make("copy", 10),
             random = make("copy", 10, {{"labels", std::string("random")}});
  int agreed = 0;
  std::map<int, int> counts;
  for (std::uint64_t index = 0; index < 200; ++index) {
    const Batch a = batch_of(*recall, index), b = batch_of(*random, index);
    ASSERT_EQ(a.symbols, b.symbols);
    for (std::size_t i = 0; i < a.targets.size(); ++i) {
      if (i < 20 * 10u) {
        ASSERT_EQ(b.targets[i], 0);
      } else {
        agreed += a.targets[i] == b.targets[i];
        ++counts[b.targets[i]];
      }
    }
  }
  EXPECT_NEAR(agreed, 20000 / 8, 5 * 47);  // five standard deviations
  ASSERT_EQ(counts.size(), 8u);
  for (const auto& [symbol, count] : counts) EXPECT_NEAR(count, 2500, 5 * 47) << symbol;
  EXPECT_EQ(random->baseline(), recall->baseline());
}

TEST(CopyLabels, RandomEverywhere) {
  const auto task = make("copy", 10, {{"labels", std::string("random_all")}});
  EXPECT_NEAR(task->baseline(), std::log(9), 1e-12);
  std::set<int> seen;
  const Batch batch = batch_of(*task, 0);
  for (int i = 0; i < 100; ++i) seen.insert(batch.targets[i]);
  EXPECT_EQ(seen.size(), 9u);
}

TEST(CopyReset, TheStateGoesOnWithinAGroup) {
  const auto task = make("copy", 10, {{"reset_every", std::int64_t{3}}});
  EXPECT_TRUE(task->carries_state());
  EXPECT_FALSE(make("copy", 10)->carries_state());
  for (std::uint64_t index = 0; index < 7; ++index) {
    const Carry expected = index % 3 == 0 ? Carry::nothing : Carry::state;
    EXPECT_EQ(batch_of(*task, index).carry, expected) << index;
    EXPECT_EQ(batch_of(*task, index, Split::test).carry, expected) << index;
  }
  const auto memory =
      make("copy", 10, {{"reset_every", std::int64_t{2}}, {"carry", std::string("memory")}});
  EXPECT_EQ(batch_of(*memory, 1).carry, Carry::memory);
  EXPECT_NE(test::error_of([] {
              make("copy", 10, {{"reset_every", std::int64_t{0}}});
            }).find("reset_every 0"),
            std::string::npos);
}

// The first updates are those of a task with the shorter lag, but for the baseline; all else is the
// task's own.
TEST(CopyFirstLag, TrainingBeginsWithAShorterLag) {
  const auto with = [](std::int64_t lag, std::int64_t updates) {
    return make("copy", 30, {{"first_lag", lag}, {"first_updates", updates}});
  };
  const auto task = with(5, 3), brief = make("copy", 5), plain = make("copy", 30);
  const auto expect_same = [](const Batch& a, const Batch& b) {
    EXPECT_EQ(a.steps, b.steps);
    EXPECT_EQ(a.symbols, b.symbols);
    EXPECT_EQ(a.targets, b.targets);
  };
  EXPECT_EQ(task->baseline(), plain->baseline());
  for (std::uint64_t index = 0; index < 6; ++index) {
    SCOPED_TRACE(index);
    const Batch batch = batch_of(*task, index);
    expect_same(batch, batch_of(index < 3 ? *brief : *plain, index));
    EXPECT_EQ(batch.baseline, index < 3 ? 0 : plain->baseline());
    EXPECT_EQ(task->shape(Split::train, index), batch.shape());
    for (const Split split : {Split::valid, Split::test}) {
      expect_same(batch_of(*task, index, split), batch_of(*plain, index, split));
      EXPECT_EQ(batch_of(*task, index, split).baseline, plain->baseline());
    }
  }
  for (const auto& [lag, updates] : {std::pair{5, 0}, {0, 3}, {-1, 3}, {5, -1}, {1'000'001, 3}}) {
    EXPECT_NE(test::error_of([&, lag = lag, updates = updates] {
                with(lag, updates);
              }).find("first_lag " + std::to_string(lag)),
              std::string::npos);
  }
}

// Training has resets of its own at first; the other splits never do.
TEST(CopyReset, TrainingBeginsWithMoreResets) {
  const auto with = [](std::int64_t every, std::int64_t updates) {
    return make("copy", 10,
                {{"reset_every", std::int64_t{5}},
                 {"first_reset_every", every},
                 {"first_updates", updates}});
  };
  const auto task = with(2, 7), plain = make("copy", 10);
  for (std::uint64_t index = 0; index < 12; ++index) {
    SCOPED_TRACE(index);
    const Batch batch = batch_of(*task, index);
    const std::uint64_t every = index < 7 ? 2 : 5;
    EXPECT_EQ(batch.carry, index % every == 0 ? Carry::nothing : Carry::state);
    EXPECT_EQ(batch.symbols, batch_of(*plain, index).symbols);
    EXPECT_EQ(batch.baseline, index < 7 ? 0 : plain->baseline());
    EXPECT_EQ(batch_of(*task, index, Split::valid).carry,
              index % 5 == 0 ? Carry::nothing : Carry::state);
  }
  for (const auto& [every, updates] : {std::pair{6, 3}, {-1, 3}, {2, 0}, {0, 3}}) {
    EXPECT_NE(test::error_of([&, every = every, updates = updates] {
                with(every, updates);
              }).find("first_reset_every " + std::to_string(every)),
              std::string::npos);
  }
}

// The widths in the table are those of the task.
TEST(Recall, WidthsOfTheTable) {
  for (const char* name : {"copy", "copy-variable", "denoise"}) {
    const auto task = make(name, 20);
    EXPECT_EQ(find_task(name).widths,
              (Widths{task->input_size(), task->embedding_size(), task->output_size()}));
  }
}

}  // namespace
}  // namespace nru::tasks
