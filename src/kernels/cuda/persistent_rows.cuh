// What the forward and the backward kernel of the design "rows" share: the layout of the threads,
// products with resident weights, barriers between roles.
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

#include "kernels/cuda/barriers.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/math.cuh"
#include "kernels/cuda/persistent_rows.h"
#include "kernels/cuda/steps.cuh"

namespace nru::kernels::cuda {

inline constexpr int kGroup = 8;  // lanes that share the inputs of an output
inline constexpr int kMaxEach = 8;

constexpr int divided_up(int a, int b) { return (a + b - 1) / b; }

// A compiled shape. Two roles of `kWarps` warps do the products, one warp the memory's write. Small
// networks are in registers as a whole; of larger ones the weights off the path lie in shared
// memory.
template <int kHiddenSize, int kMemorySize, int kHeadsSize, int kWarpsOfRole, bool kSharedOffPath>
struct Tile {
  static constexpr int kHidden = kHiddenSize, kMemory = kMemorySize, kHeads = kHeadsSize;
  static constexpr bool kShared = kSharedOffPath;
  static constexpr int kRole = 32 * kWarpsOfRole, kThreads = 2 * kRole + 32;
  static constexpr int kGroups = kRole / kGroup;                                   // of a role
  static constexpr int each(int outputs) { return divided_up(outputs, kGroups); }  // of a group
  static constexpr int kMemoryEach = divided_up(kMemory, 32);  // of a lane of the write's warp
  static_assert(kHidden % 16 == 0 && kMemory % 16 == 0 && kHeads % 16 == 0);
};
// Those of kRowsShapes.
using SmallRows = Tile<80, 64, 80, 4, false>;
using WideRows = Tile<128, 64, 80, 4, true>;
using LargeRows = Tile<128, 144, 128, 8, true>;

// A step goes round: the write's warp hands its vector to both roles, the role of h hands h to
// itself and to the other role, and that one hands over to the write's warp. Who made a vector
// arrives at a barrier where those wait who need it; its count is that of both. The other role has
// waited for h, so the write's warp knows that h is made, and what it wrote read, by all.
//
// Three hand-overs in turn need three waits of each role for racecheck (barriers.cuh): the roles
// wait once more a step, the write's warp twice, while there is nothing for them to do. Vectors
// whose readers may still be at it when the next one is made have two places that take turns.
enum Barrier {
  kWrittenForHidden = 1,
  kWrittenForOther,
  kHiddenForHidden,
  kHiddenForOther,
  kReadyForWrite,
  kStart,             // and the two after it
  kEnd = kStart + 3,  // likewise: some may be at the end before others know of the start
  kMeasured = kEnd,   // the backward kernel does not meet at its end; a place for each role
  kHiddenAgain = kEnd + 3,
  kOtherAgain,
  kWriteAgain,
  kWriteOnceMore,
};
static_assert(kWriteOnceMore < 16);
inline constexpr int kHiddenRole = 0, kOtherRole = 1, kWriteRole = 2, kRoles = 3;

// All threads of the CTA meet, each role at a place of its own in the code.
template <class T, int kWhen, int kRole>
__device__ inline void meet_all() {
  arrive<kWhen + (kRole + 1) % kRoles, T::kThreads>();
  arrive<kWhen + (kRole + 2) % kRoles, T::kThreads>();
  await<kWhen + kRole, T::kThreads>();
}

// By the write's warp, its vector being made.
template <class T>
__device__ inline void hand_to_roles() {
  arrive<kWrittenForHidden, T::kRole + 32>();
  arrive<kWrittenForOther, T::kRole + 32>();
}
// By the write's warp, before it needs the other role's vector.
template <class T>
__device__ inline void await_other() {
  await<kWriteAgain, 32>();
  await<kWriteOnceMore, 32>();
  await<kReadyForWrite, T::kRole + 32>();
}
// By the role of h, its vector being made.
template <class T>
__device__ inline void hand_over_hidden() {
  arrive<kHiddenForOther, 2 * T::kRole>();
  await<kHiddenForHidden, T::kRole>();
}

// Sums of kCount values over the lanes of a group. A lane ends up with the sum of one of them,
// owned_value(): each round halves what a lane still has to add up.
template <int kMask, int kCount>
__device__ inline float group_sums(const float (&v)[kCount], int lane) {
  if constexpr (kMask == 0) {
    return v[0];
  } else {
    constexpr int kHalf = divided_up(kCount, 2);
    const bool upper = lane & kMask;
    float kept[kHalf];
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      if constexpr (kCount == 1) {
        kept[i] = v[i] + __shfl_xor_sync(kAllLanes, v[i], kMask);
      } else {
        const float low = v[i],
                    high = i + kHalf < kCount ? v[i + kHalf < kCount ? i + kHalf : 0] : 0.f;
        kept[i] = (upper ? high : low) + __shfl_xor_sync(kAllLanes, upper ? low : high, kMask);
      }
    }
    return group_sums<kMask / 2>(kept, lane);
  }
}
template <int kCount>
__device__ inline float group_sums(const float (&v)[kCount]) {
  static_assert(kCount <= kMaxEach);
  return group_sums<kGroup / 2>(v, static_cast<int>(threadIdx.x % kGroup));
}

