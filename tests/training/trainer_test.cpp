// The half of training that needs torch: optimizer and engines against torch's own, checkpoints,
// and what a run does when numbers stop being numbers.
#include "training/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nru/torch_all.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "runs.h"

namespace nru::training {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// ---- Optimizer ----------------------------------------------------------------------------------

struct AdamCase {
  const char* name;
  bool amsgrad;
  double clip_norm;  // 0: none
};

class AdamEquality : public ::testing::TestWithParam<AdamCase> {};

TEST_P(AdamEquality, FiftyUpdatesAsTorchMakesThem) {
  torch::manual_seed(3);
  torch::nn::Linear ours(29, 17);  // 510 parameters: whole vectors and a rest
  const auto theirs = std::dynamic_pointer_cast<torch::nn::LinearImpl>(ours->clone());
  FlatParameters flat(*ours);
  Optimizer optimizer({0.01, 0.9, 0.999, 1e-8, GetParam().amsgrad}, GetParam().clip_norm, 2, flat);
  torch::optim::Adam adam(theirs->parameters(),
                          torch::optim::AdamOptions(0.01).amsgrad(GetParam().amsgrad));
  bool clipped = false, unclipped = false;
  for (int update = 0; update < 50; ++update) {
    // Norms from far below to far above the limit; growing and shrinking, so that AMSGrad differs.
    const double scale = std::pow(10.0, 1.5 * std::sin(update / 4.0) - 1);
    std::int64_t offset = 0;
    for (torch::Tensor& parameter : theirs->parameters()) {
      parameter.mutable_grad() = scale * torch::randn_like(parameter);
      std::copy_n(parameter.grad().data_ptr<float>(), parameter.numel(), flat.gradients() + offset);
      offset += parameter.numel();
    }
    const double norm = optimizer.gradient_norm();
    optimizer.step(norm);
    if (GetParam().clip_norm > 0) {
      torch::nn::utils::clip_grad_norm_(theirs->parameters(), GetParam().clip_norm);
      (norm > GetParam().clip_norm ? clipped : unclipped) = true;
    }
    adam.step();
  }
  if (GetParam().clip_norm > 0) {
    EXPECT_TRUE(clipped && unclipped);
  }
  const torch::Tensor expected = torch::cat({theirs->weight.reshape({-1}), theirs->bias}).detach();
  const torch::Tensor actual = torch::from_blob(flat.values(), {flat.size()});
  // 50 steps of at most 0.01, each off by a few roundings of its own (2^-24 of 0.01) and one of the
  // parameter (2^-24 of at most 1): 50 * 2^-24 = 3e-6 if all fell on the same side. They do not.
  EXPECT_LT((actual - expected).abs().max().item<double>(), 1e-6);
  EXPECT_EQ(optimizer.steps(), 50);
}

INSTANTIATE_TEST_SUITE_P(Optimizer, AdamEquality,
                         ::testing::Values(AdamCase{"adam", false, 0}, AdamCase{"amsgrad", true, 0},
                                           AdamCase{"adam_clipped", false, 1.0},
                                           AdamCase{"amsgrad_clipped", true, 0.5}),
                         [](const auto& info) { return info.param.name; });

// ---- Engines ------------------------------------------------------------------------------------

class Engines : public ::testing::TestWithParam<const char*> {};

TEST_P(Engines, FusedIsTheReference) {
  RunConfig config = small_copy(GetParam());
  Network fused(config);
  config.backend = "reference";
  Network reference(config);
  ASSERT_EQ(values_of(fused.parameters), values_of(reference.parameters));
  tasks::Batch batch;
  for (std::uint64_t update : {0, 1}) {  // twice: gradients are set, not added up
    fused.task->make_batch(tasks::Split::train, update, batch);
    const StepOutcome a = fused.engine->compute_gradients(batch);
    const StepOutcome b = reference.engine->compute_gradients(batch);
    EXPECT_NEAR(a.loss, b.loss, 1e-5 * b.loss);
    EXPECT_NEAR(*a.max_hidden, *b.max_hidden, 1e-5 * *b.max_hidden);
    // Two float32 codes over 25 steps: what differs is the order of sums, about the square root of
    // their lengths in units of 6e-8, and backpropagation through time multiplies it.
    for (const auto& entry : fused.parameters.entries()) {
      const auto gradient = [&](Network& setup) {
        return torch::from_blob(setup.parameters.gradients() + entry.offset, {entry.size});
      };
      const torch::Tensor expected = gradient(reference);
      const double largest = expected.abs().max().item<double>();
      ASSERT_GT(largest, 0) << entry.name;
      EXPECT_LT((gradient(fused) - expected).abs().max().item<double>(), 2e-5 * largest)
          << entry.name;
    }
  }
}

TEST_P(Engines, PredictAndEvaluateAlike) {
  RunConfig config = small_copy(GetParam(), {"task_options.evaluation_batches=3"});
  Network fused(config);
  config.backend = "reference";
  Network reference(config);
  const Evaluation a = evaluate(*fused.engine, *fused.task, tasks::Split::test);
  const Evaluation b = evaluate(*reference.engine, *reference.task, tasks::Split::test);
  EXPECT_NEAR(a.loss, b.loss, 1e-5 * b.loss);
  EXPECT_NEAR(*a.accuracy, *b.accuracy, 0.011);  // 300 symbols: at most three near-ties
  EXPECT_NEAR(*a.relative_loss, a.loss / fused.task->baseline(), 1e-9);
}

TEST_P(Engines, FirstLossIsThatOfAGuess) {
  Network setup(small_copy(GetParam()));
  tasks::Batch batch;
  setup.task->make_batch(tasks::Split::train, 0, batch);
  // Nine classes. Logits of an untrained network are of the order of one at most, which costs up to
  // half a nat on average, and twice that on a single draw of the weights.
  const double loss = setup.engine->compute_gradients(batch).loss;
  EXPECT_GT(loss, std::log(9.0) - 0.2);
  EXPECT_LT(loss, std::log(9.0) + 1);
}

INSTANTIATE_TEST_SUITE_P(Cells, Engines,
                         ::testing::Values("nru", "lstm", "lstm-chrono", "rnn-orth", "rnn-id",
                                           "gru", "janet", "sru"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// ---- Flat parameters, log window, checkpoint ----------------------------------------------------

TEST(FlatParameters, NameTheFirstThatIsNotFinite) {
  Network setup(small_copy("lstm"));
  EXPECT_EQ(setup.parameters.first_non_finite(), "");
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    const auto& entry = setup.parameters.entry("output.weight");
    float& value = setup.parameters.values()[entry.offset + entry.size - 1];
    const float before = value;
    value = bad;
    EXPECT_EQ(setup.parameters.first_non_finite(), "output.weight");
    value = before;
  }
}

LogWindow filled_window() {
  LogWindow window;
  window.add(0.1, 0.3, 1.7, 2.5, std::nullopt, 3);
  window.add(0.7, std::nullopt, 0.2, 1.25, 0.5, 0);
  window.add_skipped(2);
  return window;
}

TEST(LogWindow, GoesOnFromItsState) {
  LogWindow window = filled_window(), restored;
  restored.restore(window.state());
  for (LogWindow* each : {&window, &restored}) each->add(0.3, 0.1, 0.9, 3.5, 0.25, 1);
  EXPECT_EQ(restored.row(9, 2, 1.5), window.row(9, 2, 1.5));
  const MetricsRow row = window.row(9, 2, 1.5);
  EXPECT_DOUBLE_EQ(*row.loss, (0.1 + 0.7 + 0.3) / 3);
  EXPECT_DOUBLE_EQ(*row.relative_loss, (0.3 + 0.1) / 2);
  EXPECT_EQ(row.skipped, 1);
  EXPECT_EQ(row.overflows, 6);
  EXPECT_EQ(window.updates(), 4);
  EXPECT_THROW(restored.restore(std::vector<double>(3)), Error);
}

TrainingState some_state() {
  TrainingState state;
  state.update = 123;
  state.skipped_in_a_row = 4;
  state.trained_on = "cuda (NVIDIA H200)";
  state.seconds = 0.1;  // no exact double: the text in the file must bring it back
  state.window = filled_window();
  for (int i = 0; i < 250; ++i) state.tracker.add(1.0 / (i + 1));
  state.best = {100, Metrics{0.1 + 0.2, std::nullopt, 1.0 / 3}, std::nullopt};
  return state;
}

Optimizer some_optimizer(FlatParameters& parameters, bool amsgrad) {
  Optimizer optimizer({1e-3, 0.9, 0.999, 1e-8, amsgrad}, 1.0, 1, parameters);
  for (int i = 0; i < 3; ++i) {
    for (std::int64_t j = 0; j < parameters.size(); ++j)
      parameters.gradients()[j] = static_cast<float>(std::sin(i + 0.1 * static_cast<double>(j)));
    optimizer.step(optimizer.gradient_norm());
  }
  return optimizer;
}

TEST(Checkpoint, BringsEverythingBack) {
  const test::TempDir directory;
  const auto path = directory / "checkpoint.safetensors";
  for (const bool amsgrad : {false, true}) {
    Network setup(small_copy("nru")), other(small_copy("nru", {"seed=9"}));
    Optimizer optimizer = some_optimizer(setup.parameters, amsgrad);
    const TrainingState state = some_state();
    save_checkpoint(path, setup.parameters, optimizer, state);

    Optimizer fresh({1e-3, 0.9, 0.999, 1e-8, amsgrad}, 1.0, 1, other.parameters);
    TrainingState loaded;
    load_checkpoint(path, other.parameters, fresh, loaded);
    EXPECT_EQ(values_of(other.parameters), values_of(setup.parameters));
    EXPECT_EQ(fresh.m(), optimizer.m());
    EXPECT_EQ(fresh.v(), optimizer.v());
    EXPECT_EQ(fresh.v_max(), optimizer.v_max());
    EXPECT_EQ(fresh.steps(), 3);
    EXPECT_EQ(loaded.update, state.update);
    EXPECT_EQ(loaded.skipped_in_a_row, state.skipped_in_a_row);
    EXPECT_EQ(loaded.seconds, state.seconds);
    EXPECT_EQ(loaded.trained_on, state.trained_on);
    EXPECT_EQ(loaded.window.state(), state.window.state());
    EXPECT_EQ(loaded.tracker, state.tracker);
    EXPECT_EQ(loaded.best, state.best);

    Network third(small_copy("nru", {"seed=8"}));
    load_weights(path, third.parameters);  // a checkpoint is a weights file too
    EXPECT_EQ(values_of(third.parameters), values_of(setup.parameters));
  }
}

TEST(Checkpoint, OfAnotherNetworkOrOptimizerIsRefused) {
  const test::TempDir directory;
  const auto path = directory / "checkpoint.safetensors", weights = directory / "weights";
  Network setup(small_copy("nru"));
  Optimizer optimizer = some_optimizer(setup.parameters, false);
  save_checkpoint(path, setup.parameters, optimizer, some_state());
  save_weights(weights, setup.parameters, {});

  const auto refused = [&](const RunConfig& config, bool amsgrad, const auto& file) {
    Network other(config);
    Optimizer fresh({1e-3, 0.9, 0.999, 1e-8, amsgrad}, 1.0, 1, other.parameters);
    const std::vector<float> before = values_of(other.parameters);
    TrainingState state;
    const std::string message =
        test::error_of([&] { load_checkpoint(file, other.parameters, fresh, state); });
    EXPECT_EQ(values_of(other.parameters), before);
    EXPECT_EQ(state.update, 0);
    EXPECT_EQ(fresh.steps(), 0);
    return message;
  };
  EXPECT_THAT(refused(small_copy("nru", {"cell.hidden_size=81"}), false, path),
              AllOf(HasSubstr(path.string()), HasSubstr("layer.")));
  EXPECT_THAT(refused(small_copy("lstm"), false, path), HasSubstr("layer."));
  EXPECT_THAT(refused(small_copy("nru"), true, path), HasSubstr("adam.v_max"));
  EXPECT_THAT(refused(small_copy("nru"), false, weights), HasSubstr("adam.m"));
}

// ---- The run
// --------------------------------------------------------------------------------------

class Runs : public ::testing::Test {
 protected:
  RunConfig brittle(const std::string& name, int bad) const {
    return config_of({{"task", "brittle"}, {"cell", "lstm"}, {"out", directory_ / name}},
                     {"cell.hidden_size=5", "log_every=10", "checkpoint_every=25",
                      "task_options.bad_count=" + std::to_string(bad)});
  }
  std::vector<MetricsRow> rows(const RunConfig& config) const {
    return read_metrics(RunPaths{config.out}.metrics());
  }

  test::TempDir directory_;
};

TEST_F(Runs, OneBadUpdateIsSkippedAndCounted) {
  const RunConfig config = brittle("one", 1);
  const Trainer::Outcome outcome = finish(config);
  EXPECT_EQ(outcome.result.status, RunStatus::finished);
  EXPECT_EQ(outcome.result.updates, 80);
  std::int64_t skipped = 0;
  for (const MetricsRow& row : rows(config)) {
    if (row.split != "train") continue;
    EXPECT_TRUE(row.loss && std::isfinite(*row.loss)) << row.update;
    EXPECT_EQ(row.skipped, row.update == 40 ? 1 : 0);  // batch 30 is update 31
    skipped += *row.skipped;
  }
  EXPECT_EQ(skipped, 1);
  // The weights never saw it: Adam made one step less.
  Network setup(config);
  Optimizer optimizer({}, 1.0, 1, setup.parameters);
  TrainingState state;
  load_checkpoint(RunPaths{config.out}.checkpoint(), setup.parameters, optimizer, state);
  EXPECT_EQ(optimizer.steps(), 79);
  EXPECT_EQ(state.update, 80);
}

TEST_F(Runs, ThatDivergeSayHowTheirBestWeightsDo) {
  RunConfig config = brittle("best", 20);
  config.evaluate_every = 10;
  const Result result = finish(config).result;
  EXPECT_EQ(result.status, RunStatus::diverged);
  ASSERT_TRUE(result.best.update && result.best.test && result.best.test->loss);
  EXPECT_TRUE(std::isfinite(*result.best.test->loss));
  EXPECT_FALSE(result.final.test);
  // The same weights as a run that ended there.
  config.out += "-short";
  config.updates = *result.best.update;
  EXPECT_EQ(finish(config).result.best.test->loss, result.best.test->loss);
}

TEST_F(Runs, NineteenInARowAreSurvivedTwentyAreNot) {
  EXPECT_EQ(finish(brittle("nineteen", 19)).result.status, RunStatus::finished);

  const RunConfig config = brittle("twenty", 20);
  const Trainer::Outcome outcome = finish(config);
  EXPECT_EQ(outcome.result.status, RunStatus::diverged);
  EXPECT_EQ(outcome.result.updates, 50);
  EXPECT_THAT(outcome.message, AllOf(HasSubstr("20 updates in a row"), HasSubstr("update 50")));
  EXPECT_EQ(read_result(RunPaths{config.out}.result()).status, RunStatus::diverged);
  EXPECT_EQ(rows(config).back().update, 50);  // what went wrong is on record
  EXPECT_EQ(rows(config).back().skipped, 10);
  Network setup(config);
  load_weights(RunPaths{config.out}.checkpoint(), setup.parameters);
  EXPECT_EQ(setup.parameters.first_non_finite(), "");
}

// After one update Adam's second moments are (1 - beta2) g^2.
TEST_F(Runs, SecondMomentsDecayAsTheConfigurationSays) {
  std::vector<float> moments[2];
  for (const bool fast : {false, true}) {
    const RunConfig config =
        small_copy("lstm", {std::string("adam_beta2=") + (fast ? "0.9" : "0.999"), "updates=1",
                            "out=" + (directory_ / (fast ? "fast" : "slow")).string()});
    finish(config);
    Network network(config);
    Optimizer optimizer({}, 1.0, 1, network.parameters);
    TrainingState state;
    load_checkpoint(RunPaths{config.out}.checkpoint(), network.parameters, optimizer, state);
    moments[fast] = optimizer.v();
  }
  const auto largest = std::max_element(moments[0].begin(), moments[0].end()) - moments[0].begin();
  EXPECT_NEAR(moments[1][largest] / moments[0][largest], 0.1 / 0.001, 1e-2);
}

TEST_F(Runs, TheStepSizeFallsOverTheShareOfTheRunThatIsAnnealed) {
  std::vector<float> weights[2];
  for (const bool anneal : {false, true}) {
    const RunConfig config =
        small_copy("lstm", {"updates=8", anneal ? "anneal=0.25" : "anneal=0",
                            "out=" + (directory_ / (anneal ? "annealed" : "plain")).string()});
    finish(config);
    Network network(config);
    EXPECT_EQ(network.adam().steps, 8);
    EXPECT_EQ(network.adam().annealed, anneal ? 2 : 0);
    load_weights(RunPaths{config.out}.checkpoint(), network.parameters);
    weights[anneal] = values_of(network.parameters);
  }
  const RunConfig parts = small_copy("lstm", {"updates=8", "anneal=0.25", "checkpoint_every=1",
                                              "out=" + (directory_ / "parts").string()});
  EXPECT_LT(interrupt(parts, 7).result.updates, 8);
  finish(parts, true);
  Network resumed(parts);
  load_weights(RunPaths{parts.out}.checkpoint(), resumed.parameters);
  EXPECT_EQ(values_of(resumed.parameters), weights[1]);
  double most = 0;  // in the last update the step is half as long: 1e-3 at most, so 5e-4 less
  for (std::size_t i = 0; i < weights[0].size(); ++i)
    most = std::max(most, std::fabs(double(weights[0][i]) - weights[1][i]));
  EXPECT_GT(most, 2e-4);
  EXPECT_LT(most, 1e-3);
}

TEST_F(Runs, AShorterLagToBeginWithSolvesNothing) {
  const RunConfig config =
      config_of({{"task", "copy"}, {"cell", "eurnn"}, {"lag", "4"}, {"out", directory_ / "run"}},
                {"cell.hidden_size=32", "learning_rate=0.01", "updates=900",
                 "task_options.first_lag=2", "task_options.first_updates=300"});
  const Trainer::Outcome outcome = finish(config);
  // In all updates, with no shorter lag among those that the mean is of; at 200 without such.
  ASSERT_TRUE(outcome.result.solved_at);
  EXPECT_GE(*outcome.result.solved_at, 300 + SolvedTracker::window);
  EXPECT_EQ(outcome.result.spikes, 0);
  double early = INFINITY;
  for (const MetricsRow& row : rows(config)) {
    if (row.split != "train") continue;
    EXPECT_EQ(row.relative_loss.has_value(), row.update > 300) << row.update;
    if (row.update <= 300) early = std::min(early, *row.loss);
  }
  EXPECT_LT(early, 0.05 * *outcome.result.baseline_loss) << "the shorter lag itself is learned";
}

TEST_F(Runs, ATimeLimitLeavesNoTraceInWhatFollows) {
  RunConfig config = brittle("limited", 0);
  const RunConfig whole = brittle("whole", 0);
  config.time_limit = 1e-9;
  const Trainer::Outcome stopped = finish(config);
  EXPECT_EQ(stopped.result.status, RunStatus::interrupted);
  EXPECT_EQ(stopped.result.updates, 0);
  EXPECT_FALSE(stopped.result.best.update);
  EXPECT_FALSE(std::filesystem::exists(RunPaths{config.out}.best()));

  config.time_limit = 0;
  Result resumed = finish(config, true).result, straight = finish(whole).result;
  resumed.seconds = straight.seconds = 0;
  EXPECT_EQ(resumed, straight);
}

TEST_F(Runs, FinalTrainingLossIsTheLastLinesWhenTheWindowIsEmpty) {
  const RunConfig config = brittle("run", 0);  // 80 updates, a line every 10
  const Result result = finish(config).result;
  std::optional<double> last;
  for (const MetricsRow& row : rows(config)) last = row.split == "train" ? row.loss : last;
  ASSERT_TRUE(result.final.train);
  EXPECT_EQ(result.final.train->loss, last);
}

}  // namespace
}  // namespace nru::training
