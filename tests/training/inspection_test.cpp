// Looking into a network: memory maps, gradient flow, groups without a reset, and sampling.
#include "training/inspection.h"

#include <gtest/gtest.h>

#include <cmath>

#include "runs.h"
#include "training/batch_tensors.h"
#include "training/sampler.h"

namespace nru::training {
namespace {

using tasks::Batch;
using tasks::Split;

TEST(Inspection, OneRowIsThatRow) {
  const Network network(small_copy("nru"));
  const Batch batch = batch_of(network, 0, Split::test), one = one_row(batch, 3);
  ASSERT_EQ(one.symbols.size(), static_cast<std::size_t>(batch.steps));
  for (int t = 0; t < batch.steps; ++t) {
    EXPECT_EQ(one.symbols[t], batch.symbols[t * batch.rows + 3]);
    EXPECT_EQ(one.targets[t], batch.targets[t * batch.rows + 3]);
  }
}

// Step by step through the layer's own step().
TEST(Inspection, TheMemoryMapIsTheMemoryOfEveryStep) {
  for (const char* cell : {"nru", "lstm", "gru"}) {
    const Network network(small_copy(cell));
    const Batch one = one_row(batch_of(network, 1, Split::test), 0);
    const MemoryMap map = memory_map(network, one);
    EXPECT_EQ(map.part, std::string(cell) == "nru" ? "m" : std::string(cell) == "lstm" ? "c" : "h");
    ASSERT_EQ(map.steps, 25);
    const torch::NoGradGuard no_grad;
    const torch::Tensor x = input_tensor(network.model, one);
    State state = network.model->layer()->initial_state(1);
    float before = 0;
    for (int step = 0; step < map.steps; ++step) {
      state = std::get<1>(network.model->layer()->step(x[step], state));
      const torch::Tensor now = state.parts.back()[0][0];
      ASSERT_EQ(now.size(0), map.units);
      for (int unit : {0, map.units - 1})
        EXPECT_NEAR(map.at(step, unit), now[unit].item<float>(), 1e-5);
      EXPECT_FLOAT_EQ(map.change(step, 0), map.at(step, 0) - before);
      before = map.at(step, 0);
    }
  }
}

TEST(Inspection, SharesOfTheChangeAddUp) {
  MemoryMap map{"m", 3, 2, {1, 0, 1, -2, 1, -2}};  // changes: 1, 2, 0
  EXPECT_DOUBLE_EQ(map.share(0, 1), 1.0 / 3);
  EXPECT_DOUBLE_EQ(map.share(1, 2), 2.0 / 3);
  EXPECT_DOUBLE_EQ(map.share(2, 3), 0);
  EXPECT_DOUBLE_EQ(map.share(0, 3), 1);
  EXPECT_EQ((MemoryMap{"m", 1, 1, {0}}).share(0, 1), 0);
}

// Against differences: h_t moved by a little changes the last loss by gradient times that.
TEST(Inspection, GradientFlowIsTheSlopeOfTheLastLoss) {
  for (const char* cell : {"nru", "gru", "lstm"}) {
    Network network(small_copy(cell));
    const Batch one = one_row(batch_of(network, 0, Split::test), 0);
    const std::vector<double> flow = gradient_flow(network, one);
    ASSERT_EQ(flow.size(), 25u);
    network.model->to(torch::kDouble);
    network.model->layer()->set_backend(Backend::reference);
    const torch::NoGradGuard no_grad;
    const torch::Tensor x = input_tensor(network.model, one).to(torch::kDouble);
    const auto last_loss = [&](int moved_at, std::int64_t unit, double by) {
      State state = network.model->layer()->initial_state(1);
      torch::Tensor output;
      for (int step = 0; step < one.steps; ++step) {
        std::tie(output, state) = network.model->layer()->step(x[step], state);
        if (step == moved_at) state.parts[0][0][0][unit] += by;
      }
      const torch::Tensor log_p = torch::log_softmax(network.model->logits(output)[0], 0);
      return -log_p[one.targets.back()].item<double>();
    };
    const std::int64_t units = network.model->layer()->settings().hidden_size;
    for (const int step : {2, 20}) {
      double squares = 0;
      for (std::int64_t unit = 0; unit < units; ++unit) {
        const double slope = (last_loss(step, unit, 1e-6) - last_loss(step, unit, -1e-6)) / 2e-6;
        squares += slope * slope;
      }
      EXPECT_NEAR(std::sqrt(squares), flow[step], 1e-3 * flow[step] + 1e-9) << cell << step;
    }
  }
}

TEST(Inspection, LongerLagsAreThoseOfRunsWithSuchLags) {
  const auto with_lag = [](int lag) {
    return config_of({{"task", "copy"}, {"cell", "nru"}, {"lag", std::to_string(lag)}},
                     {"task_options.evaluation_batches=3"});
  };
  Network network(with_lag(7));
  std::vector<int> lags;
  for (const auto& [lag, score] : longer_lags(network)) {
    lags.push_back(lag);
    Network other(with_lag(lag));
    EXPECT_EQ(score.loss, evaluate(*other.engine, *other.task, tasks::Split::test).loss) << lag;
    EXPECT_TRUE(score.accuracy && score.exact && score.relative_loss);
  }
  EXPECT_EQ(lags, (std::vector{7, 14, 35, 70, 140}));
}

TEST(Inspection, GroupsBeginWithAnEmptyMemory) {
  Network network(
      small_copy("nru", {"task_options.reset_every=3", "task_options.evaluation_batches=7"}));
  const auto groups = group_positions(network);
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0].batches, 3);
  EXPECT_EQ(groups[1].batches, 2);
  EXPECT_EQ(groups[2].batches, 2);
  EXPECT_EQ(groups[0].score.counted, 300);
  EXPECT_EQ(groups[0].memory_at_start, 0);
  EXPECT_GT(groups[0].memory_after, 0);
  EXPECT_GT(groups[1].memory_at_start, 0);
}

