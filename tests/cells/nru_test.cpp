// What the NRU's equations promise, checked from outside: what a write can and cannot do to the
// memory, and how the weights are drawn.
#include <gtest/gtest.h>
#include <nru/cells/nru.h>

#include <cmath>

#include "parameters.h"
#include "runs.h"

namespace nru {
namespace {

using torch::Tensor;
using Direction = NRUOptions::Direction;

class NruWrite : public testing::TestWithParam<Backend> {
 protected:
  // Random weights; alpha and beta are constants, given per head.
  NRU layer(NRUOptions options, const std::vector<double>& alpha,
            const std::vector<double>& beta) const {
    NRU made(options.backend(GetParam()));
    made->to(torch::kDouble);
    set_weights(*made, 21);
    const torch::NoGradGuard no_grad;
    const Weights w = made->weights(0);
    const std::int64_t k = options.heads();
    w("head_weight").narrow(0, 0, 2 * k).zero_();
    w("head_bias").narrow(0, 0, k).copy_(torch::tensor(alpha, torch::kDouble));
    w("head_bias").narrow(0, k, k).copy_(torch::tensor(beta, torch::kDouble));
    return made;
  }

  // m_t - m_{t-1} of every step, [T,B,M].
  static Tensor changes(NRU& made, std::int64_t steps = 4, std::uint64_t seed = 31) {
    const Problem p(*made, {steps, 3}, Through::both, seed);
    const Tensor m = made->states(p.x, p.state)[1];
    return torch::diff(torch::cat({p.state.m().detach(), m}), 1, 0);
  }

