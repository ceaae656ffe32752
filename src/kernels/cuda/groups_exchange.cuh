// How the CTAs of a group tell each other that values lie in global memory: each CTA has flags that
// count the steps it is done with, and whoever needs a part of a vector waits for the flags of
// those who make it. Values are written once per step, each to a place of its own, and read past
// the first-level cache, which may hold what was there before.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/cluster_exchange.cuh"
#include "kernels/cuda/math.cuh"

namespace nru::kernels::cuda {

#if __CUDA_ARCH__ >= 900

// What the thread, and those it has met before, wrote is visible to who finds the flag at `value`.
__device__ inline void raise(unsigned* flag, unsigned value) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

// Until flags[0] to flags[count - 1] are at least at `value`; count <= 32. All lanes of a warp.
__device__ inline void await_flags(const unsigned* flags, int count, unsigned value) {
  const int lane = threadIdx.x % 32;
  const unsigned* mine = flags + (lane < count ? lane : 0);
  unsigned found;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(found) : "l"(mine) : "memory");
  } while (!__all_sync(kAllLanes, found >= value));
}

__device__ inline float load_new(const float* from) { return __ldcg(from); }
__device__ inline float4 load_new4(const float* from) {
  return __ldcg(reinterpret_cast<const float4*>(from));
}

#endif

}  // namespace nru::kernels::cuda
