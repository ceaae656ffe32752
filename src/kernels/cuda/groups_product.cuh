// Products of a group's step: 32 rows of the batch times the weights of a CTA's outputs.
//
// The outputs are two shares, of h and of the head outputs (backward: of h and m), in tiles of
// eight columns of the tensor cores' m16n8k8; the rows of the batch are two tiles of 16. The depth
// is cut into blocks of 16, and each of the eight warps takes a run of them: every value of the
// state is then loaded once by the CTA, straight from the second-level cache into the registers of
// the lane that needs it, and every weight is read once. The warps' sums meet in shared memory
// (total()).
//
// The order of the depth within a block is free, as long as values and weights agree: a lane takes
// four neighbours of a row, which is one load, as columns t and t + 4 of two slices of eight.
//
// Of the second of the two vectors that are multiplied a step, the larger one, each warp's first
// blocks of weights stay in registers: shared memory alone does not hold the paper's size.
#pragma once

#include "kernels/cuda/cluster_kernel.cuh"
#include "kernels/cuda/groups.h"
#include "kernels/cuda/groups_exchange.cuh"
#include "kernels/cuda/tensor.cuh"

namespace nru::kernels::cuda {

inline constexpr int kGroupWarps = 8, kGroupThreads = 32 * kGroupWarps;
inline constexpr int kDepth = 16;  // of a block

// The outputs of a CTA among `width`.
struct GroupShare {
  int each, first, count;
  __host__ __device__ GroupShare(int width, int ctas, int cta)
      : each((width + ctas - 1) / ctas),
        first(cta * each < width ? cta * each : width),
        count(width - first < each ? width - first : each) {}
  // CTAs that make something of the columns before `end`.
  __host__ __device__ int makers(int end) const { return (end + each - 1) / each; }
};

// A warp's run of the blocks of a vector of some width. Warps w and w + 4 share a tensor core: runs
// that are longer by one come first.
struct GroupRun {
  int first, count;
  __host__ __device__ GroupRun(int width, int warp) {
    const int blocks = (width + kDepth - 1) / kDepth, whole = blocks / kGroupWarps,
              rest = blocks % kGroupWarps;
    first = warp * whole + (warp < rest ? warp : rest);
    count = whole + (warp < rest ? 1 : 0);
  }
};

// Blocks of a vector's weights that lie in shared memory, before those of a warp: each warp keeps
// its first kKept in registers.
__host__ __device__ inline int shared_blocks_before(int width, int warp, int kept) {
  if (GroupRun(width, kGroupWarps - 1).count < kept) return 0;  // then no warp has more
  return GroupRun(width, warp).first - kept * warp;
}
__host__ __device__ inline int shared_blocks(int width, int kept) {
  return shared_blocks_before(width, kGroupWarps, kept);
}
// Of kA tiles of share a and kB of share b. Lanes of a tile's last columns read past the last
// block; their sums are not used, and nothing else lies there.
template <int kA, int kB, int kKept>
__host__ __device__ std::size_t weight_floats(int first_width, int second_width,
                                              const GroupShare& a, const GroupShare& b) {
  const std::size_t blocks = shared_blocks(first_width, 0) + shared_blocks(second_width, kKept);
  const int columns = a.each + b.each, in_a = 8 * kA, in_b = a.each + 8 * kB;
  return (blocks * columns + (in_a > in_b ? in_a : in_b) - columns) * kDepth;
}

// kA tiles of the first share, kB of the second.
template <int kA, int kB>
struct GroupSums {
  static constexpr int kTiles = kA + kB;
  static constexpr int kLargest = kA > kB ? kA : kB;
  static constexpr int kFloats = kGroupThreads * kLargest * 4;  // of shared memory, for total()
  float c[2][kTiles][4];
};

#if NRU_CLUSTER_CODE

// Which four of a total() a thread has: element e is row row + 8 (e / 2), column column + e % 2.
template <int kCount>
struct GroupOutputs {
  static_assert(kCount <= 4, "a thread has four sums at most");
  int row, column;
  unsigned used_bits = 0;
  __device__ __forceinline__ GroupOutputs(const GroupShare& share, int rows) {
    const int thread = threadIdx.x, lane = thread % 32, tile = thread / 32;
    row = tile / kCount * 16 + lane / 4;
    column = share.first + tile % kCount * 8 + lane % 4 * 2;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const bool is = thread < 64 * kCount && row + e / 2 * 8 < rows &&
                      column + e % 2 < share.first + share.count;
      used_bits |= (is ? 1u : 0u) << e;
    }
  }
  __device__ bool used(int e) const { return used_bits >> e & 1; }
  __device__ std::size_t at(int e, int ld) const {
    return static_cast<std::size_t>(row + e / 2 * 8) * ld + column + e % 2;
  }
};

