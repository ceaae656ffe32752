// The butterfly (butterfly.cuh) of the four rows that a cluster carries, by one half of a CTA: four
// warps, which meet once, while the other half does something else.
//
// Coordinates lie in blocks of 32. Layers of strides from 32 on turn blocks against each other
// ("high"): a thread has one column, which is the same place in all blocks, of one row. Layers of
// smaller strides stay within a block ("low"): a warp has some blocks, a lane a coordinate of each,
// in all rows, and lanes show each other their values. So Q x is high, a barrier, low; and Q^T g is
// low, a barrier, high.
//
// A pair that there is not turns by no angle: what lies behind the coordinates is zero and stays
// so, and a coordinate without a partner stays what it is.
#pragma once

#include <type_traits>

#include "kernels/cuda/barriers.cuh"
#include "kernels/cuda/butterfly.cuh"
#include "kernels/cuda/cluster_kernel.cuh"

namespace nru::kernels::cuda {

inline constexpr int kHalfThreads = kClusterThreads / 2, kHalfWarps = kHalfThreads / 32;
static_assert(kHalfThreads == 32 * kClusterRows);  // a thread per column and row

inline constexpr int kLowLayers = 5;

// The pairs of N blocks, those of the largest stride first: f(number of the pair, lower, upper).
template <int N>
struct BlockPairs {
  static constexpr int top_shift() {
    int shift = 0;
    while (2 << shift < N) ++shift;
    return shift;
  }
  static constexpr int kTopShift = top_shift(), kFarthest = 1 << kTopShift;

  static constexpr int count() {
    int pairs = 0;
    for (int d = kFarthest; d > 0; d /= 2)
      for (int j = 0; j < N - d; ++j) pairs += j & d ? 0 : 1;
    return pairs;
  }
  // By recursion: a loop would not be unrolled in time for its indices to be constants, and arrays
  // would not lie in registers.
  template <int D = kFarthest, int J = 0, int P = 0, class F>
  __device__ __forceinline__ static void forward(const F& f) {
    if constexpr (D > 0 && J >= N - D) {
      forward<D / 2, 0, P>(f);
    } else if constexpr (D > 0 && (J & D) != 0) {
      forward<D, J + 1, P>(f);
    } else if constexpr (D > 0) {
      f(P, J, J + D);
      forward<D, J + 1, P + 1>(f);
    }
  }
  template <int D = kFarthest, int J = 0, int P = 0, class F>
  __device__ __forceinline__ static void backward(const F& f) {
    if constexpr (D > 0 && J >= N - D) {
      backward<D / 2, 0, P>(f);
    } else if constexpr (D > 0 && (J & D) != 0) {
      backward<D, J + 1, P>(f);
    } else if constexpr (D > 0) {
      backward<D, J + 1, P + 1>(f);
      f(P, J, J + D);
    }
  }
};

// Where the angles of N blocks lie: in sets of 32, of one layer each. First those of the low layers
// by block and stride, with an angle for both lanes of a pair, then those of the high ones by pair
// of blocks.
template <int N>
struct AngleSets {
  static constexpr int kLowSets = N * kLowLayers, kCount = kLowSets + BlockPairs<N>::count();
  static constexpr int low(int block, int shift) { return block * kLowLayers + shift; }
  static constexpr int high(int pair) { return kLowSets + pair; }
};

__device__ inline bool in_first_half() { return threadIdx.x < kHalfThreads; }

// The four warps of a half. The other half meets as often: barriers.cuh.
__device__ inline void meet_half() {
  if (in_first_half()) {
    await<1, kHalfThreads>();
  } else {
    await<2, kHalfThreads>();
  }
}

// One number of a set.
struct AngleSpot {
  int index;   // of the angle, -1 if there is no such pair
  bool upper;  // the second lane of a pair

  template <int N>
  __device__ static AngleSpot of(const Wiring& w, const AngleSets<N>&, int set, int lane) {
    using Sets = AngleSets<N>;
    if (set < Sets::kLowSets) {
      const int shift = set % kLowLayers, bit = lane >> shift & 1;
      return {angle(w, set / kLowLayers * 32 + lane - (bit << shift), shift), bit == 1};
    }
    int left = set - Sets::kLowSets, shift = BlockPairs<N>::kTopShift, j = 0;
    while ((j >> shift & 1) || left-- > 0) {
      if (++j < N - (1 << shift)) continue;
      --shift;
      j = 0;
    }
    return {angle(w, 32 * j + lane, kLowLayers + shift), false};
  }