// Which of the values, or -1 if another lane has it.
__device__ inline int owned_value(int count) {
  int first = 0, left = count, n = count;
  for (int mask = kGroup / 2; mask > 0; mask /= 2) {
    const bool upper = threadIdx.x % kGroup & mask;
    if (n == 1) {
      if (upper) left = 0;
      continue;
    }
    const int half = divided_up(n, 2);
    first += upper ? half : 0;
    left = upper ? left - half : min(left, half);
    n = half;
  }
  return left > 0 ? first : -1;
}

// A vector of an input, of kLength values: a lane of a group takes every eighth vector.
template <int kLength>
struct Spread {
  static constexpr int kVector = kLength % (4 * kGroup) == 0 ? 4 : 2;
  static constexpr int kChunks = kLength / (kVector * kGroup);
  static constexpr int kEach = kVector * kChunks;  // values of a lane
  __device__ static int index(int lane, int j) {
    return kVector * (lane + kGroup * (j / kVector)) + j % kVector;
  }
  __device__ static void load(const float* x, int lane, int chunk, float (&values)[kVector]) {
    const float* from = x + kVector * (lane + kGroup * chunk);
    if constexpr (kVector == 4) {
      const float4 v = *reinterpret_cast<const float4*>(from);
      values[0] = v.x, values[1] = v.y, values[2] = v.z, values[3] = v.w;
    } else {
      const float2 v = *reinterpret_cast<const float2*>(from);
      values[0] = v.x, values[1] = v.y;
    }
  }
};

// Who computes what: output i of a group is number i * groups + group of the role.
struct GroupLane {
  int group, lane;
  __device__ explicit GroupLane(int thread_of_role)
      : group(thread_of_role / kGroup), lane(thread_of_role % kGroup) {}
};

// How a block of weights is read: output o, input n at data[o * output_step + n * input_step].
struct WeightSource {
  const float* data;
  int output_step, input_step, outputs, inputs;
  __device__ float at(int o, int n) const {
    return o < outputs && n < inputs ? data[static_cast<size_t>(o) * output_step + n * input_step]
                                     : 0.f;
  }
};
__device__ inline WeightSource as_stored(const RowsBlock& b, int outputs, int inputs) {
  return {b.data, b.ld, 1, outputs, inputs};
}
__device__ inline WeightSource transposed(const RowsBlock& b, int outputs, int inputs) {
  return {b.data, 1, b.ld, inputs, outputs};
}

// A lane's share of a product with weights in registers.
template <int kEachOutputs, int kInputs, int kGroups>
struct HeldWeights {
  using X = Spread<kInputs>;
  static constexpr int kValues = 0;  // in shared memory
  float w[kEachOutputs][X::kEach];

