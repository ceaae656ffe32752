// Products of a cluster's step: four rows of the batch, side by side in a float4, times weights
// that stay on chip.
//
// A warp makes O outputs over all inputs: lane l holds the weights of inputs l, l + 32, ... and
// reads each of them once for all outputs. Loads of shared memory cost by bytes per lane, so every
// float4 must serve many outputs. The lanes' sums are then folded: after exchanges over 16, 8 and 4
// lanes, a quad of lanes holds the sums of one or two outputs, and after two more every lane of it
// has them complete: lane d of the quad sends them to CTA d, and has to do with row d in global
// memory.
//
// Lanes that exchange keep different outputs. To choose what to keep would cost as much as the
// additions; instead the outputs lie in different registers ("slots") in different lanes from the
// start, so that the slots to keep and to give away are the same in all of them.
#pragma once

#include <cstdint>

#include "kernels/cuda/cluster.h"
#include "kernels/cuda/math.cuh"

namespace nru::kernels::cuda {

inline constexpr int kClusterRows = 4, kClusterWarps = 8;
inline constexpr int kClusterThreads = 32 * kClusterWarps;
inline constexpr int kWarpsOfCluster = kClusterCtas * kClusterWarps;

__device__ inline float4 zero4() { return make_float4(0, 0, 0, 0); }
__device__ inline void add_product(float w, float4 x, float4& sum) {
  sum.x = fmaf(w, x.x, sum.x);
  sum.y = fmaf(w, x.y, sum.y);
  sum.z = fmaf(w, x.z, sum.z);
  sum.w = fmaf(w, x.w, sum.w);
}
// As relu(), in one instruction: a NaN stays one.
__device__ inline float relu_max(float x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("max.NaN.f32 %0, %1, 0f00000000;" : "=f"(y) : "f"(x));
  return y;
#else
  return relu(x);
#endif
}
__device__ inline float4 relu_max(float4 x) {
  return make_float4(relu_max(x.x), relu_max(x.y), relu_max(x.z), relu_max(x.w));
}
__device__ inline float row_of(float4 x, int row) {
  const float low = row & 1 ? x.y : x.x, high = row & 1 ? x.w : x.z;
  return row & 2 ? high : low;
}
__device__ inline void add_to_row(float4& x, int row, float value) {
  x.x += row == 0 ? value : 0.f;
  x.y += row == 1 ? value : 0.f;
  x.z += row == 2 ? value : 0.f;
  x.w += row == 3 ? value : 0.f;
}

template <int O>
__device__ inline void clear(float4 (&sums)[O]) {
#pragma unroll
  for (int o = 0; o < O; ++o) sums[o] = zero4();
}

// Weights of a warp's O outputs over 32 N inputs, in registers. `of(slot, n)` is the weight of the
// output in a slot and input n, zero where there is none.
template <int O, int N>
struct RegisterWeights {
  static constexpr int kSharedVectors = 0;
  float w[O][N];

  template <class F>
  __device__ void load(float4*, const F& of) {
#pragma unroll
    for (int o = 0; o < O; ++o)
#pragma unroll
      for (int j = 0; j < N; ++j) w[o][j] = of(o, threadIdx.x % 32 + 32 * j);
  }
  __device__ void multiply(const float4*, const float4* x, float4 (&sums)[O]) const {
#pragma unroll
    for (int j = 0; j < N; ++j) add(j, x[threadIdx.x % 32 + 32 * j], sums);
  }
  // The share of the lane's input number j.
  __device__ void add(int j, float4 value, float4* sums) const {
#pragma unroll
    for (int o = 0; o < O; ++o) add_product(w[o][j], value, sums[o]);
  }
};

// The same in shared memory, four weights of a thread in a vector. For products that another
// CTA's answer is awaited behind.
template <int O, int N>
struct SharedWeights {
  static constexpr int kSharedVectors = (O * N + 3) / 4 * kClusterThreads;

  template <class F>
  __device__ void load(float4* shared, const F& of) {
    float* mine = reinterpret_cast<float*>(shared + threadIdx.x);
#pragma unroll 1
    for (int j = 0; j < N; ++j) {
      for (int o = 0; o < O; ++o) {
        const int at = j * O + o;
        mine[at / 4 * 4 * kClusterThreads + at % 4] = of(o, threadIdx.x % 32 + 32 * j);
      }
    }
  }
  __device__ void multiply(const float4* shared, const float4* x, float4 (&sums)[O]) const {
    float4 w = zero4();
#pragma unroll
    for (int j = 0; j < N; ++j) add(shared, j, x[threadIdx.x % 32 + 32 * j], w, sums);
  }
  // The share of the lane's input number j; w goes along from one input to the next.
  __device__ void add(const float4* shared, int j, float4 value, float4& w, float4* sums) const {
#pragma unroll
    for (int o = 0; o < O; ++o) {
      const int at = j * O + o;
      if (at % 4 == 0) w = shared[at / 4 * kClusterThreads + threadIdx.x];
      add_product(at % 4 == 0 ? w.x : at % 4 == 1 ? w.y : at % 4 == 2 ? w.z : w.w, value, sums[o]);
    }
  }
};

__device__ inline float4 exchanged(float4 x, int mask) {
  return make_float4(__shfl_xor_sync(kAllLanes, x.x, mask), __shfl_xor_sync(kAllLanes, x.y, mask),
                     __shfl_xor_sync(kAllLanes, x.z, mask), __shfl_xor_sync(kAllLanes, x.w, mask));
}
__device__ inline float4 sum_of(float4 a, float4 b) {
  return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}
__device__ inline float4 quad_sum(float4 x) {
  x = sum_of(x, exchanged(x, 2));
  return sum_of(x, exchanged(x, 1));
}

// O outputs are folded in groups of eight, and the rest in groups of four, two and one, which meet
// in one slot at the end.
template <int O>
struct Fold {
  static constexpr int kWhole = O / 8 * 8;
  static constexpr bool kFour = O % 8 & 4, kTwo = O % 8 & 2, kOne = O % 8 & 1;
  static constexpr int kAtFour = kWhole, kAtTwo = kAtFour + (kFour ? 4 : 0),
                       kAtOne = kAtTwo + (kTwo ? 2 : 0);
  static constexpr int kCount = (O + 7) / 8;  // outputs that a lane is left with