 private:
  __device__ static int angle(const Wiring& w, int lower, int shift) {
    const int layer = w.layers - 1 - shift, d = 1 << shift;
    if (layer < 0 || lower + d >= w.n) return -1;
    return w.first[layer] + (lower >> (shift + 1) << shift | (lower & (d - 1)));
  }
};

// Cosines and sines, in shared memory. The sine of a low layer has the sign that the lane needs:
// x <- c x + s (the other lane's x).
template <int N>
struct Turns {
  using Sets = AngleSets<N>;
  float2 of[Sets::kCount][32];

  // By all threads of a CTA.
  __device__ __forceinline__ void load(const Wiring& w, const float* theta) {
    const int lane = threadIdx.x % 32;
    for (int set = threadIdx.x / 32; set < Sets::kCount; set += kClusterWarps) {
      const AngleSpot spot = AngleSpot::of(w, Sets(), set, lane);
      float2 turn = make_float2(1, 0);
      if (spot.index >= 0) sincosf(theta[spot.index], &turn.y, &turn.x);
      if (set < Sets::kLowSets && !spot.upper) turn.y = -turn.y;
      of[set][lane] = turn;
    }
  }
};

__device__ inline float turned(float c, float s, float x, float other) {
  return fmaf(s, other, c * x);
}
template <bool kBack>
__device__ inline float4 lane_turn(float2 angle, int d, float4 x) {
  const float c = angle.x, s = kBack ? -angle.y : angle.y;
  const float4 other = exchanged(x, d);
  return make_float4(turned(c, s, x.x, other.x), turned(c, s, x.y, other.y),
                     turned(c, s, x.z, other.z), turned(c, s, x.w, other.w));
}

// The low layers of this warp's blocks `first`, first + 4, ...: K of them side by side, so that one
// turns while others' values are under way.
template <int K, bool kBack, int N>
__device__ __forceinline__ void turn_blocks(const Turns<N>& turns, int first, const float4* from,
                                            float4* to) {
  const int lane = threadIdx.x % 32;
  float4 x[K];
#pragma unroll
  for (int k = 0; k < K; ++k) x[k] = from[32 * (first + kHalfWarps * k) + lane];
#pragma unroll
  for (int l = 0; l < kLowLayers; ++l) {
    const int shift = kBack ? l : kLowLayers - 1 - l;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const int set = AngleSets<N>::low(first + kHalfWarps * k, shift);
      x[k] = lane_turn<kBack>(turns.of[set][lane], 1 << shift, x[k]);
    }
  }
#pragma unroll
  for (int k = 0; k < K; ++k) to[32 * (first + kHalfWarps * k) + lane] = x[k];
}

// f(warp of the half, number of its blocks as a constant): blocks warp, warp + 4, ...
template <int N, class F>
__device__ __forceinline__ void for_blocks_of_warp(const F& f) {
  const int warp = static_cast<int>(threadIdx.x) / 32 % kHalfWarps;
  if (N % kHalfWarps > 0 && warp < N % kHalfWarps) {
    f(warp, std::integral_constant<int, (N + kHalfWarps - 1) / kHalfWarps>());
  } else {
    f(warp, std::integral_constant<int, N / kHalfWarps>());
  }
}

// All blocks, by a half.
template <bool kBack, int N>
__device__ __forceinline__ void turn_low(const Turns<N>& turns, const float4* from, float4* to) {
  for_blocks_of_warp<N>([&](int first, auto count) {
    turn_blocks<decltype(count)::value, kBack>(turns, first, from, to);
  });
}

// A column of a row, by the first half.
__device__ inline int own_column() { return static_cast<int>(threadIdx.x) / kClusterRows; }

