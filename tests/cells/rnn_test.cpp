// The RNN beside torch's own, its layer norm, and how its weights are drawn.
#include <gtest/gtest.h>
#include <nru/cells/rnn.h>

#include <cmath>

#include "beside_torch.h"
#include "parameters.h"
#include "runs.h"

namespace nru {
namespace {

using Activation = RNNOptions::Activation;
using Init = RNNOptions::RecurrentInit;

// ---- equal to torch::nn::RNN ----

class RnnBesideTorch : public testing::TestWithParam<std::tuple<Backend, bool, bool, Activation>> {
};

INSTANTIATE_TEST_SUITE_P(Rnn, RnnBesideTorch,
                         testing::Combine(testing::Values(Backend::fused, Backend::reference),
                                          testing::Bool(), testing::Bool(),
                                          testing::Values(Activation::tanh, Activation::relu)));

TEST_P(RnnBesideTorch, OutputsAndGradientsAreEqual) {
  const auto [backend, batch_first, with_state, activation] = GetParam();
  RNN ours(RNNOptions(3, 5)
               .num_layers(2)
               .batch_first(batch_first)
               .backend(backend)
               .activation(activation));
  auto options = torch::nn::RNNOptions(3, 5).num_layers(2).batch_first(batch_first);
  if (activation == Activation::relu) options.nonlinearity(torch::kReLU);
  torch::nn::RNN torchs(options);
  expect_equal_to_torch(ours, torchs, with_state);
}

TEST(Rnn, IsTorchsByDefault) {
  RNN ours(3, 5);
  torch::nn::RNN torchs(torch::nn::RNNOptions(3, 5));
  expect_equal_to_torch(ours, torchs, true);
}

// ---- layer norm ----

RNN normed(Backend backend, std::int64_t hidden) {
  RNN made(RNNOptions(3, hidden).layer_norm(true).activation(Activation::relu).backend(backend));
  made->to(torch::kDouble);
  set_weights(*made, 4);
  return made;
}

// gamma and beta such that no unit is cut off by the ReLU.
TEST(Rnn, LayerNormGivesMeanAndDeviation) {
  for (const Backend backend : {Backend::fused, Backend::reference}) {
    RNN made = normed(backend, 37);
    const torch::NoGradGuard no_grad;
    made->weights(0)("norm_weight").fill_(0.25);
    made->weights(0)("norm_bias").fill_(3);
    Problem p(*made, {5, 4}, Through::both, 9);
    const Tensor h = std::get<0>(made->forward(p.x, p.state));
    EXPECT_GT(h.min().item<double>(), 0);
    EXPECT_LE(largest(h.mean(2) - 3), 1e-12);
    EXPECT_LE(largest(h.std(2, /*unbiased=*/false) - 0.25), 1e-4) << "eps is 1e-5";
  }
}

TEST(Rnn, LayerNormOfAConstantIsBeta) {
  for (const Backend backend : {Backend::fused, Backend::reference}) {
    RNN made = normed(backend, 11);
    const torch::NoGradGuard no_grad;
    const Weights w = made->weights(0);
    for (const char* name : {"weight_ih", "weight_hh"}) w(name).zero_();
    w("bias_ih").fill_(0.5);
    Problem p(*made, {3, 2}, Through::both, 9);
    const Tensor h = std::get<0>(made->forward(p.x, p.state));
    EXPECT_TRUE(torch::equal(h, w("norm_bias").relu().expand_as(h)));
  }
}

// ---- parameters ----

TEST(RnnParameters, HaveTheDocumentedNamesAndShapes) {
  RNN made(RNNOptions(3, 5).num_layers(2).layer_norm(true));
  EXPECT_EQ(parameter_shapes(*made), (Shapes{{"weight_ih_l0", {5, 3}},
                                             {"weight_hh_l0", {5, 5}},
                                             {"bias_ih_l0", {5}},
                                             {"norm_weight_l0", {5}},
                                             {"norm_bias_l0", {5}},
                                             {"weight_ih_l1", {5, 5}},
                                             {"weight_hh_l1", {5, 5}},
                                             {"bias_ih_l1", {5}},
                                             {"norm_weight_l1", {5}},
                                             {"norm_bias_l1", {5}}}));
  EXPECT_EQ(RNN(3, 5)->named_parameters().size(), 3);
  EXPECT_EQ(made->state_names(), (std::vector<std::string>{"h"}));
}

TEST(RnnParameters, AreDrawnAsTheAuthorsDo) {
  const std::int64_t I = 40, H = 120;
  for (const Init init : {Init::orthogonal, Init::identity}) {
    RNN made(RNNOptions(I, H).layer_norm(true).recurrent_init(init));
    const Weights w = drawn(*made);
    expect_normal(w("weight_ih"), 2 * 2.0 / (I + H), "U");
    expect_orthogonal(w("weight_hh"));
    EXPECT_EQ(torch::equal(w("weight_hh"), torch::eye(H, torch::kDouble)), init == Init::identity);
    EXPECT_EQ(largest(w("bias_ih")), 0);
    EXPECT_EQ(largest(w("norm_weight") - 1), 0);
    EXPECT_EQ(largest(w("norm_bias")), 0);
  }
}

}  // namespace
}  // namespace nru
