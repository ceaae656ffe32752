// EURNN and GORU by their own properties: what the butterfly is, what it preserves, where the cells
// reduce to something known, and what their options accept and draw. Both backends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nru/cells/eurnn.h>
#include <nru/cells/goru.h>
#include <nru/error.h>

#include <cmath>
#include <numbers>

#include "cases.h"
#include "cells/model.h"
#include "cells/registry.h"
#include "parameters.h"
#include "runs.h"

namespace nru {
namespace {

using testing::HasSubstr;
using torch::Tensor;

void set_zero(const Tensor& t) {
  const torch::NoGradGuard no_grad;
  t.zero_();
}

void assign_to(const Tensor& t, const Tensor& values) {
  const torch::NoGradGuard no_grad;
  t.copy_(values);
}

// In double, with weights of set_weights(); `free` switches off input and bias, which leaves Q
// alone.
EURNN make_eurnn(EURNNOptions options, Backend backend, bool free) {
  EURNN layer(options.backend(backend));
  layer->to(torch::kDouble);
  set_weights(*layer, 3);
  if (free) {
    set_zero(layer->weights(0)("weight_ih"));
    set_zero(layer->weights(0)("bias"));
  }
  return layer;
}

// Q as the layer applies it: one step from every unit vector, column by column; complex as a
// complex matrix.
Tensor dense(EURNN& layer) {
  const torch::NoGradGuard no_grad;
  const std::int64_t n = layer->options.hidden_size();
  State state = layer->initial_state(n);
  state.parts[0].narrow(2, 0, n).copy_(torch::eye(n, torch::kDouble).unsqueeze(0));
  const auto [output, last] = layer->forward(torch::zeros({1, n, 1}, torch::kDouble), state);
  const Tensor h = last.parts[0][0];
  if (!layer->options.complex()) return h.t();
  return torch::complex(h.narrow(1, 0, n).contiguous(), h.narrow(1, n, n).contiguous()).t();
}

// Q from its definition: a product of dense matrices, one for each layer.
Tensor product_of_rotations(const EURNN& layer) {
  const std::int64_t n = layer->options.hidden_size();
  const bool complex = layer->options.complex();
  const Weights w = layer->weights(0);
  const auto type = torch::kComplexDouble;
  const auto number = [&](double re, double im) { return c10::complex<double>(re, im); };
  Tensor Q = torch::eye(n, type);
  std::int64_t angle = 0;
  int count = 0;
  while ((1 << count) < n) ++count;
  for (std::int64_t d = std::int64_t{1} << count >> 1; d > 0; d /= 2) {
    Tensor layer_matrix = torch::eye(n, type);
    auto m = layer_matrix.accessor<c10::complex<double>, 2>();
    for (std::int64_t a = 0; a + d < n; ++a) {
      if (a & d) continue;
      const double theta = w("theta")[angle].item<double>();
      const double phi = complex ? w("phi")[angle].item<double>() : 0;
      const auto turn = number(std::cos(phi), std::sin(phi));
      m[a][a] = number(std::cos(theta), 0);
      m[a][a + d] = -std::sin(theta) * turn;
      m[a + d][a] = number(std::sin(theta), 0);
      m[a + d][a + d] = std::cos(theta) * turn;
      ++angle;
    }
    Q = torch::matmul(layer_matrix, Q);
  }
  EXPECT_EQ(angle, w("theta").numel());
  if (!complex) return torch::real(Q);
  const Tensor omega = w("omega").detach();
  return torch::complex(omega.cos(), omega.sin()).unsqueeze(1) * Q;
}

struct ButterflyCase {
  Backend backend;
  bool complex;
};

class ButterflyMatrix : public testing::TestWithParam<ButterflyCase> {
 protected:
  EURNN layer(std::int64_t n, bool free = true) const {
    return make_eurnn(EURNNOptions(1, n).complex(GetParam().complex), GetParam().backend, free);
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, ButterflyMatrix,
                         testing::Values(ButterflyCase{Backend::reference, false},
                                         ButterflyCase{Backend::reference, true},
                                         ButterflyCase{Backend::fused, false},
                                         ButterflyCase{Backend::fused, true}),
                         [](const auto& info) {
                           return std::string(info.param.backend == Backend::fused ? "fused"
                                                                                   : "reference") +
                                  (info.param.complex ? "_complex" : "_real");
                         });

constexpr std::int64_t kSizes[] = {2, 3, 4, 6, 7, 8, 15, 16, 17, 32, 33, 64, 75};

TEST_P(ButterflyMatrix, IsTheProductOfItsRotationsAndUnitary) {
  for (const std::int64_t n : kSizes) {
    SCOPED_TRACE(n);
    EURNN eurnn = layer(n);
    const Tensor Q = dense(eurnn);
    EXPECT_LT(largest(Q - product_of_rotations(eurnn)), 1e-13);
    EXPECT_LT(largest(torch::matmul(Q, Q.conj().t()) - torch::eye(n, Q.scalar_type())), 1e-12);
    if (!GetParam().complex) {
      EXPECT_NEAR(torch::det(Q).item<double>(), 1, 1e-12);
    }
  }
}

TEST_P(ButterflyMatrix, IsTheIdentityWithoutAngles) {
  for (const std::int64_t n : kSizes) {
    EURNN eurnn = layer(n);
    for (const char* name : {"theta", "phi", "omega"}) {
      if (GetParam().complex || std::string(name) == "theta") set_zero(eurnn->weights(0)(name));
    }
    const Tensor Q = dense(eurnn);
    EXPECT_EQ(largest(Q - torch::eye(n, Q.scalar_type())), 0) << n;
  }
}

TEST_P(ButterflyMatrix, OfSizeTwoIsOneGivensRotation) {
  EURNN eurnn = layer(2);
  const Weights w = eurnn->weights(0);
  for (const char* name : {"phi", "omega"})
    if (GetParam().complex) set_zero(w(name));
  const double t = w("theta").item<double>();
  const Tensor givens =
      torch::tensor({{std::cos(t), -std::sin(t)}, {std::sin(t), std::cos(t)}}, torch::kDouble);
  EXPECT_LT(largest(dense(eurnn) - givens), 1e-15);
}

// h = modReLU(Q h' + U x) with a dense Q, step by step.
TEST_P(ButterflyMatrix, StepsAreProductsWithIt) {
  for (const std::int64_t n : {6, 33}) {
    SCOPED_TRACE(n);
    EURNN eurnn = layer(n, false);
    const torch::NoGradGuard no_grad;
    const Tensor Q = product_of_rotations(eurnn).to(torch::kComplexDouble);
    const Weights w = eurnn->weights(0);
    Problem problem(*eurnn, {5, 3}, Through::output, 3);
    const auto complex = [&](const Tensor& t) {  // [.., n] or [.., 2n] -> complex
      if (!GetParam().complex) return t.to(torch::kComplexDouble);
      const auto parts = t.chunk(2, -1);
      return torch::complex(parts[0].contiguous(), parts[1].contiguous());
    };
    Tensor h = complex(problem.state.parts[0][0]);
    const Tensor output = std::get<0>(eurnn->forward(problem.x, problem.state));
    for (std::int64_t t = 0; t < 5; ++t) {
      const Tensor z =
          torch::matmul(h, Q.t()) + complex(torch::matmul(problem.x[t], w("weight_ih").t()));
      const Tensor N = z.abs() + 0.01;
      h = z * ((N + w("bias")).clamp_min(0) / N);
      EXPECT_LT(largest(output[t] - torch::real(h)), 1e-13) << "step " << t;
    }
  }
}

// Without input and bias the smooth modReLU is the identity, and everything keeps its length for
// ever: the state on the way there, the gradient on the way back. (torch operations take their
// time: the reference has a small Q, and a shorter way back.)
TEST_P(ButterflyMatrix, LengthsLastForTenThousandSteps) {
  const bool fused = GetParam().backend == Backend::fused;
  const std::int64_t steps = 10000, steps_back = fused ? steps : 1000, batch = 2;
  const auto ratio = [](const Tensor& a, const Tensor& b) {
    return (a.norm(2, {2}) / b.norm(2, {2}) - 1).abs().max().item<double>();
  };
  for (const auto type : {torch::kDouble, torch::kFloat}) {
    SCOPED_TRACE(type);
    const double bound = type == torch::kDouble ? 1e-9 : 1e-3;
    EURNN eurnn = layer(fused ? 33 : 3);
    eurnn->to(type);
    const std::int64_t width = eurnn->initial_state(1).h().size(2);
    const Tensor h0 = normal_values({1, batch, width}, 5, 1, type).requires_grad_();
    const Tensor weights = normal_values({1, batch, width}, 6, 1, type);
    const auto last_after = [&](std::int64_t n) {
      return std::get<1>(eurnn->forward(torch::zeros({n, batch, 1}, type), {{h0}})).h();
    };
    const Tensor g =
        torch::autograd::grad({(last_after(steps_back) * weights).sum()}, {h0}).front();
    EXPECT_LT(ratio(g, weights), bound);
    const torch::NoGradGuard no_grad;
    const Tensor last = last_after(steps);
    EXPECT_LT(ratio(last, h0), bound);
    EXPECT_GT(largest(last - h0), 0.1) << "nothing has turned";
  }
}

// psMNIST starts with black pixels: z = 0 exactly. The gradient must be finite there.
TEST_P(ButterflyMatrix, ZeroInputsHaveFiniteGradients) {
  for (const ModReLU form : {ModReLU::smooth, ModReLU::sign}) {
    if (GetParam().complex && form == ModReLU::sign) continue;
    EURNN eurnn = make_eurnn(EURNNOptions(1, 6).complex(GetParam().complex).modrelu(form),
                             GetParam().backend, false);
    const Tensor output = std::get<0>(eurnn->forward(torch::zeros({4, 2, 1}, torch::kDouble)));
    EXPECT_EQ(largest(output), 0);
    output.sum().backward();
    for (const auto& p : eurnn->named_parameters())
      EXPECT_EQ(largest(p.value().grad()), 0) << p.key();
  }
}

class ButterflyCells : public testing::TestWithParam<Backend> {};
INSTANTIATE_TEST_SUITE_P(Backends, ButterflyCells,
                         testing::Values(Backend::reference, Backend::fused), [](const auto& info) {
                           return info.param == Backend::fused ? "fused" : "reference";
                         });

TEST_P(ButterflyCells, ComplexWithoutPhasesIsReal) {
  for (const std::int64_t n : {6, 33}) {
    EURNN real = make_eurnn(EURNNOptions(3, n), GetParam(), false);
    EURNN complex = make_eurnn(EURNNOptions(3, n).complex(true), GetParam(), false);
    const Weights r = real->weights(0), c = complex->weights(0);
    for (const char* name : {"theta", "bias"}) assign_to(c(name), r(name));
    for (const char* name : {"phi", "omega"}) set_zero(c(name));
    assign_to(c("weight_ih").narrow(0, 0, n), r("weight_ih"));
    set_zero(c("weight_ih").narrow(0, n, n));
    Problem problem(*real, {6, 4}, Through::output, 3);
    State state;
    state.parts = {torch::cat({problem.state.h(), torch::zeros_like(problem.state.h())}, 2)};
    const Tensor expected = std::get<0>(real->forward(problem.x, problem.state));
    const auto [output, last] = complex->forward(problem.x, state);
    EXPECT_LT(largest(output - expected), 1e-14);
    EXPECT_EQ(largest(last.h().narrow(2, n, n)), 0);
  }
}

// b = 0: the sign form adds eps to the magnitude of everything but zero.
TEST_P(ButterflyCells, SignFormAddsEpsilon) {
  EURNN eurnn =
      make_eurnn(EURNNOptions(1, 2).modrelu(ModReLU::sign).epsilon(0.25), GetParam(), true);
  set_zero(eurnn->weights(0)("theta"));
  State state;
  state.parts = {torch::tensor({{{-1.5, 0.0}}}, torch::kDouble)};
  const Tensor x = torch::zeros({3, 1, 1}, torch::kDouble);
  const Tensor h = std::get<1>(eurnn->forward(x, state)).h();
  EXPECT_EQ(h[0][0][0].item<double>(), -2.25);
  EXPECT_EQ(h[0][0][1].item<double>(), 0);
}

// A bias above zero: the slope of the sign form is still one, and the gradient keeps its length;
// that of the smooth form is more than one near zero, and the gradient grows.
TEST_P(ButterflyCells, ABiasLeavesGradientsOfTheSignFormAlone) {
  const auto growth = [&](ModReLU form, double epsilon) {
    EURNN eurnn = make_eurnn(EURNNOptions(1, 16).modrelu(form).epsilon(epsilon), GetParam(), true);
    assign_to(eurnn->weights(0)("bias"), torch::full({16}, 0.05, torch::kDouble));
    const Tensor h0 = normal_values({1, 2, 16}, 5, 0.1, torch::kDouble).requires_grad_();
    const Tensor weights = normal_values({1, 2, 16}, 6, 1, torch::kDouble);
    const Tensor x = torch::zeros({300, 2, 1}, torch::kDouble);
    const Tensor last = std::get<1>(eurnn->forward(x, {{h0}})).h();
    const Tensor g = torch::autograd::grad({(last * weights).sum()}, {h0}).front();
    return (g.norm() / weights.norm()).item<double>();
  };
  EXPECT_NEAR(growth(ModReLU::sign, 0), 1, 1e-10);
  EXPECT_NEAR(growth(ModReLU::sign, 0.01), 1, 1e-10);
  EXPECT_GT(growth(ModReLU::smooth, 0.01), 1.5);
}

GORU make_goru(std::int64_t n, Backend backend, double reset, double keep) {
  GORU layer(GORUOptions(3, n).backend(backend));
  layer->to(torch::kDouble);
  set_weights(*layer, 3);
  const torch::NoGradGuard no_grad;
  layer->weights(0)("bias_ih").narrow(0, 0, n).fill_(reset);
  layer->weights(0)("bias_ih").narrow(0, n, n).fill_(keep);
  return layer;
}

TEST_P(ButterflyCells, GoruWithOpenGatesIsTheEurnn) {
  for (const std::int64_t n : {6, 33}) {
    GORU goru = make_goru(n, GetParam(), 1e3, -1e3);
    EURNN eurnn = make_eurnn(EURNNOptions(3, n).epsilon(0.001), GetParam(), false);
    const Weights g = goru->weights(0), e = eurnn->weights(0);
    assign_to(e("theta"), g("theta"));
    assign_to(e("weight_ih"), g("weight_candidate"));
    assign_to(e("bias"), g("bias_candidate"));
    Problem problem(*goru, {6, 4}, Through::both, 3);
    const Results expected = run(*eurnn, problem), got = run(*goru, problem);
    expect_close(got.values, expected.values, 1e-13);
    for (std::size_t i = 0; i < 2; ++i) {  // x and the initial state
      expect_close(got.gradients[i].value, expected.gradients[i].value, 1e-12,
                   got.gradients[i].name);
    }
  }
}

TEST_P(ButterflyCells, GoruWithAClosedGateHoldsItsState) {
  GORU goru = make_goru(17, GetParam(), 0.5, 1e3);
  Problem problem(*goru, {200, 3}, Through::both, 3);
  const auto [output, last] = goru->forward(problem.x, problem.state);
  EXPECT_TRUE(torch::equal(last.h(), problem.state.h()));
  EXPECT_TRUE(torch::equal(output[199], problem.state.h()[0]));
}

// Beyond the blocks that the kernels keep in cache.
TEST(ButterflyKernels, LargeOnesEqualTheReference) {
  const Case cases[] = {make_case<EURNNImpl>("eurnn", EURNNOptions(1, 1100)),
                        make_case<EURNNImpl>("eurnn, strict", EURNNOptions(1, 1024)),
                        make_case<EURNNImpl>("eurnn, complex", EURNNOptions(3, 600).complex(true)),
                        make_case<GORUImpl>("goru", GORUOptions(3, 600))};
  for (const Case& c : cases) {
    for (const std::int64_t batch : {1, 2, 3, 11}) {  // rows are done up to four at a time
      SCOPED_TRACE(testing::Message() << c.name << ", batch " << batch);
      const auto fused = c.make(Backend::fused), reference = c.make(Backend::reference);
      for (const auto& layer : {fused, reference}) {
        layer->to(torch::kDouble);
        set_weights(*layer, 3);
      }
      Problem problem(*fused, {3, batch}, Through::both, 5);
      const Results expected = run(*reference, problem), got = run(*fused, problem);
      expect_close(got.values, expected.values, 1e-12);
      expect_close(got.gradients, expected.gradients, 1e-10);
    }
  }
}

template <class F>
std::string message(const F& make) {
  try {
    make();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(ButterflyOptions, ImpossibleOnesAreRefused) {
  EXPECT_THAT(message([] { EURNN(EURNNOptions(3, 589).strict_fft(true)); }),
              testing::AllOf(HasSubstr("589"), HasSubstr("512"), HasSubstr("1024")));
  EXPECT_THAT(message([] { GORU(GORUOptions(3, 98).strict_fft(true)); }),
              testing::AllOf(HasSubstr("98"), HasSubstr("64"), HasSubstr("128")));
  EXPECT_NO_THROW(EURNN(EURNNOptions(3, 64).strict_fft(true)));
  EXPECT_THAT(message([] { EURNN(EURNNOptions(3, 1)); }), HasSubstr("at least 2"));
  EXPECT_THAT(message([] { GORU(GORUOptions(3, 1)); }), HasSubstr("at least 2"));
  EXPECT_THAT(message([] { EURNN(EURNNOptions(3, 4).epsilon(0)); }), HasSubstr("epsilon"));
  EXPECT_THAT(message([] { GORU(GORUOptions(3, 4).modrelu(ModReLU::sign).epsilon(-1)); }),
              HasSubstr("epsilon"));
  EXPECT_THAT(message([] { EURNN(EURNNOptions(3, 4).complex(true).modrelu(ModReLU::sign)); }),
              HasSubstr("modrelu"));
}

TEST(ButterflyInitialisation, FollowsTheAuthors) {
  constexpr double pi = std::numbers::pi;
  EURNN eurnn(EURNNOptions(10, 589).complex(true));
  const Weights e = drawn(*eurnn);
  for (const char* angle : {"theta", "phi", "omega"}) expect_uniform(e(angle), pi, angle);
  expect_uniform(e("weight_ih"), 0.01, "U");
  EXPECT_EQ(largest(e("bias")), 0);

  GORU goru(GORUOptions(10, 98));
  const Weights g = drawn(*goru);
  expect_uniform(g("theta"), pi, "theta");
  for (const char* name : {"weight_candidate", "weight_ih", "weight_hh"})
    expect_uniform(g(name), 0.01, name);
  EXPECT_EQ(largest(g("bias_ih").narrow(0, 0, 98) - 2), 0);
  expect_uniform(g("bias_ih").narrow(0, 98, 98), std::sqrt(3.0 / 98), "b_g");
  EXPECT_EQ(largest(g("bias_candidate") - 0.01), 0);
  GORU zero(GORUOptions(10, 98).zero_gate_bias(true));
  EXPECT_EQ(largest(zero->weights(0)("bias_ih").narrow(0, 98, 98)), 0);
}

TEST(ButterflyInitialisation, TheOutputLayerIsTheAuthors) {
  for (const char* cell : {"eurnn", "goru"}) {
    SCOPED_TRACE(cell);
    const CellInfo& info = find_cell(cell);
    EXPECT_FALSE(info.clip);
    const auto model = [&](OptionMap given) {
      given["hidden_size"] = std::int64_t{256};
      return Model(ModelSettings{cell, resolve_options(info.options, given, cell), 10, 9, 1});
    };
    const Model authors = model({});
    expect_uniform(authors->output_weight().detach(), std::sqrt(6.0 / 19), "V");
    EXPECT_EQ(largest(authors->output_bias() - 0.01f), 0);
    const Model xavier = model({{"output_init", std::string("xavier")}});
    expect_normal(xavier->output_weight().detach(), 2.0 / (256 + 9), "V");
    EXPECT_EQ(largest(xavier->output_bias()), 0);
  }
}

}  // namespace
}  // namespace nru