template <int N>
__device__ __forceinline__ void turn_high(const Turns<N>& turns, float (&x)[N]) {
  BlockPairs<N>::forward([&](int pair, int a, int b) {
    turn(turns.of[AngleSets<N>::high(pair)][own_column()], x[a], x[b]);
  });
}
template <int N>
__device__ __forceinline__ void turn_high_back(const Turns<N>& turns, float (&x)[N]) {
  BlockPairs<N>::backward([&](int pair, int a, int b) {
    turn_back(turns.of[AngleSets<N>::high(pair)][own_column()], x[a], x[b]);
  });
}

// Gradients of the angles, of one row, by the second half: walks the layers back with y = Q x and
// its gradient g. What the sums need in shared memory:
template <int N>
struct AngleTotals {
  float of[AngleSets<N>::kCount][32];  // of both lanes of a low pair: the lower one's counts
  float2 between[32 * N];              // y, g after the low layers
};

template <int N>
class AngleWalk {
  using Sets = AngleSets<N>;
  static constexpr int kMost = (N + kHalfWarps - 1) / kHalfWarps;

 public:
  // Fetches y and g; nobody may write them before all threads have.
  __device__ __forceinline__ void take(const float4* y, const float4* g, int row) {
    for_blocks_of_warp<N>([&](int first, auto count) {
#pragma unroll
      for (int k = 0; k < decltype(count)::value; ++k) {
        const int at = 32 * (first + kHalfWarps * k) + static_cast<int>(threadIdx.x) % 32;
        y_[k] = reinterpret_cast<const float*>(y + at)[row];
        g_[k] = reinterpret_cast<const float*>(g + at)[row];
      }
    });
  }

  __device__ __forceinline__ void run(const Turns<N>& turns, AngleTotals<N>& sums) {
    for_blocks_of_warp<N>(
        [&](int first, auto count) { low<decltype(count)::value>(turns, sums, first); });
    meet_half();
    if (threadIdx.x / 32 == kHalfWarps) high(turns, sums);
  }

  // By all threads of a CTA, after a barrier.
  __device__ __forceinline__ static void store(const Wiring& w, const AngleTotals<N>& sums,
                                               float* to) {
    const int lane = threadIdx.x % 32;
    for (int set = threadIdx.x / 32; set < Sets::kCount; set += kClusterWarps) {
      const AngleSpot spot = AngleSpot::of(w, Sets(), set, lane);
      if (spot.index >= 0 && !spot.upper) to[spot.index] = sums.of[set][lane];
    }
  }

 private:
  template <int K>
  __device__ __forceinline__ void low(const Turns<N>& turns, AngleTotals<N>& sums, int first) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int shift = 0; shift < kLowLayers; ++shift) {
#pragma unroll
      for (int k = 0; k < K; ++k) {
        const int set = Sets::low(first + kHalfWarps * k, shift), d = 1 << shift;
        const float2 angle = turns.of[set][lane];
        const float other_y = __shfl_xor_sync(kAllLanes, y_[k], d);
        const float other_g = __shfl_xor_sync(kAllLanes, g_[k], d);
        sums.of[set][lane] += other_g * y_[k] - g_[k] * other_y;
        y_[k] = turned(angle.x, -angle.y, y_[k], other_y);
        g_[k] = turned(angle.x, -angle.y, g_[k], other_g);
      }
    }
#pragma unroll
    for (int k = 0; k < K; ++k)
      sums.between[32 * (first + kHalfWarps * k) + lane] = make_float2(y_[k], g_[k]);
  }

  // One warp has all columns of the row.
  __device__ __forceinline__ void high(const Turns<N>& turns, AngleTotals<N>& sums) {
    const int lane = threadIdx.x % 32;
    float2 x[N];
#pragma unroll
    for (int j = 0; j < N; ++j) x[j] = sums.between[32 * j + lane];
    BlockPairs<N>::backward([&](int pair, int a, int b) {
      const float2 angle = turns.of[Sets::high(pair)][lane];
      sums.of[Sets::high(pair)][lane] += x[b].y * x[a].x - x[a].y * x[b].x;
      turn_back(angle, x[a].x, x[b].x);
      turn_back(angle, x[a].y, x[b].y);
    });
  }

  float y_[kMost], g_[kMost];
};

}  // namespace nru::kernels::cuda
