// The LSTM beside torch's own, and how its weights are drawn.
#include <gtest/gtest.h>
#include <nru/cells/lstm.h>

#include <cmath>

#include "beside_torch.h"
#include "parameters.h"
#include "runs.h"

namespace nru {
namespace {

using torch::Tensor;

// ---- equal to torch::nn::LSTM ----

class BesideTorch : public testing::TestWithParam<std::tuple<Backend, bool, bool>> {};

INSTANTIATE_TEST_SUITE_P(Lstm, BesideTorch,
                         testing::Combine(testing::Values(Backend::fused, Backend::reference),
                                          testing::Bool(), testing::Bool()));

TEST_P(BesideTorch, OutputsAndGradientsAreEqual) {
  const auto [backend, batch_first, with_state] = GetParam();
  LSTM ours(LSTMOptions(3, 5).num_layers(2).batch_first(batch_first).backend(backend));
  torch::nn::LSTM torchs(torch::nn::LSTMOptions(3, 5).num_layers(2).batch_first(batch_first));
  expect_equal_to_torch(ours, torchs, with_state);
}

// ---- properties ----

TEST(Lstm, AnOpenForgetGateHoldsTheCell) {
  for (const Backend backend : {Backend::fused, Backend::reference}) {
    for (const bool peephole : {false, true}) {
      LSTM made(LSTMOptions(3, 5).peephole(peephole).backend(backend));
      made->to(torch::kDouble);
      set_weights(*made, 4);
      {
        const torch::NoGradGuard no_grad;
        made->weights(0)("bias_ih").narrow(0, 0, 5).fill_(-1e3);  // i = 0
        made->weights(0)("bias_ih").narrow(0, 5, 5).fill_(1e3);   // f = 1
      }
      Problem p(*made, {100, 3}, Through::both, 9);
      const auto [output, last] = made->forward(p.x, p.state);
      EXPECT_TRUE(torch::equal(last.c(), p.state.c()));
      EXPECT_FALSE(torch::equal(last.h(), p.state.h()));
    }
  }
}

TEST(Lstm, PeepholesOfZeroAreNone) {
  for (const Backend backend : {Backend::fused, Backend::reference}) {
    LSTM plain(LSTMOptions(3, 5).backend(backend));
    LSTM peephole(LSTMOptions(3, 5).peephole(true).backend(backend));
    for (LSTM* l : {&plain, &peephole}) {
      (*l)->to(torch::kDouble);
      set_weights(**l, 4);
    }
    const torch::NoGradGuard no_grad;
    Problem p(*plain, {5, 3}, Through::both, 9);
    const Tensor expected = std::get<0>(plain->forward(p.x, p.state));
    const Tensor with = std::get<0>(peephole->forward(p.x, p.state));
    EXPECT_GT(largest(with - expected), 1e-3);
    peephole->weights(0)("weight_peephole").zero_();
    expect_close(std::get<0>(peephole->forward(p.x, p.state)), expected, 1e-14, "output");
  }
}

// ---- parameters ----

TEST(LstmParameters, HaveTheDocumentedNamesAndShapes) {
  LSTM made(LSTMOptions(3, 5).num_layers(2).peephole(true));
  EXPECT_EQ(parameter_shapes(*made), (Shapes{{"weight_ih_l0", {20, 3}},
                                             {"weight_hh_l0", {20, 5}},
                                             {"bias_ih_l0", {20}},
                                             {"weight_peephole_l0", {3, 5}},
                                             {"weight_ih_l1", {20, 5}},
                                             {"weight_hh_l1", {20, 5}},
                                             {"bias_ih_l1", {20}},
                                             {"weight_peephole_l1", {3, 5}}}));
  EXPECT_EQ(LSTM(LSTMOptions(3, 5))->named_parameters().size(), 3);
  EXPECT_EQ(made->state_names(), (std::vector<std::string>{"h", "c"}));
}

TEST(LstmParameters, AreDrawnAsTheAuthorsDo) {
  const std::int64_t I = 40, H = 120;
  LSTM made(LSTMOptions(I, H).peephole(true));
  const Weights w = drawn(*made);
  expect_gates_drawn(w, 4);
  for (int gate = 0; gate < 4; ++gate)
    EXPECT_EQ(largest(w("bias_ih").narrow(0, gate * H, H) - (gate == 1 ? 1 : 0)), 0) << gate;
  const Tensor p = w("weight_peephole");
  expect_uniform(p - 0.5, 0.5, "peepholes");

  LSTM in_float(LSTMOptions(I, H));
  expect_orthogonal(in_float->weights(0)("weight_hh").narrow(0, 0, H), 1e-6);
  LSTM biased(LSTMOptions(I, H).forget_bias(2.5));
  EXPECT_EQ(biased->weights(0)("bias_ih")[H].item<float>(), 2.5f);
}

// Haar-distributed, which QR without the sign convention is not: E[trace] = 0, E[trace^2] = 1.
TEST(LstmParameters, OrthogonalMatricesLeanNowhere) {
  const std::int64_t H = 5, draws = 500;
  LSTM made(LSTMOptions(1, H));
  made->to(torch::kDouble);
  double sum = 0, squares = 0;
  for (std::int64_t seed = 0; seed < draws; ++seed) {
    made->reset_parameters(seed);
    for (int gate = 0; gate < 4; ++gate) {
      const double trace =
          made->weights(0)("weight_hh").narrow(0, gate * H, H).trace().item<double>();
      sum += trace;
      squares += trace * trace;
    }
  }
  const double count = 4.0 * draws;
  EXPECT_NEAR(sum / count, 0, 5 / std::sqrt(count));
  EXPECT_NEAR(squares / count, 1, 5 * std::sqrt(2 / count));
}

TEST(LstmParameters, ChronoBiasesAreLogarithms) {
  const std::int64_t H = 400, T = 7;
  LSTM made(LSTMOptions(2, H).chrono_t_max(T).peephole(true));
  made->to(torch::kDouble);
  made->reset_parameters(3);
  const torch::NoGradGuard no_grad;
  const Tensor b = made->weights(0)("bias_ih");
  const Tensor b_i = b.narrow(0, 0, H), b_f = b.narrow(0, H, H);
  EXPECT_TRUE(torch::equal(b_i, -b_f));
  EXPECT_EQ(largest(b.narrow(0, 2 * H, 2 * H)), 0);
  std::vector<int> seen(T + 1, 0);
  for (std::int64_t j = 0; j < H; ++j) {
    const double u = std::exp(b_f[j].item<double>());
    const long n = std::lround(u);
    ASSERT_NEAR(u, static_cast<double>(n), 1e-12);
    ASSERT_TRUE(n >= 1 && n <= T) << n;
    ++seen[n];
  }
  for (std::int64_t n = 1; n <= T; ++n)  // 57 of each on average, standard deviation 7
    EXPECT_NEAR(seen[n], static_cast<double>(H) / T, 35) << n;
}

TEST(LstmParameters, ChronoInThePapersForm) {
  const std::int64_t H = 400, T = 100;
  LSTM made(LSTMOptions(2, H).chrono_t_max(T).chrono_form(LSTMOptions::ChronoForm::paper));
  made->to(torch::kDouble);
  made->reset_parameters(3);
  const torch::NoGradGuard no_grad;
  const Tensor b = made->weights(0)("bias_ih");
  const Tensor u = b.narrow(0, H, H).exp();
  EXPECT_TRUE(torch::equal(b.narrow(0, 0, H), -b.narrow(0, H, H)));
  EXPECT_GE(u.min().item<double>(), 1);
  EXPECT_LE(u.max().item<double>(), T - 1);
  EXPECT_GT(u.max().item<double>(), 95);
  EXPECT_LT(u.min().item<double>(), 5);
  EXPECT_NEAR(u.mean().item<double>(), T / 2.0, 5 * 28.3 / std::sqrt(H));
  EXPECT_GT(largest(u - u.round()), 0.1) << "not integers";
}

TEST(LstmParameters, TheSmallestChronoTime) {
  LSTM integers(LSTMOptions(2, 50).chrono_t_max(2));
  LSTM reals(LSTMOptions(2, 50).chrono_t_max(2).chrono_form(LSTMOptions::ChronoForm::paper));
  EXPECT_FLOAT_EQ(integers->weights(0)("bias_ih").max().item<float>(), std::log(2.0f));
  EXPECT_EQ(largest(reals->weights(0)("bias_ih").detach()), 0) << "[1, 1] is the point 1";
}

}  // namespace
}  // namespace nru
