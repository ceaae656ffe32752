// JANET: its limits, and how its weights are drawn.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nru/cells/janet.h>
#include <nru/error.h>

#include <cmath>

#include "parameters.h"
#include "runs.h"

namespace nru {
namespace {

using testing::HasSubstr;
using torch::Tensor;

constexpr Backend kBackends[] = {Backend::fused, Backend::reference};

JANET made_with(Backend backend, double beta) {
  JANET made(JANETOptions(3, 5).beta(beta).backend(backend));
  made->to(torch::kDouble);
  set_weights(*made, 4);
  return made;
}

void fill_forget_bias(const JANET& janet, double value) {
  const torch::NoGradGuard no_grad;
  janet->weights(0)("bias_ih").narrow(0, 0, 5).fill_(value);
}

TEST(Janet, AnOpenForgetGateHoldsTheState) {
  for (const Backend backend : kBackends) {
    for (const double beta : {0.0, 1.0}) {
      JANET made = made_with(backend, beta);
      fill_forget_bias(made, 1e3);  // f = 1
      Problem p(*made, {100, 3}, Through::both, 9);
      EXPECT_TRUE(torch::equal(std::get<1>(made->forward(p.x, p.state)).h(), p.state.h()));
    }
  }
}

TEST(Janet, AClosedForgetGateLeavesATanhNetwork) {
  for (const Backend backend : kBackends) {
    for (const double beta : {0.0, 1.0}) {
      JANET made = made_with(backend, beta);
      fill_forget_bias(made, -1e3);  // f = 0, and so is s(a - beta)
      const torch::NoGradGuard no_grad;
      Problem p(*made, {4, 3}, Through::both, 9);
      const Weights w = made->weights(0);
      Tensor h = p.state.h()[0];
      for (int t = 0; t < 4; ++t) {
        h = (torch::linear(p.x[t], w("weight_ih").narrow(0, 5, 5), w("bias_ih").narrow(0, 5, 5)) +
             torch::linear(h, w("weight_hh").narrow(0, 5, 5)))
                .tanh();
      }
      expect_close(std::get<1>(made->forward(p.x, p.state)).h()[0], h, 1e-13, "h");
    }
  }
}

// The kernels work out s(a - beta) from f, the reference from a.
TEST(Janet, AnyShiftIsRightAtAnyGate) {
  for (const double beta : {-30.0, -2.0, 0.5, 1.0, 30.0}) {
    for (const double bias : {-40.0, -5.0, 0.0, 5.0, 30.0}) {
      JANET fused = made_with(Backend::fused, beta),
            reference = made_with(Backend::reference, beta);
      fill_forget_bias(fused, bias);
      fill_forget_bias(reference, bias);
      Problem p(*fused, {3, 2}, Through::both, 9);
      const Tensor got = std::get<0>(fused->forward(p.x, p.state));
      const Tensor want = std::get<0>(reference->forward(p.x, p.state));
      // 1-f has no more digits than double's 1 leaves it, and e^beta brings them to light.
      const double lost = bias > 0 ? 1e-16 * std::exp(std::max(beta, 0.0)) : 0;
      EXPECT_LE(largest(got - want), 1e-12 + lost) << "beta " << beta << ", bias " << bias;
    }
  }
}

TEST(Janet, ShiftsBeyondReasonAreRefused) {
  for (const double wrong : {31.0, -1e3, std::nan("")}) {
    try {
      JANET made(JANETOptions(3, 5).beta(wrong));
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::AllOf(HasSubstr("beta"), HasSubstr("30")));
    }
  }
  EXPECT_THROW(JANET(JANETOptions(3, 5).chrono_t_max(1)), Error);
}

// ---- parameters ----

TEST(JanetParameters, HaveTheDocumentedNamesAndShapes) {
  JANET made(JANETOptions(3, 5).num_layers(2));
  EXPECT_EQ(parameter_shapes(*made), (Shapes{{"weight_ih_l0", {10, 3}},
                                             {"weight_hh_l0", {10, 5}},
                                             {"bias_ih_l0", {10}},
                                             {"weight_ih_l1", {10, 5}},
                                             {"weight_hh_l1", {10, 5}},
                                             {"bias_ih_l1", {10}}}));
  EXPECT_EQ(made->state_names(), (std::vector<std::string>{"h"}));
}

TEST(JanetParameters, AreDrawnAsTheAuthorsDo) {
  const std::int64_t I = 40, H = 120;
  JANET made(I, H);
  const Weights w = drawn(*made);
  expect_gates_drawn(w, 2);
  EXPECT_EQ(largest(w("bias_ih").narrow(0, 0, H) - 1), 0);
  EXPECT_EQ(largest(w("bias_ih").narrow(0, H, H)), 0);
  JANET biased(JANETOptions(I, H).forget_bias(2.5));
  EXPECT_EQ(biased->weights(0)("bias_ih")[0].item<float>(), 2.5f);
}

TEST(JanetParameters, ChronoBiasesAreLogarithms) {
  const std::int64_t H = 400, T = 7;
  using Form = JANETOptions::ChronoForm;
  for (const Form form : {Form::integer, Form::paper}) {
    JANET made(JANETOptions(2, H).chrono_t_max(T).chrono_form(form));
    made->to(torch::kDouble);
    made->reset_parameters(3);
    const torch::NoGradGuard no_grad;
    const Tensor b = made->weights(0)("bias_ih"), u = b.narrow(0, 0, H).exp();
    const double top = form == Form::integer ? T : T - 1;
    EXPECT_NEAR(u.min().item<double>(), 1, form == Form::integer ? 1e-12 : 0.1);
    EXPECT_NEAR(u.max().item<double>(), top, form == Form::integer ? 1e-12 : 0.1);
    EXPECT_NEAR(u.mean().item<double>(), (1 + top) / 2, 0.5);
    EXPECT_EQ(largest(u - u.round()) < 1e-12, form == Form::integer);
    EXPECT_EQ(largest(b.narrow(0, H, H)), 0);
  }
}

}  // namespace
}  // namespace nru
