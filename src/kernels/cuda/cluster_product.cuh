// Products of a cluster's step: four rows of the batch, side by side in a float4, times weights
// that stay on chip.
//
// A warp makes `O` outputs over all inputs: lane l holds the weights of inputs l, l + 32, ... and
// reads each of them once for all outputs. Loads of shared memory cost by bytes per lane, so every
// float4 must serve many outputs. The lanes' sums are then folded: after exchanges over 16, 8 and 4
// lanes, a quad of lanes holds the sums of one or two outputs, and after two more every lane of it
// has them complete: lane d of the quad sends them to CTA d, and has to do with row d in global
// memory.
#pragma once

#include "kernels/cuda/math.cuh"

namespace nru::kernels::cuda {

inline constexpr int kClusterCtas = 4, kClusterRows = 4, kClusterWarps = 8;
inline constexpr int kClusterThreads = 32 * kClusterWarps;

__device__ inline float4 zero4() { return make_float4(0, 0, 0, 0); }
__device__ inline void add_product(float w, float4 x, float4& sum) {
  sum.x = fmaf(w, x.x, sum.x);
  sum.y = fmaf(w, x.y, sum.y);
  sum.z = fmaf(w, x.z, sum.z);
  sum.w = fmaf(w, x.w, sum.w);
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

// Weights of O outputs of a warp over 32 N inputs, in registers. `of(o, n)` is the weight of output
// o and input n, zero where there is none.
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
    for (int j = 0; j < N; ++j) {
      const float4 value = x[threadIdx.x % 32 + 32 * j];
#pragma unroll
      for (int o = 0; o < O; ++o) add_product(w[o][j], value, sums[o]);
    }
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
    for (int j = 0; j < N; ++j) {
      const float4 value = x[threadIdx.x % 32 + 32 * j];
#pragma unroll
      for (int o = 0; o < O; ++o) {
        const int at = j * O + o;
        if (at % 4 == 0) w = shared[at / 4 * kClusterThreads + threadIdx.x];
        add_product(at % 4 == 0   ? w.x
                    : at % 4 == 1 ? w.y
                    : at % 4 == 2 ? w.z
                                  : w.w,
                    value, sums[o]);
      }
    }
  }
};

// How many outputs a lane is left with after folding O of them.
constexpr int halved(int n) { return (n + 1) / 2; }
template <int O>
inline constexpr int kFolded = halved(halved(halved(O)));

__device__ inline float4 exchanged(float4 x, int mask) {
  return make_float4(__shfl_xor_sync(kAllLanes, x.x, mask), __shfl_xor_sync(kAllLanes, x.y, mask),
                     __shfl_xor_sync(kAllLanes, x.z, mask), __shfl_xor_sync(kAllLanes, x.w, mask));
}
__device__ inline float4 sum_of(float4 a, float4 b) {
  return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

// Sums over lanes that differ in the bits mask, mask / 2 ... 4: lanes with the bit keep the upper
// half of the outputs, the others the lower one.
template <int O, int kMask = 16>
__device__ inline void fold(float4* sums) {
  if constexpr (kMask >= 4) {
    if constexpr (O == 1) {
      sums[0] = sum_of(sums[0], exchanged(sums[0], kMask));
    } else {
      const bool upper = threadIdx.x & kMask;
#pragma unroll
      for (int o = 0; o < halved(O); ++o) {
        const float4 low = sums[o], high = o + halved(O) < O ? sums[o + halved(O)] : zero4();
        sums[o] = sum_of(upper ? high : low, exchanged(upper ? low : high, kMask));
      }
    }
    fold<halved(O), kMask / 2>(sums);
  }
}
__device__ inline float4 quad_sum(float4 x) {
  x = sum_of(x, exchanged(x, 2));
  return sum_of(x, exchanged(x, 1));
}

// Which of O outputs a lane has after fold<O>(): `count` of them (at most kFolded) from `first` on.
struct Owned {
  int first, count;
};
template <int O>
__device__ inline Owned owned_outputs() {
  Owned owned{0, O};
  int n = O;
  for (int mask = 16; mask >= 4; mask /= 2) {
    const bool upper = threadIdx.x & mask;
    if (n == 1) {
      if (upper) owned.count = 0;
      continue;
    }
    n = halved(n);
    if (upper) owned.first += n;
    owned.count = upper ? max(owned.count - n, 0) : min(owned.count, n);
  }
  return owned;
}

// The outputs of a lane among all of a product, `width` in number: `first` is the number of the
// first of them in the cluster.
template <int O>
struct OwnedOutputs {
  int first, count;
  __device__ OwnedOutputs(int rank, int width) {
    const Owned owned = owned_outputs<O>();
    first = (rank * kClusterWarps + static_cast<int>(threadIdx.x) / 32) * O + owned.first;
    count = max(min(owned.count, width - first), 0);
  }
};

}  // namespace nru::kernels::cuda
