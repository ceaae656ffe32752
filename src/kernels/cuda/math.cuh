// Device functions that several cells' kernels share.
#pragma once

#include <cuda_runtime.h>

namespace nru::kernels::cuda {

inline constexpr unsigned kAllLanes = 0xffffffffu;

__device__ inline float sigmoid(float x) { return 1.f / (1.f + expf(-x)); }
__device__ inline float relu(float x) { return x < 0.f ? 0.f : x; }  // NaN stays NaN

// dh f'(a), of h = f(a).
__device__ inline float relu_backward(float h, float dh) { return h > 0.f ? dh : 0.f; }
__device__ inline float tanh_backward(float h, float dh) { return dh * (1.f - h * h); }

// Bits of the magnitude: they order as the numbers do, NaN above all.
__device__ inline unsigned magnitude_bits(float x) { return __float_as_uint(x) & 0x7fffffffu; }

// From the device's memory to the second-level cache.
__device__ inline void prefetch([[maybe_unused]] const float* from) {
#ifdef __CUDA_ARCH__  // else emulated, in tests
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
#endif
}

// |x|^5, x^5 and sign(x)|x|^4, by multiplication.
__device__ inline float pow5(float x) {
  const float x2 = x * x;
  return x2 * x2 * x;
}
__device__ inline float signed_pow4(float x) { return (x * fabsf(x)) * (x * x); }

// Every lane gets the sum; the order is that of a tree.
__device__ inline float warp_sum(float x) {
  for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(kAllLanes, x, d);
  return x;
}
// Largest of magnitudes; NaN wins.
__device__ inline float warp_largest(float x) {
  return __uint_as_float(__reduce_max_sync(kAllLanes, __float_as_uint(fabsf(x))));
}

// Sum over a CTA of whole warps. `scratch` holds 33 values; two calls in a row need no barrier in
// between.
__device__ inline float cta_sum(float x, float* scratch) {
  x = warp_sum(x);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = x;
  __syncthreads();
  if (threadIdx.x < 32) {
    const float mine = threadIdx.x < blockDim.x / 32 ? scratch[threadIdx.x] : 0.f;
    const float sum = warp_sum(mine);
    if (threadIdx.x == 0) scratch[32] = sum;
  }
  __syncthreads();
  return scratch[32];
}

// Whether this CTA is the last one of `count` to come here. It then sees what the others wrote
// before they came, if it reads past its own cache (__ldcg). `ended` is zero between launches.
__device__ inline bool comes_last(unsigned* ended, unsigned count) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    last = atomicAdd(ended, 1u) == count - 1;
    if (last) *ended = 0;
    __threadfence();
  }
  __syncthreads();
  return last;
}

}  // namespace nru::kernels::cuda
