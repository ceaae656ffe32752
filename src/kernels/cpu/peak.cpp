// A loop of independent fused multiply-adds that live in registers: nothing but the FMA units can
// limit it.
#include "kernels/cpu/peak.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/peak.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
// After foreach_target.h:
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace nru::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Does `rounds` rounds and returns the FLOP done; *sink keeps the compiler from dropping the work.
double fma_rounds(std::int64_t rounds, float* sink) {
  const hn::ScalableTag<float> d;
  constexpr int kChains =
      12;  // enough to cover latency 4-5 at two FMA per cycle, few enough for 16 registers
  hn::Vec<decltype(d)> sum[kChains];
  for (int i = 0; i < kChains; ++i) sum[i] = hn::Set(d, 0.1f * i);
  const auto a = hn::Set(d, 0.999f), b = hn::Set(d, 1e-3f);
  for (std::int64_t n = 0; n < rounds; ++n) {
    HWY_UNROLL(12)
    for (int i = 0; i < kChains; ++i) sum[i] = hn::MulAdd(sum[i], a, b);
  }
  auto total = sum[0];
  for (int i = 1; i < kChains; ++i) total = hn::Add(total, sum[i]);
  *sink = hn::GetLane(hn::SumOfLanes(d, total));
  return 2.0 * static_cast<double>(rounds) * kChains * static_cast<double>(hn::Lanes(d));
}

}  // namespace HWY_NAMESPACE
}  // namespace nru::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nru::kernels {
HWY_EXPORT(fma_rounds);

double measure_fma_peak(double seconds) {
  using Clock = std::chrono::steady_clock;
  volatile float keep = 0;
  double best = 0;
  const auto start = Clock::now();
  do {
    float sink = 0;
    const auto begin = Clock::now();
    const double flop = HWY_DYNAMIC_DISPATCH(fma_rounds)(200'000, &sink);
    keep = keep + sink;
    best = std::max(best, flop / std::chrono::duration<double>(Clock::now() - begin).count());
  } while (std::chrono::duration<double>(Clock::now() - start).count() < seconds);
  return best;
}
}  // namespace nru::kernels
#endif