// ---- Sampling -----------------------------------------------------------------------------------

std::vector<std::int32_t> sampled(const Model& model, std::uint64_t seed, double temperature) {
  Sampler sampler(model, seed);
  sampler.read(0);
  std::vector<std::int32_t> symbols;
  for (int i = 0; i < 60; ++i) {
    symbols.push_back(sampler.draw(temperature));
    sampler.read(symbols.back());
  }
  return symbols;
}

TEST(Sampler, StreamsWhatTheWholeSequenceGives) {
  const test::TempDir directory;
  const Network network(small_text("nru", directory));
  const Batch one = one_row(batch_of(network, 0, Split::test), 0);
  const torch::NoGradGuard no_grad;
  const torch::Tensor hidden =
      std::get<0>(network.model->layer()->forward(input_tensor(network.model, one)));
  Sampler sampler(network.model, 1);
  for (int step = 0; step < one.steps; ++step) {
    sampler.read(one.symbols[step]);
    const torch::Tensor expected = network.model->logits(hidden[step])[0];
    EXPECT_LT((sampler.logits() - expected).abs().max().item<double>(), 1e-5);
  }
}

TEST(Sampler, TheSeedDecides) {
  const test::TempDir directory;
  const Network network(small_text("gru", directory));
  EXPECT_EQ(sampled(network.model, 1, 1), sampled(network.model, 1, 1));
  EXPECT_NE(sampled(network.model, 1, 1), sampled(network.model, 2, 1));
  EXPECT_EQ(sampled(network.model, 1, 0), sampled(network.model, 2, 0));  // the most likely one
  EXPECT_THROW(Sampler(network.model, 1).draw(1), std::logic_error);
}

// 8,000 draws from logits that are known: each symbol's count within five standard deviations.
TEST(Sampler, DrawsFromTheSoftmax) {
  const test::TempDir directory;
  const Network network(small_text("gru", directory));
  const torch::NoGradGuard no_grad;
  Sampler sampler(network.model, 4);
  sampler.read(0);
  for (const double temperature : {1.0, 0.5}) {
    const torch::Tensor p = torch::softmax(sampler.logits().to(torch::kDouble) / temperature, 0);
    std::vector<int> counts(p.numel(), 0);
    for (int i = 0; i < 8000; ++i) ++counts[sampler.draw(temperature)];
    for (std::int64_t s = 0; s < p.numel(); ++s) {
      const double expected = p[s].item<double>();
      EXPECT_NEAR(counts[s], 8000 * expected, 5 * std::sqrt(8000 * expected) + 1) << s;
    }
  }
}

}  // namespace
}  // namespace nru::training
