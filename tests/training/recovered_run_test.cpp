// Runs with `recover`: what becomes of the weights where training explodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "../support/needs_cuda.h"
#include "runs.h"

namespace nru::training {
namespace {

class RecoveredRuns : public ::testing::TestWithParam<const char*> {
 protected:
  RunConfig config(const std::string& name, int updates, int bad_from, int bad_to) const {
    return config_of(
        {{"task", "brittle"}, {"cell", "lstm"}, {"out", directory_ / name}},
        {"cell.hidden_size=5", "recover=true", std::string("device=") + GetParam(),
         "updates=" + std::to_string(updates), "task_options.bad_from=" + std::to_string(bad_from),
         "task_options.bad_count=" + std::to_string(bad_to - bad_from),
         "task_options.one_class=true"});
  }
  struct Saved {
    std::vector<float> values, m, v;
    std::int64_t steps;
    std::vector<double> recovery;
    bool operator==(const Saved&) const = default;
  };
  Saved saved(const RunConfig& c) const {
    Network network(c);
    Optimizer optimizer({}, 1.0, 1, network.parameters);
    TrainingState state;
    state.recovery.emplace(std::log(2.0));
    load_checkpoint(RunPaths{c.out}.checkpoint(), network.parameters, optimizer, state);
    return {values_of(network.parameters), optimizer.m(), optimizer.v(), optimizer.steps(),
            state.recovery->state()};
  }

  test::TempDir directory_;
};

#define NRU_NEEDS_ITS_DEVICE() \
  if (std::string(GetParam()) == "cuda") NRU_NEEDS_CUDA_DEVICE()

TEST_P(RecoveredRuns, NothingChangesWhereNothingExplodes) {
  NRU_NEEDS_ITS_DEVICE();
  const auto run = [&](bool recover) {
    const RunConfig c = small_copy(
        "nru", {"out=" + (directory_ / (recover ? "with" : "without")).string(), "updates=210",
                std::string("device=") + GetParam(), recover ? "recover=true" : "recover=false"});
    EXPECT_EQ(finish(c).result.recoveries, 0);
    Network network(c);
    load_weights(RunPaths{c.out}.checkpoint(), network.parameters);
    return values_of(network.parameters);
  };
  EXPECT_EQ(run(true), run(false));
}

// Windows 2 and 3 are good, the fourth is not: back to the weights that the third began with.
TEST_P(RecoveredRuns, GoBackToTheWeightsThatTheLastGoodWindowBeganWith) {
  NRU_NEEDS_ITS_DEVICE();
  const RunConfig before = config("before", 200, 330, 380), after = config("after", 400, 330, 380);
  finish(before);
  EXPECT_EQ(finish(after).result.recoveries, 1);
  const Saved kept = saved(before), got = saved(after);
  EXPECT_EQ(got.values, kept.values);
  EXPECT_EQ(got.m, kept.m);
  EXPECT_EQ(got.v, kept.v);
  EXPECT_EQ(got.steps, 200);
  // And on from there, at half the learning rate.
  const RunConfig further = config("after", 401, 330, 380), full = config("before", 201, 330, 380);
  EXPECT_EQ(finish(further, true).result.status, RunStatus::finished);
  finish(full, true);
  const auto moved = [&](const RunConfig& c) {
    const Saved now = saved(c);
    double sum = 0;
    for (std::size_t i = 0; i < kept.values.size(); ++i)
      sum += std::fabs(now.values[i] - kept.values[i]);
    return sum;
  };
  EXPECT_NEAR(moved(further) / moved(full), 0.5, 0.05);  // its batch is another one, but much alike
}

TEST_P(RecoveredRuns, StartAnewFromSmallerWeightsWhereNoneWereGood) {
  NRU_NEEDS_ITS_DEVICE();
  const RunConfig c = config("run", 100, 0, 40);
  EXPECT_EQ(finish(c).result.recoveries, 1);
  Network network(c);
  std::vector<float> expected = values_of(network.parameters);
  for (float& value : expected) value *= 0.8f;
  EXPECT_EQ(saved(c).values, expected);
  EXPECT_EQ(saved(c).steps, 0);
}

// Stopped in the window that is bad, and in the one after it.
TEST_P(RecoveredRuns, ResumeBitForBit) {
  NRU_NEEDS_ITS_DEVICE();
  finish(config("whole", 330, 130, 180));
  for (const int updates : {150, 250, 330})
    finish(config("parts", updates, 130, 180), updates > 150);
  EXPECT_EQ(saved(config("parts", 330, 130, 180)), saved(config("whole", 330, 130, 180)));
}

TEST_P(RecoveredRuns, EndWhereNothingHelps) {
  NRU_NEEDS_ITS_DEVICE();
  const Trainer::Outcome outcome = finish(config("run", 3000, 0, 3000));
  EXPECT_EQ(outcome.result.status, RunStatus::diverged);
  EXPECT_EQ(outcome.result.updates, 2100);
  EXPECT_THAT(outcome.message, ::testing::HasSubstr("20 times in a row"));
}

INSTANTIATE_TEST_SUITE_P(Training, RecoveredRuns, ::testing::Values("cpu", "cuda"));

}  // namespace
}  // namespace nru::training
