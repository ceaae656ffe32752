// The table of cells, the network that experiments train, and that it learns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nru/error.h>
#include <nru/torch_all.h>

#include <algorithm>
#include <cmath>

#include "cells/model.h"
#include "cells/registry.h"
#include "kernels/philox.h"

namespace nru {
namespace {

using testing::HasSubstr;
using torch::Tensor;

// The settings of a task's size class, as a configuration resolves them.
ModelSettings settings(const std::string& cell, const std::string& size_class,
                       std::int64_t input_size, std::int64_t output_size) {
  const CellInfo& info = find_cell(cell);
  return {cell, resolve_options(info.options, info.sizes.at(size_class), "cell " + cell),
          input_size, output_size, 1};
}

TEST(TableOfCells, IsSortedAndComplete) {
  std::vector<std::string> names;
  for (const CellInfo& cell : cells()) names.push_back(cell.name);
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
  EXPECT_THAT(names, testing::IsSupersetOf({"gru", "janet", "lstm", "lstm-chrono", "nru", "rnn-id",
                                            "rnn-orth", "sru"}));
  for (const CellInfo& cell : cells()) {
    SCOPED_TRACE(cell.name);
    EXPECT_FALSE(cell.summary.empty());
    EXPECT_EQ(find_cell(cell.name).name, cell.name);
    for (const char* size_class : {"copy", "psmnist", "char-lm"})
      EXPECT_TRUE(cell.sizes.contains(size_class)) << size_class;
  }
}

TEST(TableOfCells, SuggestsTheNearestName) {
  const auto message = [](const char* name) -> std::string {
    try {
      find_cell(name);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message("lstn"), testing::AllOf(HasSubstr("lstn"), HasSubstr("did you mean 'lstm'")));
  EXPECT_THAT(message("NRU"), HasSubstr("did you mean 'nru'"));
  EXPECT_THAT(message("lstm-crono"), HasSubstr("did you mean 'lstm-chrono'"));
  EXPECT_THAT(message("transformer"), testing::AllOf(HasSubstr("transformer"), HasSubstr("nru")));
}

// The authors' own print-outs for the copy sizes; the rest from the formulas of the paper's sizes.
TEST(TableOfCells, ParameterCountsAreThePapers) {
  struct Row {
    const char *cell, *size_class;
    std::int64_t input, output, embedding, expected;
  };
  const Row rows[] = {
      {"nru", "copy", 10, 9, 0, 23569},
      {"lstm", "copy", 10, 9, 0, 23529},
      {"lstm-chrono", "copy", 10, 9, 0, 23529},
      {"nru", "psmnist", 1, 10, 0, 165554},
      {"lstm", "psmnist", 1, 10, 0, 164210},
      {"lstm-chrono", "psmnist", 1, 10, 0, 164210},
      {"nru", "char-lm", 200, 50, 50 * 200, 2152450},
      {"lstm", "char-lm", 200, 50, 50 * 200, 2137560},
      {"lstm-chrono", "char-lm", 200, 50, 50 * 200, 2137560},
      {"rnn-orth", "copy", 10, 9, 0, 23604},
      {"rnn-id", "copy", 10, 9, 0, 23604},
      {"gru", "copy", 10, 9, 0, 23625},
      {"janet", "copy", 10, 9, 0, 23542},
      {"sru", "copy", 10, 9, 0, 23010},
      {"eurnn", "copy", 10, 9, 0, 23484},
      {"goru", "copy", 10, 9, 0, 23642},
      {"rnn-orth", "psmnist", 1, 10, 0, 165610},
      {"rnn-id", "psmnist", 1, 10, 0, 165610},
      {"gru", "psmnist", 1, 10, 0, 165194},
      {"janet", "psmnist", 1, 10, 0, 164150},
      {"sru", "psmnist", 1, 10, 0, 164770},
      {"eurnn", "psmnist", 1, 10, 0, 17418},
      {"goru", "psmnist", 1, 10, 0, 164677},
      {"rnn-orth", "char-lm", 200, 50, 50 * 200, 2150540},
      {"rnn-id", "char-lm", 200, 50, 50 * 200, 2150540},
      {"gru", "char-lm", 200, 50, 50 * 200, 2187300},
      {"janet", "char-lm", 200, 50, 50 * 200, 2160210},
      {"sru", "char-lm", 200, 50, 50 * 200, 2117078},
      {"eurnn", "char-lm", 200, 50, 50 * 200, 2119490},
      {"goru", "char-lm", 200, 50, 50 * 200, 2150220},
  };
  for (const Row& row : rows) {
    const ModelSettings s = settings(row.cell, row.size_class, row.input, row.output);
    EXPECT_EQ(count_parameters(s) + row.embedding, row.expected)
        << row.cell << " " << row.size_class;
  }
}

TEST(TableOfCells, CountedIsWhatIsMade) {
  for (const CellInfo& cell : cells()) {
    SCOPED_TRACE(cell.name);
    const ModelSettings s = settings(cell.name, "copy", 10, 9);
    Model model(s);
    std::int64_t made = 0;
    for (const Tensor& p : model->parameters()) made += p.numel();
    EXPECT_EQ(count_parameters(s), made);
    // The layer's tensors in the order, and of the shapes, that the table lists.
    const auto listed = cell.parameters(10, s.cell_options);
    const auto tensors = model->layer()->weights(0);
    ASSERT_EQ(listed.size(), tensors.tensors().size());
    for (const auto& p : listed) EXPECT_EQ(tensors(p.name).numel(), p.size()) << p.name;
  }
}

TEST(TableOfCells, OptionsReachTheCell) {
  const CellInfo& info = find_cell("nru");
  const auto count = [&](const OptionMap& given) {
    return count_parameters({"nru", resolve_options(info.options, given, "cell nru"), 3, 2, 1});
  };
  const std::int64_t h = 80, m = 64, k = 4, r = 16, I = 3, out = 2 * (h + 1);
  const std::int64_t hidden = h * (I + h + m) + h, heads = (2 * k + 4 * r) * (h + m + 1);
  EXPECT_EQ(count({}), hidden + heads + out);
  EXPECT_EQ(count({{"heads_see_input", true}}), hidden + heads + (2 * k + 4 * r) * I + out);
  EXPECT_EQ(count({{"layer_norm", true}}), hidden + heads + 2 * h + out);
  EXPECT_EQ(count({{"direction", std::string("per_head")}}),
            hidden + (2 * k + 4 * k * 8) * (h + m + 1) + out);
  EXPECT_EQ(count({{"direction", std::string("full")}}),
            hidden + (2 * k + 2 * k * m) * (h + m + 1) + out);
  EXPECT_EQ(count({{"combine", std::string("sum")}, {"head_activation", std::string("relu")}}),
            hidden + heads + out);
  EXPECT_THROW(count({{"memory_size", std::int64_t{63}}}), Error);

  const CellInfo& lstm = find_cell("lstm");
  const OptionMap plain =
      resolve_options(lstm.options, {{"peephole", false}, {"hidden_size", std::int64_t{5}}}, "");
  EXPECT_EQ(count_parameters({"lstm", plain, 3, 2, 1}), 4 * (5 * (3 + 5) + 5) + 2 * 6);
  const OptionMap chrono =
      resolve_options(lstm.options, {{"chrono_t_max", std::int64_t{9}}}, "cell lstm");
  const Tensor bias = lstm.make(3, chrono)->weights(0)("bias_ih").detach();
  EXPECT_TRUE(torch::equal(bias.narrow(0, 0, 70), -bias.narrow(0, 70, 70)));
  EXPECT_GT(bias.max().item<float>(), 1.5);
}

// What a row of the table says reaches the layer: by its weights, or by what it computes.
TEST(TableOfCells, OptionsReachTheOtherCells) {
  const auto make = [](const char* cell, const OptionMap& given) {
    const CellInfo& info = find_cell(cell);
    auto layer = info.make(3, resolve_options(info.options, given, cell));
    layer->reset_parameters(1);
    return layer;
  };
  const auto output = [](const std::shared_ptr<LayerImpl>& layer) {
    return std::get<0>(layer->forward(torch::ones({4, 2, 3}))).detach();
  };
  const auto is_identity = [&](const char* cell, const OptionMap& given) {
    const Tensor W = make(cell, given)->weights(0)("weight_hh");
    return torch::equal(W, torch::eye(W.size(0)));
  };
  EXPECT_FALSE(is_identity("rnn-orth", {}));
  EXPECT_TRUE(is_identity("rnn-id", {}));
  EXPECT_TRUE(is_identity("rnn-orth", {{"recurrent_init", std::string("identity")}}));
  EXPECT_EQ(make("rnn-orth", {})->weights(0).tensors().size(), 5) << "layer norm is on";
  EXPECT_EQ(make("rnn-orth", {{"layer_norm", false}})->weights(0).tensors().size(), 3);
  EXPECT_GE(output(make("rnn-id", {})).min().item<float>(), 0) << "ReLU";
  EXPECT_LT(output(make("rnn-id", {{"activation", std::string("tanh")}})).min().item<float>(), 0);
  EXPECT_EQ(make("gru", {})->weights(0).tensors().size(), 3) << "reset before the product";
  EXPECT_EQ(make("gru", {{"reset_after", true}})->weights(0).tensors().size(), 4);
  EXPECT_FALSE(torch::equal(output(make("janet", {})), output(make("janet", {{"beta", 1.0}}))));
  EXPECT_TRUE(find_cell("janet").chrono);
  EXPECT_EQ(make("janet", {{"forget_bias", 2.0}})->weights(0)("bias_ih").max().item<float>(), 2);
  EXPECT_GT(make("janet", {{"chrono_t_max", std::int64_t{100}}})
                ->weights(0)("bias_ih")
                .max()
                .item<float>(),
            3);
  EXPECT_FALSE(torch::equal(output(make("sru", {})),
                            output(make("sru", {{"scales", std::string("original")}}))));
  const auto sru = make("sru", {{"hidden_size", std::int64_t{9}},
                                {"stat_size", std::int64_t{6}},
                                {"recur_size", std::int64_t{2}}});
  EXPECT_EQ(output(sru).size(2), 9);
  EXPECT_EQ(sru->weights(0)("weight_r").sizes(), torch::IntArrayRef({2, 30}));
}

TEST(Model, MakesLogits) {
  for (const char* cell : {"nru", "lstm"}) {
    Model model(settings(cell, "copy", 10, 9));
    const Tensor hidden = std::get<0>(model->layer()->forward(torch::randn({7, 3, 10})));
    const Tensor logits = model->logits(hidden);
    EXPECT_EQ(logits.sizes(), torch::IntArrayRef({7, 3, 9}));
    const Tensor expected =
        torch::matmul(hidden, model->output_weight().t()) + model->output_bias();
    EXPECT_TRUE(torch::allclose(logits, expected, 1e-5, 1e-6));
    EXPECT_EQ(model->logits(hidden[6]).sizes(), torch::IntArrayRef({3, 9}));
    const auto parameters = model->named_parameters();
    EXPECT_TRUE(parameters.contains("output.weight"));
    EXPECT_TRUE(parameters.contains("output.bias"));
    EXPECT_TRUE(parameters.contains(std::string("layer.bias") +
                                    (std::string(cell) == "lstm" ? "_ih_l0" : "_l0")));
  }
}

TEST(Model, TheSeedIsTheModel) {
  for (const char* cell : {"nru", "lstm", "lstm-chrono"}) {
    ModelSettings s = settings(cell, "copy", 10, 9);
    torch::manual_seed(1);
    Model a(s);
    torch::manual_seed(2);  // must not matter
    Model b(s);
    s.seed = 2;
    Model c(s);
    const auto pa = a->parameters(), pb = b->parameters(), pc = c->parameters();
    for (std::size_t i = 0; i < pa.size(); ++i) EXPECT_TRUE(torch::equal(pa[i], pb[i]));
    EXPECT_FALSE(torch::equal(pa[0], pc[0]));
    EXPECT_FALSE(torch::equal(a->output_weight(), c->output_weight()));
  }
}

TEST(Model, TheOutputLayerIsXavierNormal) {
  const ModelSettings s = settings("lstm", "char-lm", 5, 50);
  Model model(s);
  const Tensor V = model->output_weight().detach().to(torch::kDouble);
  const double variance = 2.0 / (630 + 50), count = 630 * 50;
  EXPECT_EQ(V.sizes(), torch::IntArrayRef({50, 630}));
  EXPECT_NEAR(V.mean().item<double>(), 0, 5 * std::sqrt(variance / count));
  EXPECT_NEAR(V.square().mean().item<double>(), variance, 5 * variance * std::sqrt(2 / count));
  EXPECT_EQ(model->output_bias().abs().max().item<float>(), 0);
}

// One fixed batch of copying memory with a lag of 20: ten symbols 1..8, blanks, a marker (9), and
// then the symbols are asked for.
struct CopyBatch {
  static constexpr std::int64_t kLag = 20, kSteps = kLag + 20, kRows = 10;
  Tensor x = torch::zeros({kSteps, kRows, 10}),
         targets = torch::zeros({kSteps, kRows}, torch::kLong);

  CopyBatch() {
    const kernels::Philox random(1, kernels::Stream::train_batches);
    for (std::int64_t row = 0; row < kRows; ++row) {
      for (std::int64_t t = 0; t < kSteps; ++t) {
        const std::int64_t symbol = t < 10 ? 1 + random.below(8, row, t) : 0;
        x[t][row][t == kLag + 9 ? 9 : symbol] = 1;
        if (t < 10) targets[kLag + 10 + t][row] = symbol;
      }
    }
  }
};

class Overfit : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Cells, Overfit, testing::Values("nru", "lstm", "gru", "janet"));

TEST_P(Overfit, OneBatchIsLearnedByHeart) {
  const CopyBatch batch;
  Model model(settings(GetParam(), "copy", 10, 9));
  torch::optim::Adam adam(model->parameters(), torch::optim::AdamOptions(5e-3));
  double loss = 0;
  int update = 0;
  for (; update < 3000; ++update) {
    const Tensor logits = model->logits(std::get<0>(model->layer()->forward(batch.x)));
    const Tensor cross_entropy =
        torch::cross_entropy_loss(logits.reshape({-1, 9}), batch.targets.reshape({-1}));
    loss = cross_entropy.item<double>();
    if (loss < 1e-3) break;
    adam.zero_grad();
    cross_entropy.backward();
    torch::nn::utils::clip_grad_norm_(model->parameters(), 1.0);
    adam.step();
  }
  EXPECT_LT(loss, 1e-3);
  RecordProperty("updates", update);
}

}  // namespace
}  // namespace nru