  // Which output a slot of this lane sums up.
  __device__ static int output(int slot) {
    const int lane = threadIdx.x % 32;
    if (slot < kAtFour) return slot ^ (lane / 4);
    if (slot < kAtTwo) return kAtFour + ((slot - kAtFour) ^ (lane / 8));
    if (slot < kAtOne) return kAtTwo + ((slot - kAtTwo) ^ (lane / 16));
    return slot;
  }

  // Leaves the outputs owned(0), ... in sums[0], ..., each as a sum over a quad still to be done.
  __device__ static void run(float4 (&sums)[O]) {
#pragma unroll
    for (int g = 0; g < kWhole / 8; ++g) {
#pragma unroll
      for (int i = 0; i < 4; ++i) take(sums[8 * g + i], sums[8 * g + 4 + i], 16);
#pragma unroll
      for (int i = 0; i < 2; ++i) take(sums[8 * g + i], sums[8 * g + 2 + i], 8);
      take(sums[8 * g], sums[8 * g + 1], 4);
      sums[g] = sums[8 * g];
    }
    if constexpr (kWhole < O) sums[kCount - 1] = rest(sums);
  }

  // The output that a lane has in slot i after run(), -1 if another quad has it.
  __device__ static int owned(int i) {
    const int lane = threadIdx.x % 32;
    const bool bit16 = lane & 16, bit8 = lane & 8, bit4 = lane & 4;
    if (i < kWhole / 8) return 8 * i + lane / 4;
    if (kFour && !bit4) return kAtFour + lane / 8;
    if (bit4 != (kFour && (kTwo || kOne))) return -1;
    if (kTwo && !bit8) return kAtTwo + lane / 16;
    return kOne && !bit16 && bit8 == kTwo ? kAtOne : -1;
  }

 private:
  __device__ static void take(float4& keep, float4 give, int mask) {
    keep = sum_of(keep, exchanged(give, mask));
  }
  // Of two groups that have come down to one slot: lanes with the bit go on with b, others with a.
  __device__ static float4 meet(float4 a, float4 b, int mask) {
    const bool second = threadIdx.x & mask;
    return sum_of(second ? b : a, exchanged(second ? a : b, mask));
  }
  __device__ static float4 rest(float4 (&sums)[O]) {
    float4 low{};  // of the groups of two and one
    if constexpr (kTwo) take(sums[kAtTwo], sums[kAtTwo + 1], 16);
    if constexpr (kOne) take(sums[kAtOne], sums[kAtOne], 16);
    if constexpr (kTwo && kOne) low = meet(sums[kAtTwo], sums[kAtOne], 8);
    if constexpr (kTwo != kOne) {
      low = sums[kTwo ? kAtTwo : kAtOne];
      take(low, low, 8);
    }
    if constexpr (kFour) {
      take(sums[kAtFour], sums[kAtFour + 2], 16);
      take(sums[kAtFour + 1], sums[kAtFour + 3], 16);
      take(sums[kAtFour], sums[kAtFour + 1], 8);
      if constexpr (kTwo || kOne) return meet(sums[kAtFour], low, 4);
      low = sums[kAtFour];
    }
    take(low, low, 4);
    return low;
  }
};

// Keeps the compiler from computing a number that does not change again in every step.
template <class Number>
__device__ inline void hold(Number& x) {
  asm volatile("" : "+r"(x));
}

// The outputs that a warp makes of `width` in all, dealt out evenly over the 32 warps of a cluster:
// at most O of them. Every CTA makes some of any four or more, which the exchanges rely on.
struct WarpShare {
  int first, count;
  __device__ WarpShare(int rank, int width) {
    const int warp = rank * kClusterWarps + static_cast<int>(threadIdx.x) / 32;
    first = warp * width / kWarpsOfCluster;
    count = (warp + 1) * width / kWarpsOfCluster - first;
  }
};

// The outputs of a lane after Fold<O>::run(), by their number in the product; -1: none.
template <int O>
struct OwnedOutputs {
  int number[Fold<O>::kCount];
  __device__ OwnedOutputs(int rank, int width) {
    const WarpShare warp(rank, width);
#pragma unroll
    for (int i = 0; i < Fold<O>::kCount; ++i) {
      const int owned = Fold<O>::owned(i);
      number[i] = owned >= 0 && owned < warp.count ? warp.first + owned : -1;
      hold(number[i]);
    }
  }
};

}  // namespace nru::kernels::cuda
