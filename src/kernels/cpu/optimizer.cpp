#include "kernels/optimizer.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "kernels/cpu/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/optimizer.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
// After foreach_target.h:
#include <hwy/highway.h>

#include "kernels/cpu/math-inl.h"

// Shared by all SIMD levels, hence outside of their namespaces.
#ifndef NRU_KERNELS_CPU_OPTIMIZER_STEP_
#define NRU_KERNELS_CPU_OPTIMIZER_STEP_
namespace nru::kernels {

// The numbers of one update, rounded to float once.
struct AdamStep {
  float gradient_scale, beta1, rest1, beta2, rest2, root_correction2, eps, minus_step_size,
      average_rate;
};

// Some elements of all buffers.
struct AdamBlock {
  const float* gradient;
  float *parameter, *m, *v, *v_max, *average;
  int count;
};

}  // namespace nru::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace nru::kernels {
namespace HWY_NAMESPACE {

double sum_of_squares(const float* x, int count) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> half;  // as many floats as a vector holds doubles
  constexpr int N = vector_lanes<double>();
  // Independent sums hide the latency of the additions.
  auto sum0 = hn::Zero(d), sum1 = hn::Zero(d), sum2 = hn::Zero(d), sum3 = hn::Zero(d);
  int i = 0;
  for (; i + 4 * N <= count; i += 4 * N) {
    const auto x0 = hn::PromoteTo(d, hn::LoadU(half, x + i));
    const auto x1 = hn::PromoteTo(d, hn::LoadU(half, x + i + N));
    const auto x2 = hn::PromoteTo(d, hn::LoadU(half, x + i + 2 * N));
    const auto x3 = hn::PromoteTo(d, hn::LoadU(half, x + i + 3 * N));
    sum0 = hn::MulAdd(x0, x0, sum0);
    sum1 = hn::MulAdd(x1, x1, sum1);
    sum2 = hn::MulAdd(x2, x2, sum2);
    sum3 = hn::MulAdd(x3, x3, sum3);
  }
  double sum = sum_lanes(d, hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3)));
  for (; i < count; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

// The order of the operations follows torch's kernels, so that the two differ by little more than
// the last bit even after many updates.
void adam_block(const AdamStep& s, const AdamBlock& b) {
  const hn::ScalableTag<float> d;
  for (int i = 0; i < b.count; i += vector_lanes<float>()) {
    const int n = b.count - i;
    const auto g = hn::Mul(load_first(d, b.gradient + i, n), hn::Set(d, s.gradient_scale));
    const auto m =
        hn::MulAdd(g, hn::Set(d, s.rest1), hn::Mul(load_first(d, b.m + i, n), hn::Set(d, s.beta1)));
    const auto v = hn::MulAdd(hn::Mul(hn::Set(d, s.rest2), g), g,
                              hn::Mul(load_first(d, b.v + i, n), hn::Set(d, s.beta2)));
    auto second = v;
    if (b.v_max) {
      const auto largest = load_first(d, b.v_max + i, n);
      second = hn::IfThenElse(hn::Ge(largest, v), largest, v);
      store_first(d, second, n, b.v_max + i);
    }
    const auto denominator =
        hn::Add(hn::Div(hn::Sqrt(second), hn::Set(d, s.root_correction2)), hn::Set(d, s.eps));
    const auto change = hn::Div(hn::Mul(hn::Set(d, s.minus_step_size), m), denominator);
    store_first(d, m, n, b.m + i);
    store_first(d, v, n, b.v + i);
    const auto parameter = hn::Add(load_first(d, b.parameter + i, n), change);
    store_first(d, parameter, n, b.parameter + i);
    if (b.average) {
      const auto average = load_first(d, b.average + i, n);
      store_first(d, hn::MulAdd(hn::Set(d, s.average_rate), hn::Sub(parameter, average), average),
                  n, b.average + i);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace nru::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nru::kernels {
namespace {

HWY_EXPORT(sum_of_squares);
HWY_EXPORT(adam_block);

constexpr std::int64_t kBlock = 16384;  // elements: all six buffers of a block fit the L2 cache

int block_count(std::int64_t count) { return static_cast<int>((count + kBlock - 1) / kBlock); }

int block_size(std::int64_t count, int block) {
  return static_cast<int>(std::min(kBlock, count - block * kBlock));
}

}  // namespace

double squared_norm(const float* gradient, std::int64_t count, int threads) {
  std::vector<double> sums(block_count(count));
  parallel_pieces(static_cast<int>(sums.size()), threads, [&](int i) {
    sums[i] = HWY_DYNAMIC_DISPATCH(sum_of_squares)(gradient + i * kBlock, block_size(count, i));
  });
  double total = 0;
  for (double sum : sums) total += sum;
  return total;
}

double clip_scale(double norm, double max_norm) {
  if (max_norm == 0) return 1;
  const double scale = max_norm / (norm + 1e-6);
  return scale > 1 ? 1 : scale;  // a NaN stays one
}

void check_buffers(const AdamSettings& settings, const AdamState& state) {
  if (settings.amsgrad && !state.v_max)
    throw std::invalid_argument("AMSGrad needs a buffer for v_max");
  if (settings.average > 0 && !state.average)
    throw std::invalid_argument("the average of the parameters needs a buffer");
}

void adam_update(const AdamSettings& settings, std::int64_t step, float gradient_scale,
                 const float* gradient, const AdamState& state, std::int64_t count, int threads) {
  if (step < 1) throw std::invalid_argument("Adam counts its steps from 1");
  if (count > 0) check_buffers(settings, state);
  float* v_max = settings.amsgrad ? state.v_max : nullptr;
  float* average = settings.average > 0 ? state.average : nullptr;
  const double correction1 = 1 - std::pow(settings.beta1, step);
  const double correction2 = 1 - std::pow(settings.beta2, step);
  const AdamStep numbers{
      gradient_scale,
      static_cast<float>(settings.beta1),
      static_cast<float>(1 - settings.beta1),
      static_cast<float>(settings.beta2),
      static_cast<float>(1 - settings.beta2),
      static_cast<float>(std::sqrt(correction2)),
      static_cast<float>(settings.eps),
      static_cast<float>(-learning_rate_at(settings, step) / correction1),
      static_cast<float>((1 - settings.average) / (1 - std::pow(settings.average, step)))};
  parallel_pieces(block_count(count), threads, [&](int i) {
    const std::int64_t at = i * kBlock;
    const AdamBlock block{
        gradient + at,       state.parameter + at,         state.m + at,
        state.v + at,        v_max ? v_max + at : nullptr, average ? average + at : nullptr,
        block_size(count, i)};
    HWY_DYNAMIC_DISPATCH(adam_block)(numbers, block);
  });
}

}  // namespace nru::kernels
#endif
