// Engines beyond a single batch: embeddings, states that go on from batch to batch, masked rows,
// and runs that are resumed in the middle of it.
#include "training/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/philox.h"
#include "runs.h"
#include "training/checkpoint.h"

namespace nru::training {
namespace {

using tasks::Batch;
using tasks::Carry;
using tasks::Split;

// Steps [begin, end) of a batch.
Batch cut(const Batch& batch, int begin, int end) {
  const auto part = [&](const std::vector<std::int32_t>& ids) {
    return std::vector<std::int32_t>(ids.begin() + begin * batch.rows,
                                     ids.begin() + end * batch.rows);
  };
  Batch result;
  result.steps = end - begin;
  result.rows = batch.rows;
  result.symbols = part(batch.symbols);
  result.targets = part(batch.targets);
  result.carry = begin > 0 ? Carry::state : Carry::nothing;
  return result;
}

torch::Tensor gradient_of(Network& network, const FlatParameters::Entry& entry) {
  return torch::from_blob(network.parameters.gradients() + entry.offset, {entry.size});
}

// As in trainer_test.cpp, and for a state that may have drifted apart by as much.
void expect_same_gradients(Network& fused, Network& reference, const std::string& where) {
  for (const auto& entry : fused.parameters.entries()) {
    const torch::Tensor expected = gradient_of(reference, entry);
    EXPECT_LT((gradient_of(fused, entry) - expected).abs().max().item<double>(),
              5e-5 * expected.abs().max().item<double>() + 1e-9)
        << entry.name << where;
  }
}

class EveryCell : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Engine, EveryCell,
                         ::testing::Values("rnn-orth", "lstm", "gru", "janet", "sru", "eurnn",
                                           "goru", "nru"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(EveryCell, EmbeddedAndCarriedAsInTheReference) {
  const test::TempDir directory;
  // A seed at which no ReLU lies so close to its corner that the two codes fall on different sides.
  RunConfig config = small_text(GetParam(), directory, {"seed=5"});
  Network fused(config);
  config.backend = "reference";
  Network reference(config);
  ASSERT_EQ(fused.parameters.entries().front().name, "embedding.weight");
  for (std::uint64_t update : {0, 1, 2}) {
    const Batch batch = batch_of(fused, update, Split::train);
    ASSERT_EQ(batch.carry, update == 0 ? Carry::nothing : Carry::state);
    const StepOutcome a = fused.engine->compute_gradients(batch);
    const StepOutcome b = reference.engine->compute_gradients(batch);
    EXPECT_NEAR(a.loss, b.loss, 1e-5 * b.loss);
    expect_same_gradients(fused, reference, " at update " + std::to_string(update));
  }
}

// The kernels and the equations in torch operations mean the same by clip_state.
TEST_P(EveryCell, ClippedStatesAsInTheReference) {
  RunConfig config = small_copy(GetParam(), {"clip_state=0.005", "batch_size=3"});
  Network fused(config);
  config.clip_state = 0;
  Network unclipped(config);
  config.clip_state = 0.005;
  config.backend = "reference";
  Network reference(config);
  const Batch batch = batch_of(fused, 0, Split::train);
  for (Network* network : {&fused, &unclipped, &reference})
    network->engine->compute_gradients(batch);
  expect_same_gradients(fused, reference, "");
  double change = 0;
  for (const auto& entry : fused.parameters.entries()) {
    const torch::Tensor difference = gradient_of(unclipped, entry) - gradient_of(fused, entry);
    change = std::max(change, difference.abs().max().item<double>());
  }
  EXPECT_GT(change, 1e-4) << "nothing was clipped";
}

// One sequence and three times the same one have the same mean loss, and the same gradients.
TEST(Engine, StatesAreClippedAlikeInBatchesOfAnySize) {
  Network network(small_copy("nru", {"clip_state=0.005", "batch_size=1"}));
  const Batch one = batch_of(network, 0, Split::train);
  const auto thrice = [](const std::vector<std::int32_t>& ids) {  // [T,1] -> [T,3]
    std::vector<std::int32_t> result;
    for (const std::int32_t id : ids) result.insert(result.end(), 3, id);
    return result;
  };
  Batch three = one;
  three.rows = 3;
  three.symbols = thrice(one.symbols);
  three.targets = thrice(one.targets);
  const auto gradients = [&](const Batch& batch) {
    network.engine->compute_gradients(batch);
    return torch::from_blob(network.parameters.gradients(), {network.parameters.size()}).clone();
  };
  const torch::Tensor expected = gradients(one);
  EXPECT_LT((gradients(three) - expected).abs().max().item<double>(),
            1e-5 * expected.abs().max().item<double>());
}

// A window of 30 steps is two of 15 where the state goes on, and is not where it does not.
TEST_P(EveryCell, TwoWindowsAreOne) {
  Network network(config_of({{"task", "copy"}, {"cell", GetParam()}, {"lag", "10"}}));
  const Batch whole = batch_of(network, 0, Split::train);
  std::vector<std::int32_t> all, first, second;
  const double loss = network.engine->evaluate(whole, &all).loss;
  const double a = network.engine->evaluate(cut(whole, 0, 15), &first).loss;
  Batch tail = cut(whole, 15, 30);
  const double b = network.engine->evaluate(tail, &second).loss;
  EXPECT_NEAR((a + b) / 2, loss, 1e-6 * loss);
  first.insert(first.end(), second.begin(), second.end());
  EXPECT_EQ(first, all);
  tail.carry = Carry::nothing;
  EXPECT_NE(network.engine->evaluate(tail, nullptr).loss, b);
}

TEST(Engine, EvaluationLeavesTheTrainingStateAlone) {
  Network disturbed(small_copy("nru", {"task_options.reset_every=3"}));
  Network quiet(small_copy("nru", {"task_options.reset_every=3"}));
  for (std::uint64_t update : {0, 1, 2}) {
    const Batch batch = batch_of(quiet, update, Split::train);
    const double loss = quiet.engine->compute_gradients(batch).loss;
    EXPECT_EQ(disturbed.engine->compute_gradients(batch).loss, loss);
    disturbed.engine->evaluate(batch_of(quiet, update, Split::test), nullptr);
  }
  EXPECT_EQ(disturbed.engine->carried(), quiet.engine->carried());
}

TEST(Engine, CarryingTheMemoryAloneStartsFromAZeroHiddenState) {
  Network network(small_copy("nru"));
  const Batch batch = batch_of(network, 0, Split::train);
  network.engine->compute_gradients(batch);
  const CarriedState state = network.engine->carried();
  ASSERT_EQ(state.size(), 2u);  // h, m
  Batch next = batch_of(network, 1, Split::train);
  next.carry = Carry::memory;
  const double memory_alone = network.engine->compute_gradients(next).loss;

  next.carry = Carry::state;
  network.engine->set_carried({std::vector<float>(state[0].size(), 0.0f), state[1]});
  EXPECT_EQ(network.engine->compute_gradients(next).loss, memory_alone);
  network.engine->set_carried(state);
  EXPECT_NE(network.engine->compute_gradients(next).loss, memory_alone);
}

TEST(Engine, AStateThatIsNotFiniteIsNotCarriedOn) {
  Network network(small_copy("nru"));
  Batch batch = batch_of(network, 0, Split::train);
  const double fresh = network.engine->compute_gradients(batch).loss;
  network.engine->set_carried({std::vector<float>(800, std::numeric_limits<float>::quiet_NaN()),
                               std::vector<float>(640, 0.0f)});
  batch.carry = Carry::state;
  EXPECT_TRUE(std::isnan(network.engine->compute_gradients(batch).loss));
  EXPECT_EQ(network.engine->compute_gradients(batch).loss, fresh);
}

// Lanes whose state is beyond the limit, or not finite, begin anew; the others go on.
TEST(Engine, RowsThatExplodedAreNotCarriedOn) {
  Network network(small_copy("nru"));
  const Batch batch = batch_of(network, 0, Split::train);
  network.engine->compute_gradients(batch);
  const CarriedState whole = network.engine->carried();  // h [10,80], m [10,64]
  float largest = 0;
  std::vector<float> of_row(10);
  for (int i = 0; i < 640; ++i) {
    of_row[i / 64] = std::max(of_row[i / 64], std::fabs(whole[1][i]));
    of_row[i / 64] = std::max(of_row[i / 64], std::fabs(whole[0][i / 64 * 80 + i % 64]));
    of_row[i / 64] = std::max(of_row[i / 64], std::fabs(whole[0][i / 64 * 80 + 16 + i % 64]));
  }
  largest = *std::max_element(of_row.begin(), of_row.end());
  network.engine->set_state_limit(0.999f * largest);
  network.engine->compute_gradients(batch);
  const CarriedState mended = network.engine->carried();
  for (int row = 0; row < 10; ++row) {
    for (const int part : {0, 1}) {
      const int width = part == 0 ? 80 : 64;
      const std::vector<float> before(&whole[part][row * width], &whole[part][row * width] + width);
      const std::vector<float> after(&mended[part][row * width],
                                     &mended[part][row * width] + width);
      EXPECT_EQ(after, of_row[row] < largest ? before : std::vector<float>(width)) << row;
    }
  }
}

// Rows of unequal length, padded and masked, have the loss and the gradient of their sequences.
TEST(Engine, MaskedRowsAreTheSequencesTheyHold) {
  const RunConfig config = config_of({{"task", "copy-variable"}, {"cell", "nru"}, {"lag", "12"}},
                                     {"task_options.per_row=true", "batch_size=5"});
  Network network(config);
  const Batch batch = batch_of(network, 3, Split::train);
  const double loss = network.engine->compute_gradients(batch).loss;
  const std::vector<float> gradient(network.parameters.gradients(),
                                    network.parameters.gradients() + network.parameters.size());
  double sum = 0;
  std::vector<double> gradients(gradient.size(), 0);
  for (int row = 0; row < batch.rows; ++row) {
    Batch one;
    one.rows = 1;
    while (one.steps < batch.steps && batch.weights[one.steps * batch.rows + row] > 0) {
      one.symbols.push_back(batch.symbols[one.steps * batch.rows + row]);
      one.targets.push_back(batch.targets[one.steps * batch.rows + row]);
      ++one.steps;
    }
    sum += network.engine->compute_gradients(one).loss / batch.rows;
    for (std::size_t i = 0; i < gradients.size(); ++i)
      gradients[i] += network.parameters.gradients()[i] / static_cast<double>(batch.rows);
  }
  EXPECT_NEAR(loss, sum, 1e-6 * sum);
  const double largest =
      std::fabs(*std::max_element(gradients.begin(), gradients.end(),
                                  [](double a, double b) { return std::fabs(a) < std::fabs(b); }));
  for (std::size_t i = 0; i < gradients.size(); ++i)
    ASSERT_NEAR(gradient[i], gradients[i], 1e-5 * largest) << i;
}

// ---- Runs that carry a state --------------------------------------------------------------------

class CarriedRuns : public ::testing::TestWithParam<const char*> {};

// Stopped after an odd number of updates, in the middle of a group (of an epoch), and gone on with.
TEST_P(CarriedRuns, ResumeBitForBit) {
  const test::TempDir directory;
  const auto config = [&](const std::string& name, int updates) {
    const std::string out = "out=" + (directory / name).string();
    const std::string length = "updates=" + std::to_string(updates);
    return std::string(GetParam()) == "text"
               ? small_text("nru", directory, {out, length, "evaluate_every=4"})
               : small_copy("nru", {out, length, "task_options.reset_every=4", "evaluate_every=4"});
  };
  finish(config("whole", 12));
  finish(config("parts", 7));
  finish(config("parts", 12), true);
  Network whole(config("whole", 12)), parts(config("parts", 12));
  load_weights(directory / "whole" / "checkpoint.safetensors", whole.parameters);
  load_weights(directory / "parts" / "checkpoint.safetensors", parts.parameters);
  EXPECT_EQ(values_of(whole.parameters), values_of(parts.parameters));
}

// The state makes a difference: without it in the checkpoint the resumed run would be another.
TEST_P(CarriedRuns, TheCheckpointHoldsTheState) {
  const test::TempDir directory;
  const std::string out = "out=" + (directory / "run").string();
  finish(std::string(GetParam()) == "text"
             ? small_text("nru", directory, {out, "updates=6"})
             : small_copy("nru", {out, "updates=6", "task_options.reset_every=4"}));
  const SafetensorsFile file = SafetensorsFile::load(directory / "run" / "checkpoint.safetensors");
  ASSERT_NE(file.find("training.state.0"), nullptr);
  ASSERT_NE(file.find("training.state.1"), nullptr);
  EXPECT_EQ(file.find("training.state.2"), nullptr);
}

INSTANTIATE_TEST_SUITE_P(Trainer, CarriedRuns, ::testing::Values("text", "groups"));

TEST(Trainer, AStateThatIsNotCarriedIsNotSaved) {
  const test::TempDir directory;
  finish(small_copy("nru", {"out=" + (directory / "run").string(), "updates=2"}));
  const SafetensorsFile file = SafetensorsFile::load(directory / "run" / "checkpoint.safetensors");
  EXPECT_EQ(file.find("training.state.0"), nullptr);
}

TEST(Trainer, BestWeightsOfATextModelHoldTheVocabulary) {
  const test::TempDir directory;
  finish(small_text("gru", directory, {"out=" + (directory / "run").string(), "updates=2"}));
  const SafetensorsFile file = SafetensorsFile::load(directory / "run" / "best.safetensors");
  EXPECT_TRUE(file.metadata().contains("vocabulary"));
}

}  // namespace
}  // namespace nru::training
