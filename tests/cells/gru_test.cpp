// The GRU beside torch's own, its limits, and how its weights are drawn.
#include <gtest/gtest.h>
#include <nru/cells/gru.h>

#include <cmath>

#include "beside_torch.h"
#include "parameters.h"
#include "runs.h"

namespace nru {
namespace {

constexpr Backend kBackends[] = {Backend::fused, Backend::reference};

// ---- equal to torch::nn::GRU ----

class GruBesideTorch : public testing::TestWithParam<std::tuple<Backend, bool, bool>> {};

INSTANTIATE_TEST_SUITE_P(Gru, GruBesideTorch,
                         testing::Combine(testing::Values(Backend::fused, Backend::reference),
                                          testing::Bool(), testing::Bool()));

TEST_P(GruBesideTorch, OutputsAndGradientsAreEqual) {
  const auto [backend, batch_first, with_state] = GetParam();
  GRU ours(
      GRUOptions(3, 5).num_layers(2).batch_first(batch_first).backend(backend).reset_after(true));
  torch::nn::GRU torchs(torch::nn::GRUOptions(3, 5).num_layers(2).batch_first(batch_first));
  expect_equal_to_torch(ours, torchs, with_state, /*own=*/5);
}

// ---- limits ----

GRU made_with(Backend backend, bool reset_after) {
  GRU made(GRUOptions(3, 5).reset_after(reset_after).backend(backend));
  made->to(torch::kDouble);
  set_weights(*made, 4);
  return made;
}

void fill_bias(const GRU& gru, int gate, double value) {
  const torch::NoGradGuard no_grad;
  gru->weights(0)("bias_ih").narrow(0, gate * 5, 5).fill_(value);
}

TEST(Gru, AnOpenUpdateGateHoldsTheState) {
  for (const Backend backend : kBackends) {
    for (const bool reset_after : {false, true}) {
      GRU made = made_with(backend, reset_after);
      fill_bias(made, 1, 1e3);  // z = 1
      Problem p(*made, {100, 3}, Through::both, 9);
      EXPECT_TRUE(torch::equal(std::get<1>(made->forward(p.x, p.state)).h(), p.state.h()));
    }
  }
}

// With r = 1 it does not matter when it acts; otherwise it does.
TEST(Gru, TheFormsDifferInTheResetGateOnly) {
  for (const Backend backend : kBackends) {
    GRU before = made_with(backend, false), after = made_with(backend, true);
    const torch::NoGradGuard no_grad;
    after->weights(0)("bias_hn").zero_();
    Problem p(*before, {6, 3}, Through::both, 9);
    const auto output = [&](GRU& gru) { return std::get<0>(gru->forward(p.x, p.state)); };
    EXPECT_GT(largest(output(before) - output(after)), 1e-3);
    fill_bias(before, 0, 1e3);
    fill_bias(after, 0, 1e3);
    expect_close(output(after), output(before), 1e-13, "output");
  }
}

TEST(Gru, AClosedResetGateForgetsInTheCandidate) {
  for (const Backend backend : kBackends) {
    GRU made = made_with(backend, false);
    fill_bias(made, 0, -1e3);  // r = 0
    fill_bias(made, 1, -1e3);  // z = 0
    const torch::NoGradGuard no_grad;
    Problem p(*made, {6, 3}, Through::both, 9);
    const Weights w = made->weights(0);
    const Tensor expected =
        torch::linear(p.x, w("weight_ih").narrow(0, 10, 5), w("bias_ih").narrow(0, 10, 5)).tanh();
    expect_close(std::get<0>(made->forward(p.x, p.state)), expected, 1e-14, "output");
  }
}

// ---- parameters ----

TEST(GruParameters, HaveTheDocumentedNamesAndShapes) {
  GRU made(GRUOptions(3, 5).num_layers(2).reset_after(true));
  EXPECT_EQ(parameter_shapes(*made), (Shapes{{"weight_ih_l0", {15, 3}},
                                             {"weight_hh_l0", {15, 5}},
                                             {"bias_ih_l0", {15}},
                                             {"bias_hn_l0", {5}},
                                             {"weight_ih_l1", {15, 5}},
                                             {"weight_hh_l1", {15, 5}},
                                             {"bias_ih_l1", {15}},
                                             {"bias_hn_l1", {5}}}));
  EXPECT_EQ(GRU(3, 5)->named_parameters().size(), 3) << "the reset gate acts first by default";
  EXPECT_EQ(made->state_names(), (std::vector<std::string>{"h"}));
}

TEST(GruParameters, AreDrawnAsTheAuthorsDo) {
  GRU made(GRUOptions(40, 120).reset_after(true));
  const Weights w = drawn(*made);
  expect_gates_drawn(w, 3);
  EXPECT_EQ(largest(w("bias_ih")), 0);
  EXPECT_EQ(largest(w("bias_hn")), 0);
}

}  // namespace
}  // namespace nru
