// Adam, AMSGrad, the gradient's norm and clipping against plain float64 versions of their formulas.
#include "kernels/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "random_values.h"

namespace nru::kernels {
namespace {

// Around the lengths of a vector and of a block (16384).
const std::vector<int> kCounts = {0, 1, 3, 15, 16, 17, 33, 143, 16383, 16384, 16385, 50001};

double naive_squared_norm(const std::vector<float>& x) {
  double sum = 0;
  for (float v : x) sum += double(v) * double(v);
  return sum;
}

TEST(SquaredNorm, MatchesAPlainSum) {
  for (int count : kCounts) {
    const auto x = random_values<float>(count, 1);
    const double want = naive_squared_norm(x);
    EXPECT_NEAR(squared_norm(x.data(), count, 1), want, 1e-13 * want) << count;
  }
}

TEST(SquaredNorm, HasTheSameBitsOnAnyNumberOfThreads) {
  for (int count : kCounts) {
    const auto x = random_values<float>(count, 2);
    const double one = squared_norm(x.data(), count, 1);
    EXPECT_EQ(one, squared_norm(x.data(), count, 2)) << count;
    EXPECT_EQ(one, squared_norm(x.data(), count, 5)) << count;
  }
}

TEST(SquaredNorm, SquaresBeyondFloatStayFinite) {
  std::vector<float> x(1000, 3e38f);
  const double got = squared_norm(x.data(), 1000, 1), each = 3e38f;
  EXPECT_NEAR(got, 1000 * each * each, 1e-12 * got);
  std::fill(x.begin(), x.end(), 1e-30f);  // and squares below its range count
  EXPECT_NEAR(squared_norm(x.data(), 1000, 1), 1e-57, 1e-62);
}

TEST(SquaredNorm, NanAndInfinityCarryOver) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (int at : {0, 5, 16390, 49999, 50000}) {
    auto x = random_values<float>(50001, 3);
    x[at] = nan;
    EXPECT_TRUE(std::isnan(squared_norm(x.data(), 50001, 2))) << at;
    x[at] = -infinity;
    EXPECT_EQ(squared_norm(x.data(), 50001, 2), std::numeric_limits<double>::infinity()) << at;
  }
}

TEST(ClipScale, BringsTheNormDownToTheLimit) {
  EXPECT_DOUBLE_EQ(clip_scale(10, 1), 1 / (10 + 1e-6));
  EXPECT_DOUBLE_EQ(clip_scale(10, 0.5), 0.5 / (10 + 1e-6));
  EXPECT_LT(clip_scale(1, 1), 1);  // torch's 1e-6
  EXPECT_EQ(clip_scale(0.5, 1), 1);
  EXPECT_EQ(clip_scale(0, 1), 1);
  EXPECT_EQ(clip_scale(std::numeric_limits<double>::infinity(), 1), 0);
  EXPECT_TRUE(std::isnan(clip_scale(std::numeric_limits<double>::quiet_NaN(), 1)));
}

TEST(ClipScale, ZeroMeansNoClipping) {
  EXPECT_EQ(clip_scale(1e30, 0), 1);
  EXPECT_EQ(clip_scale(std::numeric_limits<double>::infinity(), 0), 1);
}

struct FloatState {
  std::vector<float> parameter, m, v, v_max, average;
  explicit FloatState(int count)
      : parameter(random_values<float>(count, 4)),
        m(count),
        v(count),
        v_max(count),
        average(count) {}

  void update(const AdamSettings& settings, std::int64_t step, float scale,
              const std::vector<float>& gradient, int threads) {
    adam_update(settings, step, scale, gradient.data(),
                {parameter.data(), m.data(), v.data(), settings.amsgrad ? v_max.data() : nullptr,
                 settings.average > 0 ? average.data() : nullptr},
                static_cast<int>(parameter.size()), threads);
  }
};

struct DoubleState {
  std::vector<double> parameter, m, v, v_max, sum;
  explicit DoubleState(int count) : m(count), v(count), v_max(count), sum(count) {
    for (float p : random_values<float>(count, 4)) parameter.push_back(p);
  }