// [rows, ld] values to be multiplied, of which a block is loaded at a time. Rows beyond the last
// one repeat it; their sums are not used.
class GroupRows {
 public:
  __device__ __forceinline__ GroupRows(const float* values, int ld, int rows)
      : values_(values), ld_(ld) {
    const int lane = threadIdx.x % 32;
    column_ = lane % 4 * 4;
#pragma unroll
    for (int i = 0; i < 4; ++i) at_[i] = min(lane / 4 + 8 * i, rows - 1) * ld + column_;
  }
  __device__ __forceinline__ void load(int block, int end, float4 (&to)[4]) const {
    const bool inside = block < end && block * kDepth + column_ < ld_;  // padding is to eight
#pragma unroll
    for (int i = 0; i < 4; ++i)
      to[i] = inside ? load_new4(values_ + at_[i] + block * kDepth) : zero4();
  }

 private:
  const float* values_;
  int ld_, column_, at_[4];
};

__device__ inline float part_of(float4 x, int i) {
  return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w;
}

// Adds the product of a block to tiles kFirst to kFirst + kCount - 1, whose weights are w[0], ...
template <int kFirst, int kCount, int kTiles>
__device__ __forceinline__ void add_block(const Pair (&a)[4][4], const float4* w,
                                          float (&c)[2][kTiles][4]) {
  if constexpr (kCount > 2) {  // two at a time, so that the pairs find room in registers
    add_block<kFirst, 2>(a, w, c);
    add_block<kFirst + 2, kCount - 2>(a, w + 2, c);
  } else {
    Pair b[kCount][4];
    float d[2][kCount][4] = {};
#pragma unroll
    for (int j = 0; j < kCount; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) b[j][e] = Pair(part_of(w[j], e));
#pragma unroll
    for (int s = 0; s < 4; s += 2) {  // slices of eight
#pragma unroll
      for (int term = 0; term < 3; ++term) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const Pair(&x)[4] = a[2 * i], (&y)[4] = a[2 * i + 1];
#pragma unroll
          for (int j = 0; j < kCount; ++j) {
            if (term == 0)
              multiply_add(d[i][j], x[s].small, y[s].small, x[s + 1].small, y[s + 1].small,
                           b[j][s].big, b[j][s + 1].big);
            if (term == 1)
              multiply_add(d[i][j], x[s].big, y[s].big, x[s + 1].big, y[s + 1].big, b[j][s].small,
                           b[j][s + 1].small);
            if (term == 2)
              multiply_add(d[i][j], x[s].big, y[s].big, x[s + 1].big, y[s + 1].big, b[j][s].big,
                           b[j][s + 1].big);
          }
        }
      }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int j = 0; j < kCount; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) c[i][kFirst + j][e] += d[i][j][e];
  }
}

// The weights of one CTA and the sums of one warp of it. Vector 0 is the one whose weights are all
// in shared memory, vector 1 the one with kKept blocks in registers.
template <int kA, int kB, int kKept>
class GroupProduct {
 public:
  static constexpr int kTiles = kA + kB;

  // blocks[v][s]: the weights of share s over vector v.
  __device__ __forceinline__ GroupProduct(float* shared, const WeightBlock (&blocks)[2][2],
                                          const GroupShare& a, const GroupShare& b)
      : warp_(threadIdx.x / 32),
        columns_(a.each + b.each),
        second_share_(a.each * kDepth),
        runs_{GroupRun(blocks[0][0].inputs, warp_), GroupRun(blocks[1][0].inputs, warp_)} {
    const int stride = columns_ * kDepth;
    float* of_second = shared + shared_blocks(blocks[0][0].inputs, 0) * stride;
    float* at[2] = {shared + shared_blocks_before(blocks[0][0].inputs, warp_, 0) * stride,
                    of_second + shared_blocks_before(blocks[1][0].inputs, warp_, kKept) * stride};
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      const int kept = v == 0 ? 0 : kKept;
      for (int i = kept; i < runs_[v].count; ++i)
        load_block(blocks[v], a, b, runs_[v].first + i, at[v] + (i - kept) * stride);
    }
    const int lane = threadIdx.x % 32, column = lane / 4, k = lane % 4 * 4;
#pragma unroll
    for (int i = 0; i < kKept; ++i) {
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
        const bool first = j < kA;
        const int c = (first ? 8 * j : 8 * (j - kA)) + column;
        const int n = (runs_[1].first + i) * kDepth + k;
        const auto of = [&](int e) {
          return weight(blocks[1][first ? 0 : 1], first ? a : b, c, n + e);
        };
        kept_[i][j] = make_float4(of(0), of(1), of(2), of(3));
      }
    }
#pragma unroll
    for (int v = 0; v < 2; ++v) weights_[v] = at[v] + lane / 4 * kDepth + k;
    __syncthreads();  // tiles reach into other warps' weights, for sums that are not used
    clear<0, kTiles>();
  }

  // The columns of vector v that this warp multiplies.
  __device__ int first_column(int v) const { return runs_[v].first * kDepth; }
  __device__ int end_column(int v) const { return (runs_[v].first + runs_[v].count) * kDepth; }

  template <int kFirst, int kCount>
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int j = kFirst; j < kFirst + kCount; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) sums_.c[i][j][e] = 0;
  }

  // Adds vector v's product to tiles kFirst to kFirst + kCount - 1. Values of the next blocks are
  // under way while one is multiplied: of more blocks where that takes less time.
  template <int v, int kFirst, int kCount>
  __device__ __forceinline__ void multiply(const GroupRows& rows) {
    constexpr int kHere = v == 0 ? 0 : kKept, kAhead = kCount < 3 ? 4 : kCount == 3 ? 3 : 2;
    const int first = runs_[v].first, end = first + runs_[v].count;
    float4 values[kAhead][4];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) rows.load(first + i, end, values[i]);