  __device__ void load(const WeightSource& from, const GroupLane& at, float*) {
#pragma unroll
    for (int i = 0; i < kEachOutputs; ++i)
#pragma unroll
      for (int j = 0; j < X::kEach; ++j)
        w[i][j] = from.at(i * kGroups + at.group, X::index(at.lane, j));
  }
  __device__ void multiply_add(const float* x, const GroupLane& at,
                               float (&sum)[kEachOutputs]) const {
#pragma unroll
    for (int chunk = 0; chunk < X::kChunks; ++chunk) {
      float values[X::kVector];
      X::load(x, at.lane, chunk, values);
#pragma unroll
      for (int e = 0; e < X::kVector; ++e)
#pragma unroll
        for (int i = 0; i < kEachOutputs; ++i)
          sum[i] = fmaf(w[i][chunk * X::kVector + e], values[e], sum[i]);
    }
  }
};

// The same with weights in shared memory, each thread's own in the order in which it needs them.
template <int kEachOutputs, int kInputs, int kGroups>
struct SharedWeights {
  using X = Spread<kInputs>;
  static constexpr int kThreads = kGroups * kGroup;
  static constexpr int kVectors = divided_up(kEachOutputs * X::kEach, 4);
  static constexpr int kValues = 4 * kVectors * kThreads;
  const float4* mine;

  __device__ void load(const WeightSource& from, const GroupLane& at, float* space) {
    float4* to = reinterpret_cast<float4*>(space) + at.group * kGroup + at.lane;
    mine = to;
    for (int v = 0; v < kVectors; ++v) {
      float four[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int j = (4 * v + e) / kEachOutputs, i = (4 * v + e) % kEachOutputs;
        four[e] = j < X::kEach ? from.at(i * kGroups + at.group, X::index(at.lane, j)) : 0.f;
      }
      to[v * kThreads] = make_float4(four[0], four[1], four[2], four[3]);
    }
  }
  __device__ void multiply_add(const float* x, const GroupLane& at,
                               float (&sum)[kEachOutputs]) const {
    float w[4];
#pragma unroll
    for (int chunk = 0; chunk < X::kChunks; ++chunk) {
      float values[X::kVector];
      X::load(x, at.lane, chunk, values);
#pragma unroll
      for (int e = 0; e < X::kVector; ++e)
#pragma unroll
        for (int i = 0; i < kEachOutputs; ++i) {
          const int index = (chunk * X::kVector + e) * kEachOutputs + i;
          if (index % 4 == 0) {
            const float4 v = mine[index / 4 * kThreads];
            w[0] = v.x, w[1] = v.y, w[2] = v.z, w[3] = v.w;
          }
          sum[i] = fmaf(w[index % 4], values[e], sum[i]);
        }
    }
  }
};

// Weights of the path, and of a product beside it.
template <class T, int kOutputs, int kInputs>
using PathWeights = HeldWeights<T::each(kOutputs), kInputs, T::kGroups>;
template <class T, int kOutputs, int kInputs>
using OffPathWeights =
    std::conditional_t<T::kShared, SharedWeights<T::each(kOutputs), kInputs, T::kGroups>,
                       HeldWeights<T::each(kOutputs), kInputs, T::kGroups>>;

template <int kCount>
__device__ inline void clear(float (&v)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) v[i] = 0;
}

// Steps of this CTA's row before it is finished.
__device__ inline int steps_of_row(const RowsCall& c) {
  return steps_before_end(c.lengths, blockIdx.x, c.begin, c.steps);
}

// The role's own value of one step: number `index` of this CTA's row in storage [.., batch, ld].
struct OwnValue {
  int index;  // -1: none
  template <int kEachOutputs>
  __device__ static OwnValue of(const GroupLane& at, int groups, int outputs) {
    const int i = owned_value(kEachOutputs);
    const int o = i * groups + at.group;
    return {i >= 0 && o < outputs ? o : -1};
  }
  __device__ explicit operator bool() const { return index >= 0; }
};

__device__ inline size_t row_offset(const RowsCall& c, int slot, int ld) {
  return (static_cast<size_t>(slot) * c.batch + blockIdx.x) * ld;
}

}  // namespace nru::kernels::cuda
