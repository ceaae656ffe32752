// The statistical recurrent unit: its limits, and how its weights are drawn.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nru/cells/sru.h>
#include <nru/error.h>

#include <cmath>
#include <limits>

#include "parameters.h"
#include "runs.h"

namespace nru {
namespace {

using testing::HasSubstr;
using torch::Tensor;

constexpr Backend kBackends[] = {Backend::fused, Backend::reference};
constexpr std::int64_t kI = 3, kH = 5, kP = 7, kR = 4;

SRU made_with(Backend backend, const SRUOptions::Scales& scales) {
  SRU made(SRUOptions(kI, kH).stat_size(kP).recur_size(kR).scales(scales).backend(backend));
  made->to(torch::kDouble);
  set_weights(*made, 4);
  return made;
}

// mu' = phi' then, and the network is a ReLU RNN with a bottleneck r.
TEST(Sru, ScaleZeroIsAReluNetwork) {
  for (const Backend backend : kBackends) {
    SRU made = made_with(backend, {0});
    const torch::NoGradGuard no_grad;
    Problem p(*made, {6, 3}, Through::both, 9);
    const Weights w = made->weights(0);
    Tensor phi = p.state.mu()[0];
    std::vector<Tensor> outputs;
    for (int t = 0; t < 6; ++t) {
      const Tensor r = torch::linear(phi, w("weight_r"), w("bias_r")).relu();
      phi = (torch::linear(p.x[t], w("weight_phi").narrow(1, 0, kI), w("bias_phi")) +
             torch::linear(r, w("weight_phi").narrow(1, kI, kR)))
                .relu();
      outputs.push_back(torch::linear(phi, w("weight_o"), w("bias_o")).relu());
    }
    const auto [output, last] = made->forward(p.x, p.state);
    expect_close(output, torch::stack(outputs), 1e-13, "output");
    expect_close(last.mu()[0], phi, 1e-13, "mu");
  }
}

TEST(Sru, ScaleZeroWithoutRecurrenceHasNoMemory) {
  for (const Backend backend : kBackends) {
    SRU made = made_with(backend, {0});
    const torch::NoGradGuard no_grad;
    made->weights(0)("weight_r").zero_();
    Problem p(*made, {6, 3}, Through::both, 9);
    const Tensor output = std::get<0>(made->forward(p.x, p.state));
    for (int t = 0; t < 6; ++t) {
      const Tensor alone = std::get<0>(made->forward(p.x.narrow(0, t, 1)));
      expect_close(output.narrow(0, t, 1), alone, 1e-14, "output");
    }
  }
}

TEST(Sru, ScaleOneNeverChanges) {
  for (const Backend backend : kBackends) {
    SRU made = made_with(backend, {1, 0.5, 1});
    Problem p(*made, {100, 3}, Through::both, 9);
    const Tensor last = std::get<1>(made->forward(p.x, p.state)).mu();
    for (const std::int64_t scale : {0, 2}) {
      EXPECT_TRUE(
          torch::equal(last.narrow(2, scale * kP, kP), p.state.mu().narrow(2, scale * kP, kP)));
    }
    EXPECT_GT(largest(last.narrow(2, kP, kP) - p.state.mu().narrow(2, kP, kP)), 1e-3);
  }
}

// phi = c at every step: mu_j = c (1 - alpha_j^t).
TEST(Sru, ConstantStatisticsAreApproachedAtEveryScale) {
  for (const Backend backend : kBackends) {
    SRU made = made_with(backend, SRUOptions(1, 1).scales());
    const torch::NoGradGuard no_grad;
    const Tensor c = torch::arange(1, kP + 1, torch::kDouble);
    made->weights(0)("weight_phi").zero_();
    made->weights(0)("bias_phi").copy_(c);
    const auto states = made->states(normal_values({50, 2, kI}, 1));
    const double alphas[] = {0, 0.5, 0.9, 0.99, 0.999};
    for (int t = 0; t < 50; ++t) {
      for (int k = 0; k < 5; ++k) {
        const Tensor mu = states[0][t].narrow(1, k * kP, kP);
        const Tensor expected = (c * (1 - std::pow(alphas[k], t + 1))).expand_as(mu);
        expect_close(mu, expected, 1e-12, "mu");
      }
    }
  }
}

TEST(Sru, WhatCannotBeIsRefused) {
  const auto message = [](const SRUOptions& o) -> std::string {
    try {
      SRU made(o);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const SRUOptions o(3, 5);
  EXPECT_THAT(message(SRUOptions(o).stat_size(0)),
              HasSubstr("stat_size must be at least 1, got 0"));
  EXPECT_THAT(message(SRUOptions(o).recur_size(-2)), HasSubstr("recur_size must be at least 1"));
  EXPECT_THAT(message(SRUOptions(o).stat_size(300000)), HasSubstr("got 1500000"));
  EXPECT_THAT(message(SRUOptions(o).scales({})), HasSubstr("number of scales"));
  for (const double wrong : {-0.1, 1.5, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_THAT(message(SRUOptions(o).scales({0.5, wrong})), HasSubstr("[0, 1]"));
}

// ---- parameters ----

TEST(SruParameters, HaveTheDocumentedNamesAndShapes) {
  SRU made(SRUOptions(3, 5).num_layers(2).stat_size(7).recur_size(4));
  EXPECT_EQ(parameter_shapes(*made), (Shapes{{"weight_r_l0", {4, 35}},
                                             {"bias_r_l0", {4}},
                                             {"weight_phi_l0", {7, 7}},
                                             {"bias_phi_l0", {7}},
                                             {"weight_o_l0", {5, 35}},
                                             {"bias_o_l0", {5}},
                                             {"weight_r_l1", {4, 35}},
                                             {"bias_r_l1", {4}},
                                             {"weight_phi_l1", {7, 9}},
                                             {"bias_phi_l1", {7}},
                                             {"weight_o_l1", {5, 35}},
                                             {"bias_o_l1", {5}}}));
  EXPECT_EQ(made->state_names(), (std::vector<std::string>{"mu"}));
  EXPECT_EQ(std::get<0>(made->forward(torch::randn({2, 3, 3}))).size(2), 5);
}

TEST(SruParameters, AreXavierUniformWithReluGain) {
  SRU made(SRUOptions(40, 60).stat_size(50).recur_size(30));
  const Weights w = drawn(*made);
  for (const char* name : {"weight_r", "weight_phi", "weight_o"})
    expect_uniform(w(name), std::sqrt(12.0 / (w(name).size(0) + w(name).size(1))), name);
  for (const char* name : {"bias_r", "bias_phi", "bias_o"}) EXPECT_EQ(largest(w(name)), 0) << name;
}

}  // namespace
}  // namespace nru
