// The LSTM beside torch's own, and how its weights are drawn.
#include <gtest/gtest.h>
#include <nru/cells/lstm.h>

#include <cmath>

#include "runs.h"

namespace nru {
namespace {

using torch::Tensor;

// ---- equal to torch::nn::LSTM ----

struct Pair {
  LSTM ours{nullptr};
  torch::nn::LSTM torchs{nullptr};

  Pair(Backend backend, bool batch_first) {
    const std::int64_t I = 3, H = 5, layers = 2;
    ours = LSTM(LSTMOptions(I, H).num_layers(layers).batch_first(batch_first).backend(backend));
    torchs =
        torch::nn::LSTM(torch::nn::LSTMOptions(I, H).num_layers(layers).batch_first(batch_first));
    ours->to(torch::kDouble);
    torchs->to(torch::kDouble);
    const torch::NoGradGuard no_grad;
    std::uint64_t seed = 1;
    for (const Tensor& p : torchs->parameters()) p.copy_(normal_values(p.sizes(), seed++, 0.5));
    auto theirs = torchs->named_parameters();
    for (const auto& p : ours->named_parameters()) {
      p.value().copy_(theirs[p.key()]);
      if (p.key().starts_with("bias_ih")) p.value().add_(theirs[other_bias(p.key())]);
    }
  }
  static std::string other_bias(std::string name) { return name.replace(0, 7, "bias_hh"); }
};

class BesideTorch : public testing::TestWithParam<std::tuple<Backend, bool, bool>> {};

INSTANTIATE_TEST_SUITE_P(Lstm, BesideTorch,
                         testing::Combine(testing::Values(Backend::fused, Backend::reference),
                                          testing::Bool(), testing::Bool()));

TEST_P(BesideTorch, OutputsAndGradientsAreEqual) {
  const auto [backend, batch_first, with_state] = GetParam();
  Pair pair(backend, batch_first);
  Problem p(*pair.ours, {6, 4, 2}, Through::both, 9);
  if (batch_first) {
    p.x = p.x.detach().transpose(0, 1).contiguous().requires_grad_();
    p.output_weights = p.output_weights.transpose(0, 1).contiguous();
  }
  const auto [output, last] = pair.ours->forward(p.x, with_state ? p.state : State{});
  const auto [expected, expected_last] =
      with_state ? pair.torchs->forward(p.x, std::make_tuple(p.state.h(), p.state.c()))
                 : pair.torchs->forward(p.x);
  const State theirs{{std::get<0>(expected_last), std::get<1>(expected_last)}};
  expect_close(output, expected, 1e-12, "output");
  expect_close(last.h(), theirs.h(), 1e-12, "h");
  expect_close(last.c(), theirs.c(), 1e-12, "c");

  std::vector<Tensor> inputs{p.x}, their_inputs{p.x};
  std::vector<std::string> names{"x"};
  if (with_state) {
    for (const Tensor& part : p.state.parts) {
      names.push_back("initial state");
      inputs.push_back(part);
      their_inputs.push_back(part);
    }
  }
  auto parameters = pair.torchs->named_parameters();
  for (const auto& own : pair.ours->named_parameters()) {
    names.push_back(own.key());
    inputs.push_back(own.value());
    their_inputs.push_back(parameters[own.key()]);
  }
  const auto got = torch::autograd::grad({p.loss(output, last)}, inputs);
  const auto want = torch::autograd::grad({p.loss(expected, theirs)}, their_inputs);
  for (std::size_t i = 0; i < got.size(); ++i) expect_close(got[i], want[i], 1e-12, names[i]);
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
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> shapes;
  for (const auto& p : made->named_parameters())
    shapes.emplace_back(p.key(), p.value().sizes().vec());
  EXPECT_EQ(shapes, (decltype(shapes){{"weight_ih_l0", {20, 3}},
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
  made->to(torch::kDouble);
  made->reset_parameters(1);
  const torch::NoGradGuard no_grad;
  const Weights w = made->weights(0);
  const double variance = 2.0 / (I + H), count = I * H;
  for (int gate = 0; gate < 4; ++gate) {
    const Tensor U = w("weight_ih").narrow(0, gate * H, H),
                 W = w("weight_hh").narrow(0, gate * H, H);
    EXPECT_LE(largest(torch::mm(W, W.t()) - torch::eye(H, torch::kDouble)), 1e-12);
    EXPECT_LE(std::abs(U.mean().item<double>()), 5 * std::sqrt(variance / count));
    EXPECT_NEAR(U.square().mean().item<double>(), variance, 5 * variance * std::sqrt(2 / count));
    EXPECT_GT(largest(U), 3 * std::sqrt(variance)) << "normal, not uniform";
    const Tensor b = w("bias_ih").narrow(0, gate * H, H);
    EXPECT_TRUE(torch::equal(b, torch::full_like(b, gate == 1 ? 1 : 0)));
    for (int other = 0; other < gate; ++other)
      EXPECT_FALSE(torch::equal(W, w("weight_hh").narrow(0, other * H, H)));
  }
  const Tensor p = w("weight_peephole");
  EXPECT_GE(p.min().item<double>(), 0);
  EXPECT_LT(p.max().item<double>(), 1);
  EXPECT_NEAR(p.mean().item<double>(), 0.5, 5 * std::sqrt(1.0 / 12 / (3 * H)));

  LSTM in_float(LSTMOptions(I, H));
  const Tensor W = in_float->weights(0)("weight_hh").narrow(0, 0, H);
  EXPECT_LE(largest(torch::mm(W, W.t()) - torch::eye(H)), 1e-6);
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