  static Tensor norm5(const Tensor& v) { return v.abs().pow(5).sum(-1).pow(0.2); }
};

INSTANTIATE_TEST_SUITE_P(Backends, NruWrite, testing::Values(Backend::fused, Backend::reference),
                         [](const auto& info) {
                           return info.param == Backend::fused ? "fused" : "reference";
                         });

// heads and memory: factored with R = 1, 2, 4, 8 and 5, and straddling rows.
const std::vector<std::pair<std::int64_t, std::int64_t>> kSizes = {
    {4, 4}, {2, 8}, {4, 64}, {1, 64}, {3, 75}, {9, 4}, {8, 18}};

TEST_P(NruWrite, NothingIsWrittenWithAlphaAndBetaZero) {
  for (const auto& [k, m] : kSizes) {
    const std::vector<double> none(k, 0.0);
    NRU made = layer(NRUOptions(3, 5).heads(k).memory_size(m), none, none);
    Problem p(*made, {50, 3}, Through::both, 3);
    const auto [output, last] = made->forward(p.x, p.state);
    EXPECT_TRUE(torch::equal(last.m(), p.state.m())) << "k = " << k << ", m = " << m;
    // The memory's gradient comes back whole: nothing on the way can make it vanish.
    const auto g = torch::autograd::grad({last.m().sum()}, {p.state.parts[1]})[0];
    EXPECT_TRUE(torch::equal(g, torch::ones_like(g)));
  }
}

TEST_P(NruWrite, EachHeadWritesAUnitVector) {
  for (const Direction direction : {Direction::shared, Direction::per_head, Direction::full}) {
    for (const auto& [k, m] : kSizes) {
      if (direction == Direction::per_head && m != 4 && m != 64) continue;  // m must be a square
      for (std::int64_t head = 0; head < k; ++head) {
        std::vector<double> alpha(k, 0.0), beta(k, 0.0);
        alpha[head] = 1;
        const NRUOptions o = NRUOptions(3, 5).heads(k).memory_size(m).direction(direction);
        NRU writes = layer(o, alpha, beta);
        const Tensor v = changes(writes) * static_cast<double>(k);
        EXPECT_LE(largest(norm5(v) - 1), 1e-12) << "k = " << k << ", m = " << m;
        NRU erases = layer(o, beta, alpha);
        EXPECT_LE(largest(norm5(changes(erases) * static_cast<double>(k)) - 1), 1e-12);
      }
    }
  }
}

TEST_P(NruWrite, StrengthsAreCutOffAtTheLimit) {
  for (const auto& [k, m] : kSizes) {
    const NRUOptions o = NRUOptions(3, 5).heads(k).memory_size(m);
    std::vector<double> alpha(k, 0.25), beta(k, -7.0), cut_alpha = alpha, cut_beta(k, -0.5);
    alpha[0] = 3;
    cut_alpha[0] = 0.5;
    NRU limited = layer(NRUOptions(o).write_limit(0.5), alpha, beta);
    NRU cut = layer(o, cut_alpha, cut_beta);
    EXPECT_TRUE(torch::equal(changes(limited), changes(cut))) << "k = " << k << ", m = " << m;

    Problem p(*limited, {4, 3}, Through::both, 3);
    const Tensor bias = limited->weights(0)("head_bias");
    const Tensor g = torch::autograd::grad({p.loss(*limited)}, {bias})[0];
    for (std::int64_t i = 0; i < 2 * k; ++i)
      EXPECT_EQ(g[i].item<double>() == 0, i == 0 || i >= k) << "strength " << i;
  }
}

// Whatever the weights and the state, a step changes no entry of the memory by more than the limit
// times both sides' directions, which are of L5 norm one.
TEST_P(NruWrite, IsBoundedByItsLimit) {
  const NRUOptions o = NRUOptions(3, 5).memory_size(16).heads(4).backend(GetParam());
  NRU limited(NRUOptions(o).write_limit(0.25)), unlimited(o);
  for (NRU* made : {&limited, &unlimited}) {
    (*made)->to(torch::kDouble);
    set_weights(**made, 5, /*gain=*/20);
  }
  EXPECT_LE(largest(changes(limited, 50)), 2 * 0.25);
  EXPECT_GT(largest(changes(limited, 50)), 0.1);
  EXPECT_GT(largest(changes(unlimited, 50)), 1e6);
}

TEST_P(NruWrite, SumAndMeanAgreeForOneHead) {
  for (const Direction direction : {Direction::shared, Direction::full}) {
    const NRUOptions o = NRUOptions(3, 5).heads(1).memory_size(9).direction(direction);
    NRU mean = layer(o, {0.7}, {-0.4});
    NRU sum = layer(NRUOptions(o).combine(NRUOptions::Combine::sum), {0.7}, {-0.4});
    EXPECT_TRUE(torch::equal(changes(mean), changes(sum)));
  }
}

TEST_P(NruWrite, SumIsKTimesTheMean) {
  for (const auto& [k, m] : kSizes) {
    const std::vector<double> alpha(k, 0.7), beta(k, -0.4);
    const NRUOptions o = NRUOptions(3, 5).heads(k).memory_size(m);
    NRU mean = layer(o, alpha, beta);
    NRU sum = layer(NRUOptions(o).combine(NRUOptions::Combine::sum), alpha, beta);
    expect_close(changes(sum, 1), static_cast<double>(k) * changes(mean, 1), 1e-13, "one step");
  }
}

// With k heads that are all the same the mean is what one head writes. (Not with the shared
// direction: there heads are different slices of one product.)
TEST_P(NruWrite, TheMeanOfEqualHeadsIsOneHead) {
  const std::int64_t k = 3, m = 9;
  for (const Direction direction : {Direction::per_head, Direction::full}) {
    const NRUOptions o = NRUOptions(3, 5).memory_size(m).direction(direction);
    NRU one = layer(NRUOptions(o).heads(1), {0.7}, {-0.4});
    NRU many =
        layer(NRUOptions(o).heads(k), std::vector<double>(k, 0.7), std::vector<double>(k, -0.4));
    const torch::NoGradGuard no_grad;
    const Weights from = one->weights(0), to = many->weights(0);
    for (const char* name : {"weight", "bias"}) to(name).copy_(from(name));
    for (const char* name : {"head_weight", "head_bias"}) {
      // Rows after alpha and beta: p of all heads, q of all heads (per_head), or V (full), twice.
      const Tensor rows = from(name).slice(0, 2);
      const std::int64_t blocks = direction == Direction::per_head ? 4 : 2;
      std::vector<Tensor> repeated;
      for (const Tensor& block : rows.chunk(blocks, 0))
        for (std::int64_t i = 0; i < k; ++i) repeated.push_back(block);
      to(name).slice(0, 2 * k).copy_(torch::cat(repeated));
    }
    expect_close(changes(many), changes(one), 1e-12, "change of the memory");
  }
}

// m = m' times what the same heads would have added.
TEST_P(NruWrite, MultiplyingTakesTheSumAsAFactor) {
  constexpr auto multiply = NRUOptions::MemoryUpdate::multiply;
  for (const auto& [k, m] : kSizes) {
    SCOPED_TRACE(testing::Message() << "k = " << k << ", m = " << m);
    const std::vector<double> alpha(k, 0.7), beta(k, -0.4);
    const NRUOptions o = NRUOptions(3, 5).heads(k).memory_size(m);
    NRU adds = layer(o, alpha, beta);
    NRU multiplies = layer(NRUOptions(o).memory_update(multiply), alpha, beta);
    const Problem p(*adds, {1, 3}, Through::both, 3);
    const Tensor m_prev = p.state.m(), added = adds->states(p.x, p.state)[1] - m_prev;
    expect_close(multiplies->states(p.x, p.state)[1], m_prev * added, 1e-12, "m");
  }
}

// With weights of zero the factor is the same at every step, so the memory is its t-th power. The
// published code starts at zero, where it would stay.
TEST_P(NruWrite, AMultipliedMemoryStartsAtOne) {
  const std::int64_t k = 2, m = 8, steps = 6;
  NRU made = layer(
      NRUOptions(3, 5).heads(k).memory_size(m).memory_update(NRUOptions::MemoryUpdate::multiply),
      {1.7, 0.9}, {-0.4, 1.2});
  {
    const torch::NoGradGuard no_grad;
    made->weights(0)("head_weight").zero_();
  }
  const Tensor x = normal_values({steps, 1, 3}, 5);
  EXPECT_EQ(largest(made->initial_state(1).m() - 1), 0);
  const Tensor states = made->states(x)[1];  // [T,1,M]
  for (std::int64_t t = 0; t < steps; ++t)
    expect_close(states[t], states[0].pow(static_cast<double>(t + 1)), 1e-12, "m");
  State zero = made->initial_state(1);
  zero.parts[1].zero_();
  EXPECT_EQ(largest(made->states(x, zero)[1]), 0);
}

TEST_P(NruWrite, SwappingWriteAndEraseTurnsTheChangeRound) {
  for (const auto& [k, m] : kSizes) {
    NRU made(NRUOptions(3, 5).heads(k).memory_size(m).backend(GetParam()));
    made->to(torch::kDouble);
    set_weights(*made, 21);
    const Tensor before = changes(made, 1);
    const torch::NoGradGuard no_grad;
    for (const char* name : {"head_weight", "head_bias"}) {
      const Tensor rows = made->weights(0)(name);
      const std::int64_t side = (rows.size(0) - 2 * k) / 2;
      const auto part = rows.clone().split_with_sizes({k, k, side, side}, 0);
      rows.copy_(torch::cat({part[1], part[0], part[3], part[2]}));
    }
    expect_close(changes(made, 1), -before, 1e-12, "change of the memory");
    EXPECT_GT(largest(before), 1e-3);
  }
}

TEST_P(NruWrite, ReluHeadsAddWhatIsNotNegative) {
  for (const auto& [k, m] : kSizes) {
    const auto o =
        NRUOptions(3, 5).heads(k).memory_size(m).head_activation(NRUOptions::HeadActivation::relu);
    const std::vector<double> none(k, 0.0), one(k, 1.0), negative(k, -1.0);
    NRU writes = layer(o, one, none), erases = layer(o, none, one);
    NRU closed = layer(o, negative, negative);
    const Tensor written = changes(writes), erased = changes(erases);
    EXPECT_GE(written.min().item<double>(), -1e-15);
    EXPECT_LE(erased.max().item<double>(), 1e-15);
    EXPECT_GT(largest(written), 0.01);
    EXPECT_GT(largest(erased), 0.01);
    EXPECT_EQ(largest(changes(closed)), 0) << "ReLU shuts a negative alpha";
  }
}

// The direction alone counts: p and q may be as long or short as they like.
TEST_P(NruWrite, TheLengthOfPAndQDoesNotMatter) {
  for (const auto& [k, m] : kSizes) {
    const std::vector<double> alpha(k, 0.7), beta(k, -0.4);
    const NRUOptions o = NRUOptions(3, 5).heads(k).memory_size(m);
    NRU made = layer(o, alpha, beta);
    const Tensor expected = changes(made, 1);
    for (const double factor : {1e-3, 1e3, 1e9, 1e100}) {
      NRU scaled = layer(o, alpha, beta);
      {
        const torch::NoGradGuard no_grad;
        for (const char* name : {"head_weight", "head_bias"})
          scaled->weights(0)(name).slice(0, 2 * k).mul_(factor);
      }
      expect_close(changes(scaled, 1), expected, 1e-12, "change of the memory");
    }
  }
}

// The published float32 code lets a head whose fifth powers overflow write nothing.
TEST_P(NruWrite, AuthorsOverflowWritesNothing) {
  for (const auto& [k, m] : kSizes) {
    const std::vector<double> alpha(k, 0.7), beta(k, 0.0);
    const NRUOptions o =
        NRUOptions(3, 5).heads(k).memory_size(m).overflow(NRUOptions::Overflow::authors);
    NRU made = layer(o, alpha, beta);
    EXPECT_GT(largest(changes(made)), 0.01);
    const torch::NoGradGuard no_grad;
    for (const char* name : {"head_weight", "head_bias"})
      made->weights(0)(name).slice(0, 2 * k).mul_(1e9);
    EXPECT_EQ(largest(changes(made)), 0) << "k = " << k << ", m = " << m;
  }
}

TEST_P(NruWrite, AZeroDirectionWritesNothingAndHasFiniteGradients) {
  for (const auto& [k, m] : kSizes) {
    NRU made = layer(NRUOptions(3, 5).heads(k).memory_size(m), std::vector<double>(k, 0.7),
                     std::vector<double>(k, 0.3));
    {
      const torch::NoGradGuard no_grad;
      for (const char* name : {"head_weight", "head_bias"})
        made->weights(0)(name).slice(0, 2 * k).zero_();
    }
    EXPECT_EQ(largest(changes(made)), 0);
    Problem p(*made, {3, 2}, Through::both, 3);
    for (const Named& g : run(*made, p).gradients)
      EXPECT_TRUE(torch::isfinite(g.value).all().item<bool>()) << g.name;
  }
}

// ---- parameters ----

TEST(NruParameters, AreDrawnUniformlyByFanIn) {
  const std::int64_t I = 7, H = 300, M = 400, k = 4;
  for (const bool sees : {false, true}) {
    NRU made(NRUOptions(I, H).memory_size(M).heads(k).layer_norm(true).heads_see_input(sees));
    const Weights w = drawn(*made);
    const double fan = static_cast<double>(I + H + M),
                 head_fan = static_cast<double>((sees ? I : 0) + H + M);
    expect_uniform(w("weight"), 1 / std::sqrt(fan), "weight");
    expect_uniform(w("bias"), 1 / std::sqrt(fan), "bias");
    expect_uniform(w("head_weight"), 1 / std::sqrt(head_fan), "head_weight");
    expect_uniform(w("head_bias"), 1 / std::sqrt(head_fan), "head_bias");
    EXPECT_TRUE(torch::equal(w("norm_weight"), torch::ones({H}, torch::kDouble)));
    EXPECT_TRUE(torch::equal(w("norm_bias"), torch::zeros({H}, torch::kDouble)));
  }
}

TEST(NruParameters, OfAlphaAndBetaAreScaled) {
  const NRUOptions o = NRUOptions(3, 5).memory_size(16).heads(4);
  NRU one(o), half(NRUOptions(o).write_scale(0.5));
  const Weights as_published = drawn(*one), scaled = drawn(*half);
  EXPECT_TRUE(torch::equal(scaled("weight"), as_published("weight")));
  for (const char* name : {"head_weight", "head_bias"}) {
    const Tensor all = as_published(name), now = scaled(name);
    EXPECT_TRUE(torch::equal(now.slice(0, 0, 8), 0.5 * all.slice(0, 0, 8))) << name;
    EXPECT_TRUE(torch::equal(now.slice(0, 8), all.slice(0, 8))) << name;
  }
}

TEST(NruParameters, HaveTheDocumentedNamesAndShapes) {
  const auto shapes = [](const NRUOptions& o) { return parameter_shapes(*NRU(o)); };
  const NRUOptions o = NRUOptions(3, 5).memory_size(16).heads(4);  // r = 8: 2k + 4r = 40 head rows
  EXPECT_EQ(shapes(NRUOptions(o).num_layers(2)), (Shapes{{"weight_l0", {5, 24}},
                                                         {"bias_l0", {5}},
                                                         {"head_weight_l0", {40, 21}},
                                                         {"head_bias_l0", {40}},
                                                         {"weight_l1", {5, 26}},
                                                         {"bias_l1", {5}},
                                                         {"head_weight_l1", {40, 21}},
                                                         {"head_bias_l1", {40}}}));
  EXPECT_EQ(shapes(NRUOptions(o).heads_see_input(true).layer_norm(true)),
            (Shapes{{"weight_l0", {5, 24}},
                    {"bias_l0", {5}},
                    {"norm_weight_l0", {5}},
                    {"norm_bias_l0", {5}},
                    {"head_weight_l0", {40, 24}},
                    {"head_bias_l0", {40}}}));
  // per_head: 2k + 4 k sqrt(M); full: 2k + 2 k M
  EXPECT_EQ(shapes(NRUOptions(o).direction(Direction::per_head))[3].second[0], 8 + 64);
  EXPECT_EQ(shapes(NRUOptions(o).direction(Direction::full))[3].second[0], 8 + 128);
  EXPECT_EQ(NRU(o)->state_names(), (std::vector<std::string>{"h", "m"}));
}

}  // namespace
}  // namespace nru
