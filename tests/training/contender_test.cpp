// What `nru bench` counts: arithmetic, bytes, and rivals of equal size.
#include "training/contender.h"

#include <gtest/gtest.h>
#include <nru/torch_all.h>

namespace nru::training {
namespace {

const Workload& workload(const std::string& task) {
  for (const Workload& w : workloads()) {
    if (w.task == task) return w;
  }
  throw std::out_of_range(task);
}

MultipliedWeights weights_of(const Workload& w, const std::string& name) {
  const CellInfo& cell = find_cell(name);
  return multiplied_weights(w, cell, Model(model_settings(w, cell)));
}

TEST(Contender, BatchesHaveTheShapeOfTheWorkload) {
  for (const Workload& w : workloads()) {
    const tasks::Batch batch = random_batch(w);
    const std::size_t positions = static_cast<std::size_t>(w.steps) * w.batch;
    EXPECT_EQ(batch.targets.size(), positions);
    EXPECT_EQ(batch.symbols.size(), w.symbols ? positions : 0);
    EXPECT_EQ(batch.dense.size(), w.symbols ? 0 : positions * w.input);
    for (const std::int32_t target : batch.targets) ASSERT_LT(target, w.classes);
  }
}

TEST(Contender, ArithmeticOfAnUpdate) {
  // psMNIST: 785 steps of 100 rows, one of which has a loss.
  const Workload& w = workload("psmnist");
  EXPECT_DOUBLE_EQ(update_flop(w, {1000, 5, 10}), 6.0 * 100 * (1000.0 * 785 + 10));
  // Characters: 150 steps of 128 rows, but 50 rows of the embedding that x can be.
  EXPECT_DOUBLE_EQ(update_flop(workload("char-lm"), {1000, 300, 10}),
                   6.0 * (128 * 150 * (700.0 + 10) + 300 * 50));
  // An LSTM: its matrices and its peepholes multiply, its biases do not.
  const MultipliedWeights lstm = weights_of(w, "lstm");
  EXPECT_DOUBLE_EQ(lstm.layer, 4 * 200 * (1 + 200) + 3 * 200);
  EXPECT_DOUBLE_EQ(lstm.of_input, 4 * 200);
  EXPECT_DOUBLE_EQ(lstm.output, 200 * 10);
  // torch's own has no peepholes.
  const MultipliedWeights torch_lstm = torch_weights(w, 4, 200);
  EXPECT_DOUBLE_EQ(torch_lstm.layer, 4 * 200 * (1 + 200));
  EXPECT_DOUBLE_EQ(torch_lstm.of_input, lstm.of_input);
  EXPECT_DOUBLE_EQ(torch_lstm.output, lstm.output);
  // The angles of the EURNN, a thousand of them per layer of the butterfly: three times a weight.
  const Workload& copy = workload("copy");
  EXPECT_GT(weights_of(copy, "eurnn").layer,
            static_cast<double>(count_parameters(model_settings(copy, find_cell("eurnn")))));
}

TEST(Contender, BytesOfAnUpdate) {
  const Workload& w = workload("psmnist");
  EXPECT_DOUBLE_EQ(update_bytes(w, 1000, 0), 4 * (8 * 1000.0 + 78500));
  EXPECT_DOUBLE_EQ(update_bytes(w, 0, 7) - update_bytes(w, 0, 0), 4 * 2 * 7 * 78500.0);
}

TEST(Contender, RivalsAreOfEqualSize) {
  for (const Workload& w : workloads()) {
    for (const int gates : {1, 3, 4}) {
      for (const std::int64_t parameters : {30000, 165554, 2000000}) {
        const std::int64_t hidden = equal_hidden_size(w, gates, parameters);
        const auto distance = [&](std::int64_t h) {
          return std::abs(torch_parameters(w, gates, h) - parameters);
        };
        EXPECT_LE(distance(hidden), distance(hidden + 1));
        EXPECT_LE(distance(hidden), distance(hidden - 1));
      }
    }
  }
  const Workload& w = workload("psmnist");
  torch::nn::LSTM layer(torch::nn::LSTMOptions(w.layer_input(), 50));
  torch::nn::Linear output(50, w.classes);
  std::int64_t counted = 0;
  for (const auto& p : layer->parameters()) counted += p.numel();
  for (const auto& p : output->parameters()) counted += p.numel();
  EXPECT_EQ(torch_parameters(w, 4, 50), counted);
}

TEST(Contender, TurnsGoOnUntilAllHadTheirs) {
  int first = 0, second = 0;
  std::vector<Contender> both(2);
  both[0].update = [&] { ++first; };
  both[1].update = [&] { ++second; };
  take_turns(both, 0);
  for (Contender& c : both) {
    EXPECT_GE(c.seconds.size(), 3u);
    c.flop = 2e6;
    finish_row(c, 1e9);
    EXPECT_DOUBLE_EQ(c.row.floor_ms, 2);
    EXPECT_LE(c.row.best_ms, c.row.median_ms);
    EXPECT_EQ(c.row.updates, static_cast<int>(c.seconds.size()));
  }
  EXPECT_EQ(first, both[0].row.updates + 1) << "one to warm up";
  EXPECT_EQ(second, both[1].row.updates + 1);
}

}  // namespace
}  // namespace nru::training
