// The moving average of the weights: what evaluation, best.safetensors and a checkpoint make of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../support/needs_cuda.h"
#include "runs.h"

namespace nru::training {
namespace {

class Average : public ::testing::TestWithParam<const char*> {
 protected:
  RunConfig config(const std::string& name, int updates, double average,
                   const std::vector<std::string>& more = {}) const {
    std::vector<std::string> sets{"out=" + (directory_ / name).string(),
                                  "updates=" + std::to_string(updates),
                                  "average=" + std::to_string(average),
                                  "evaluate_every=4",
                                  "log_every=3",
                                  "batch_size=3",
                                  "task_options.evaluation_batches=2",
                                  std::string("device=") + GetParam()};
    sets.insert(sets.end(), more.begin(), more.end());
    return small_copy("nru", sets);
  }

  // What eval, sample and inspect take from a file of a run.
  std::vector<float> weights(const std::string& run, const std::string& file) const {
    Network network(config(run, 1, 0));
    load_weights(directory_ / run / file, network.parameters);
    return values_of(network.parameters);
  }
  // What a run trains on.
  std::vector<float> trained(const RunConfig& c) const {
    Network network(c);
    Optimizer optimizer({1e-3, 0.9, 0.999, 1e-8, false, c.average}, 1.0, 1, network.parameters);
    TrainingState state;
    load_checkpoint(RunPaths{c.out}.checkpoint(), network.parameters, optimizer, state);
    return values_of(network.parameters);
  }
  Metrics measured(const RunConfig& c, const std::vector<float>& values, tasks::Split split) const {
    Network network(c);
    std::copy(values.begin(), values.end(), network.parameters.values());
    return evaluate(*network.engine, *network.task, split).metrics();
  }

  test::TempDir directory_;
};

#define NRU_NEEDS_ITS_DEVICE() \
  if (std::string(GetParam()) == "cuda") NRU_NEEDS_CUDA_DEVICE()

TEST_P(Average, LeavesTrainingAlone) {
  NRU_NEEDS_ITS_DEVICE();
  const RunConfig with = config("with", 10, 0.8), without = config("without", 10, 0);
  finish(with);
  finish(without);
  EXPECT_EQ(trained(with), trained(without));
  EXPECT_NE(weights("with", "checkpoint.safetensors"), trained(with));
  EXPECT_EQ(weights("without", "checkpoint.safetensors"), trained(without));
}

TEST_P(Average, IsWhatIsEvaluatedAndKept) {
  NRU_NEEDS_ITS_DEVICE();
  const RunConfig c = config("run", 8, 0.8);
  const Result result = finish(c).result;
  EXPECT_EQ(result.average, 0.8);
  const std::vector<float> average = weights("run", "checkpoint.safetensors");
  EXPECT_EQ(*result.final.test, measured(c, average, tasks::Split::test));
  EXPECT_NE(*result.final.test, measured(c, trained(c), tasks::Split::test));
  ASSERT_EQ(result.best.update, 8) << "a test of the average at the end needs a loss that falls";
  EXPECT_EQ(*result.best.valid, measured(c, average, tasks::Split::valid));
  EXPECT_EQ(weights("run", "best.safetensors"), average);
  const auto best = SafetensorsFile::load(directory_ / "run" / "best.safetensors");
  EXPECT_EQ(best.metadata().at("average"), "0.8");
}

// The average of decay d after n updates: sum of d^(n-i) w_i over sum of d^(n-i).
TEST_P(Average, WeighsUpdatesByTheirAge) {
  NRU_NEEDS_ITS_DEVICE();
  constexpr int kUpdates = 5;
  std::vector<double> sum;
  double total = 0;
  for (int i = 1; i <= kUpdates; ++i) {
    const RunConfig c = config(std::to_string(i), i, 0);
    finish(c);
    const std::vector<float> values = trained(c);
    sum.resize(values.size());
    for (std::size_t j = 0; j < values.size(); ++j) sum[j] = 0.5 * sum[j] + values[j];
    total = 0.5 * total + 1;
  }
  finish(config("run", kUpdates, 0.5));
  const std::vector<float> average = weights("run", "checkpoint.safetensors");
  for (std::size_t j = 0; j < sum.size(); ++j) EXPECT_NEAR(average[j], sum[j] / total, 1e-6) << j;
}

TEST_P(Average, ResumesBitForBit) {
  NRU_NEEDS_ITS_DEVICE();
  finish(config("whole", 12, 0.8));
  finish(config("parts", 7, 0.8));
  finish(config("parts", 12, 0.8), true);
  for (const char* file : {"checkpoint.safetensors", "best.safetensors"})
    EXPECT_EQ(weights("whole", file), weights("parts", file)) << file;
  EXPECT_EQ(trained(config("whole", 12, 0.8)), trained(config("parts", 12, 0.8)));
}

// A run that was stopped before its first update has weights to evaluate all the same.
TEST_P(Average, StartsAtTheInitialWeights) {
  NRU_NEEDS_ITS_DEVICE();
  const RunConfig c = config("run", 5, 0.8, {"time_limit=1e-9"});
  const Result result = finish(c).result;
  ASSERT_EQ(result.updates, 0);
  Network network(c);
  EXPECT_EQ(*result.final.test, measured(c, values_of(network.parameters), tasks::Split::test));
}

INSTANTIATE_TEST_SUITE_P(Training, Average, ::testing::Values("cpu", "cuda"));

TEST(AverageCheckpoint, IsRefusedWhereItIsMissing) {
  const test::TempDir directory;
  const auto path = directory / "checkpoint.safetensors";
  Network network(small_copy("nru"));
  Optimizer plain({}, 1.0, 1, network.parameters);
  save_checkpoint(path, network.parameters, plain, {});
  Optimizer averaging({.average = 0.5}, 1.0, 1, network.parameters);
  TrainingState state;
  EXPECT_THAT(test::error_of([&] { load_checkpoint(path, network.parameters, averaging, state); }),
              ::testing::HasSubstr("average."));
}

}  // namespace
}  // namespace nru::training
