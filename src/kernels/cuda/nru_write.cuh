// What the forms of the NRU's write share on the device: scale-safe norms and the fate of a head.
#pragma once

#include <algorithm>
#include <cfloat>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/math.cuh"
#include "kernels/cuda/nru_write.h"

namespace nru::kernels::cuda {

inline constexpr float kClamp = 1e-12f;               // the norm is max(|.|_5, this)
inline constexpr float kAuthorsLargest = 5.07e7f;     // FLT_MAX^(1/5)
inline constexpr float kLargestNorm = 1.f / FLT_MIN;  // where 1/norm is still a normal number

__device__ inline float infinity() { return __int_as_float(0x7f800000); }
__device__ inline bool finite(float x) { return fabsf(x) <= FLT_MAX; }

// events null: not counted.
__device__ inline void count_event(std::int64_t* events, Event event) {
  if (!events) return;
  // Integers: the order of the additions does not matter.
  atomicAdd(reinterpret_cast<unsigned long long*>(events) + event, 1ULL);
}

// alpha or beta within the limit. As std::min and std::max on the CPU: NaN stays.
__device__ inline float cut_off(float strength, float limit) {
  return strength < -limit ? -limit : strength > limit ? limit : strength;
}
// What was cut off does not move, and gets no gradient.
__device__ inline bool is_cut_off(float strength, float limit) {
  return !(fabsf(strength) < limit);
}

// x^(-1/5), x at least 1e-30. The power is off by several units in the last place, five times of
// which would stay where the gradient through the norm should cancel; a Newton step leaves about
// one.
__device__ inline float reciprocal_fifth_root(float x) {
  const float y = exp2f(-0.2f * __log2f(x)), rest = fmaf(-x, pow5(y), 1.f);
  return fmaf(0.2f * y, rest, y);
}
__device__ inline float fifth_root(float x) {
  return x < 1e-30f ? powf(x, 0.2f) : 1.f / reciprocal_fifth_root(x);
}

// A warp's largest magnitude of x [n]; infinity, with x and its origin in global memory set to
// zero, if that is not finite or too large.
__device__ inline float usable_magnitude(float* x, float* origin, int n) {
  float largest = 0;
  for (int j = threadIdx.x % 32; j < n; j += 32) {
    const float a = fabsf(x[j]);
    largest = a <= largest ? largest : a;  // keeps a NaN
    if (a != a) break;
  }
  largest = warp_largest(largest);
  if (largest <= kLargestNorm) return largest;
  for (int j = threadIdx.x % 32; j < n; j += 32) x[j] = origin[j] = 0;
  __syncwarp();
  return infinity();
}

// gain and live of one head from its norm, split as n = n_p * n_q so that neither factor overflows.
__device__ inline void settle_head(float n_p, float n_q, bool authors_overflow, float* gain,
                                   float* live, std::int64_t* events) {
  *gain = *live = 0;
  if (!(n_p <= kLargestNorm && n_q <= kLargestNorm) ||
      (authors_overflow && !(n_p * n_q <= kAuthorsLargest))) {
    count_event(events, kOverflow);
  } else if (n_p * n_q <= kClamp) {
    count_event(events, kClamped);
    if (n_p > 0.f) *gain = n_q / kClamp;
  } else {
    *gain = 1.f / n_p;
    *live = 1;
  }
}

// Where p and q of a side (0 writes, 1 erases) lie among the head outputs, and its c0.
__device__ inline int p_at(const NruWriteSizes& s, int side) { return 2 * s.k + side * 2 * s.r; }
__device__ inline int q_at(const NruWriteSizes& s, int side) { return p_at(s, side) + s.r; }
__device__ inline float sign_of(const NruWriteSizes& s, int side) {
  return side ? -s.combine : s.combine;
}

using NruWriteKernel = void(NruWriteSizes, NruWriteRows);

// A CTA per row: a warp per norm where that is possible, and a thread per few numbers of the
// memory.
inline void launch_write(const char* name, NruWriteKernel* kernel, std::size_t bytes,
                         const NruWriteSizes& s, const NruWriteRows& rows, cudaStream_t stream) {
  const int warps = std::min(16, std::max({4, 2 * s.k + 2, s.m / 64}));
  allow_shared_memory(name, reinterpret_cast<const void*>(kernel), bytes);
  launch(name, rows.count, s.m, kernel, {dim3(rows.count), dim3(32 * warps), bytes}, stream, s,
         rows);
}

}  // namespace nru::kernels::cuda