  void update(const AdamSettings& s, int step, float scale, const std::vector<float>& gradient) {
    const double rate = learning_rate_at(s, step);
    for (std::size_t i = 0; i < parameter.size(); ++i) {
      const double g = double(scale) * gradient[i];
      m[i] = s.beta1 * m[i] + (1 - s.beta1) * g;
      v[i] = s.beta2 * v[i] + (1 - s.beta2) * g * g;
      v_max[i] = std::max(v_max[i], v[i]);
      const double second = s.amsgrad ? v_max[i] : v[i];
      const double denominator = std::sqrt(second) / std::sqrt(1 - std::pow(s.beta2, step)) + s.eps;
      parameter[i] -= rate / (1 - std::pow(s.beta1, step)) * m[i] / denominator;
      sum[i] = s.average * sum[i] + (1 - s.average) * parameter[i];
    }
  }
};

// The gradients shrink, so that AMSGrad's maximum is not the newest second moment.
std::vector<float> gradient_at(int step, int count) {
  return random_values<float>(count, 100 + step, std::pow(0.5, step));
}

void expect_matches_double(const AdamSettings& settings, int count, float scale) {
  FloatState got(count);
  DoubleState want(count);
  for (int step = 1; step <= 12; ++step) {
    const auto gradient = gradient_at(step, count);
    got.update(settings, step, scale, gradient, 2);
    want.update(settings, step, scale, gradient);
  }
  for (int i = 0; i < count; ++i) {
    // Each step moves a parameter by about the learning rate, and rounds it to float.
    const double bound = 12 * (6e-8 * std::abs(want.parameter[i]) + 1e-6 * settings.learning_rate);
    ASSERT_NEAR(got.parameter[i], want.parameter[i], bound) << i << " of " << count;
    ASSERT_NEAR(got.m[i], want.m[i], 1e-6) << i << " of " << count;
    ASSERT_NEAR(got.v[i], want.v[i], 2e-6 * want.v[i]) << i << " of " << count;
    if (settings.amsgrad) {
      ASSERT_NEAR(got.v_max[i], want.v_max[i], 2e-6 * want.v_max[i]) << i << " of " << count;
    }
    if (settings.average > 0) {
      ASSERT_NEAR(got.average[i], want.sum[i] / (1 - std::pow(settings.average, 12)), bound)
          << i << " of " << count;
    }
  }
}

TEST(Adam, MatchesItsFormula) {
  for (int count : kCounts) expect_matches_double({}, count, 1);
  expect_matches_double({.learning_rate = 0.1, .beta1 = 0.5, .beta2 = 0.9, .eps = 1e-3}, 143, 1);
}

TEST(Adam, AmsgradMatchesItsFormula) {
  for (int count : kCounts) expect_matches_double({.amsgrad = true}, count, 1);
}

TEST(Adam, TheStepSizeFallsOverTheLastSteps) {
  const AdamSettings settings{.learning_rate = 0.4, .steps = 10, .annealed = 4};
  std::vector<double> rates;
  for (int step = 1; step <= 12; ++step) rates.push_back(learning_rate_at(settings, step));
  EXPECT_THAT(rates, testing::Pointwise(testing::DoubleEq(), {0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4,
                                                              0.3, 0.2, 0.1, 0.1, 0.1}));
  EXPECT_EQ(learning_rate_at({.learning_rate = 0.4}, 100), 0.4);
  expect_matches_double(settings, 143, 1);
}

TEST(Adam, AverageMatchesItsFormula) {
  for (int count : kCounts) expect_matches_double({.learning_rate = 0.1, .average = 0.9}, count, 1);
  expect_matches_double({.learning_rate = 0.1, .amsgrad = true, .average = 0.999}, 143, 1);
}

// The scale reaches both moments; with a large eps the step depends on it.
TEST(Adam, ScalesTheGradientFirst) {
  expect_matches_double({.eps = 0.1}, 143, 0.125f);
  expect_matches_double({.eps = 0.1, .amsgrad = true}, 143, 0.125f);
}

TEST(Adam, AmsgradDiffersOnceGradientsShrink) {
  FloatState plain(5), amsgrad(5);
  for (int step = 1; step <= 12; ++step) {
    plain.update({.beta2 = 0.5}, step, 1, gradient_at(step, 5), 1);
    amsgrad.update({.beta2 = 0.5, .amsgrad = true}, step, 1, gradient_at(step, 5), 1);
  }
  for (int i = 0; i < 5; ++i) EXPECT_GT(amsgrad.v_max[i], 2 * amsgrad.v[i]) << i;
  EXPECT_NE(plain.parameter, amsgrad.parameter);
}

TEST(Adam, HasTheSameBitsOnAnyNumberOfThreads) {
  for (bool amsgrad : {false, true}) {
    for (int count : kCounts) {
      const AdamSettings settings{.amsgrad = amsgrad, .average = 0.9};
      FloatState one(count), two(count), five(count);
      for (int step = 1; step <= 3; ++step) {
        const auto gradient = gradient_at(step, count);
        one.update(settings, step, 0.7f, gradient, 1);
        two.update(settings, step, 0.7f, gradient, 2);
        five.update(settings, step, 0.7f, gradient, 5);
      }
      for (const FloatState* other : {&two, &five}) {
        EXPECT_EQ(one.parameter, other->parameter) << count;
        EXPECT_EQ(one.m, other->m) << count;
        EXPECT_EQ(one.v, other->v) << count;
        EXPECT_EQ(one.v_max, other->v_max) << count;
        EXPECT_EQ(one.average, other->average) << count;
      }
    }
  }
}

// Bias correction at any age of a run: with a constant gradient every step is one learning rate.
TEST(Adam, LateStepsStayExact) {
  FloatState state(3);
  const std::vector<float> gradient(3, 2);
  std::fill(state.m.begin(), state.m.end(), 2.f);
  std::fill(state.v.begin(), state.v.end(), 4.f);
  const auto before = state.parameter;
  state.update({}, 3'000'000'000, 1, gradient, 1);
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(before[i] - state.parameter[i], 1e-3, 2e-7);
}

TEST(Adam, WritesNothingBehindItsBuffers) {
  FloatState state(40);
  const FloatState before = state;
  std::vector<float> gradient(40, 1);
  adam_update({.amsgrad = true, .average = 0.9}, 1, 1, gradient.data(),
              {state.parameter.data(), state.m.data(), state.v.data(), state.v_max.data(),
               state.average.data()},
              17, 1);
  for (int i = 17; i < 40; ++i) {
    EXPECT_EQ(state.parameter[i], before.parameter[i]);
    EXPECT_EQ(state.m[i], 0);
    EXPECT_EQ(state.v[i], 0);
    EXPECT_EQ(state.v_max[i], 0);
    EXPECT_EQ(state.average[i], 0);
  }
}

TEST(Adam, RefusesWhatItCannotDo) {
  FloatState state(3);
  const std::vector<float> gradient(3);
  EXPECT_THROW(state.update({}, 0, 1, gradient, 1), std::invalid_argument);
  const AdamState buffers{state.parameter.data(), state.m.data(), state.v.data()};
  EXPECT_THROW(adam_update({.amsgrad = true}, 1, 1, gradient.data(), buffers, 3, 1),
               std::invalid_argument);
  EXPECT_THROW(adam_update({.average = 0.9}, 1, 1, gradient.data(), buffers, 3, 1),
               std::invalid_argument);
}

}  // namespace
}  // namespace nru::kernels