#pragma unroll
    for (int i = 0; i < kHere; ++i)
      if (first + i < end)
        add<kFirst, kCount>(values[i % kAhead], kept_[i] + kFirst, rows, first + i + kAhead, end);
    const float* at = weights_[v];
#pragma unroll 1
    for (int block = first + kHere; block < end; block += kAhead) {
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        if (block + i >= end) break;
        float4 w[kCount];
        read_weights<kFirst>(at, w);
        at += columns_ * kDepth;
        add<kFirst, kCount>(values[(kHere + i) % kAhead], w, rows, block + i + kAhead, end);
      }
    }
  }

  // The sums over all warps: each thread gets those of its GroupOutputs<kCount>. The upper four
  // warps hand theirs to the lower four, which takes half the shared memory that all at once would.
  // It is free again when the threads have met once more.
  template <int kFirst, int kCount>
  __device__ __forceinline__ float4 total(float* shared) {
    constexpr int kHalf = kGroupWarps / 2;
    const int thread = threadIdx.x, lane = thread % 32;
    float4* all = reinterpret_cast<float4*>(shared);  // [warp % 4][row tile][tile][lane]
    const auto each = [&](const auto& f) {
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < kCount; ++j)
          f(sums_.c[i][kFirst + j], all[((warp_ % kHalf * 2 + i) * kCount + j) * 32 + lane]);
    };
    if (warp_ >= kHalf)
      each([](const float(&c)[4], float4& there) { there = make_float4(c[0], c[1], c[2], c[3]); });
    __syncthreads();
    if (warp_ < kHalf)
      each([](const float(&c)[4], float4& there) {
        there = sum_of(there, make_float4(c[0], c[1], c[2], c[3]));
      });
    clear<kFirst, kCount>();
    __syncthreads();
    float4 sum = zero4();
    if (thread >= 64 * kCount) return sum;
#pragma unroll
    for (int w = 0; w < kHalf; ++w) sum = sum_of(sum, all[w * 64 * kCount + thread]);
    return sum;
  }

 private:
  template <int kFirst, int kCount>
  __device__ __forceinline__ void read_weights(const float* at, float4 (&w)[kCount]) const {
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      const int tile = kFirst + j;
      const float* from =
          tile < kA ? at + 8 * tile * kDepth : at + second_share_ + 8 * (tile - kA) * kDepth;
      w[j] = *reinterpret_cast<const float4*>(from);
    }
  }

  __device__ static float weight(const WeightBlock& block, const GroupShare& share, int column,
                                 int n) {
    return column < share.count && n < block.inputs
               ? block.data[static_cast<std::size_t>(share.first + column) * block.output_stride +
                            static_cast<std::size_t>(n) * block.input_stride]
               : 0.f;
  }
  // [columns, kDepth], read along the lines of memory, several loads at a time. Not inlined, and so
  // static and with copies: whatever it had the address of would have to leave its registers.
  __device__ __noinline__ static void load_block(const WeightBlock (&blocks)[2], GroupShare a,
                                                 GroupShare b, int number, float* to) {
    constexpr int kAtOnce = 8;
    const int columns = a.each + b.each;
    const bool along_depth = blocks[0].input_stride == 1;
    for (int first = threadIdx.x % 32; first < columns * kDepth; first += 32 * kAtOnce) {
      float values[kAtOnce];
      int at[kAtOnce];
#pragma unroll
      for (int q = 0; q < kAtOnce; ++q) {
        const int i = first + 32 * q, column = along_depth ? i / kDepth : i % columns;
        const int k = along_depth ? i % kDepth : i / columns, n = number * kDepth + k;
        at[q] = i < columns * kDepth ? column * kDepth + k : -1;
        values[q] = at[q] < 0         ? 0.f
                    : column < a.each ? weight(blocks[0], a, column, n)
                                      : weight(blocks[1], b, column - a.each, n);
      }
#pragma unroll
      for (int q = 0; q < kAtOnce; ++q)
        if (at[q] >= 0) to[at[q]] = values[q];
    }
  }
  // Adds a block's product; its values make room for those of another one.
  template <int kFirst, int kCount>
  __device__ __forceinline__ void add(float4 (&values)[4], const float4* w, const GroupRows& rows,
                                      int next, int end) {
    Pair a[4][4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) a[i][e] = Pair(part_of(values[i], e));
    rows.load(next, end, values);
    add_block<kFirst, kCount>(a, w, sums_.c);
  }

  const int warp_, columns_, second_share_;
  const GroupRun runs_[2];
  const float* weights_[2];  // this lane's, of the warp's first block in shared memory
  float4 kept_[kKept > 0 ? kKept : 1][kTiles];
  GroupSums<kA, kB> sums_;
};

#endif

}  // namespace nru::kernels::cuda
