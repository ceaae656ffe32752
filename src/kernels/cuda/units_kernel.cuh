// What the kernels of all cells of gates share: products of the units that a CTA owns, and the
// exchange of what the next product reads.
//
// A step has one or two stages, and so has a step backward. A stage is
//
//   product     sums = W x, of the CTA's outputs over all inputs: x is what was exchanged last
//   pointwise   a thread per unit and row: from sums to new values, which it sends to all CTAs
//   receive     all of these values are here, from all CTAs
//
// with one barrier of the CTA, between product and pointwise.
//
// Exchanges take turns in two places. A CTA sends to a place again when it has received all values
// of the exchange in between; their senders were done with the product that read the place, since
// pointwise comes after the barrier. So every CTA must send something each time: it owns at least
// one unit.
#pragma once

#include <algorithm>

#include "kernels/cuda/cluster_kernel.cuh"
#include "kernels/cuda/units.h"

namespace nru::kernels::cuda {

#if NRU_CLUSTER_CODE

// Sum over a quad of lanes; lane r gets row r.
__device__ inline float quad_row_sum(float4 x) {
  const bool upper = threadIdx.x & 2, odd = threadIdx.x & 1;
  const float a = (upper ? x.z : x.x) + __shfl_xor_sync(kAllLanes, upper ? x.x : x.z, 2);
  const float b = (upper ? x.w : x.y) + __shfl_xor_sync(kAllLanes, upper ? x.y : x.w, 2);
  return (odd ? b : a) + __shfl_xor_sync(kAllLanes, odd ? a : b, 1);
}

#endif

// Sums of a CTA's outputs over 32 N inputs. Each warp makes some of the outputs: with weights in
// registers, and in shared memory what registers do not hold.
template <int kInRegisters, int kInShared, int N>
struct UnitProduct {
  static constexpr int kInputs = 32 * N, kOfWarp = kInRegisters + kInShared,
                       kOutputs = kClusterWarps * kOfWarp;
  static constexpr int kSharedVectors = SharedWeights<kInShared, N>::kSharedVectors;
  // Whether there is room for so many outputs (of all CTAs, `groups` of units) and inputs.
  static constexpr bool holds(int groups, int units, int inputs) {
    return groups * ((units + kClusterCtas - 1) / kClusterCtas) <= kOutputs && inputs <= kInputs;
  }

#if NRU_CLUSTER_CODE
  // `of(o, n)`: the weight of the CTA's output o and input n, zero where there is none.
  template <class F>
  __device__ __forceinline__ void load(float4* shared, const F& of) {
    shared_ = shared;
    const auto of_slot = [&](int slot, int n) {
      return of(static_cast<int>(threadIdx.x) / 32 * kOfWarp + Fold<kOfWarp>::output(slot), n);
    };
    in_registers_.load(nullptr, of_slot);
    in_shared_.load(shared, [&](int slot, int n) { return of_slot(kInRegisters + slot, n); });
  }

  // sums[o]: four rows.
  __device__ __forceinline__ void run(const float4* x, float4* sums) const {
    float4 mine[kOfWarp], w = zero4();
    clear(mine);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const float4 value = x[threadIdx.x % 32 + 32 * j];
      in_registers_.add(j, value, mine);
      in_shared_.add(shared_, j, value, w, mine + kInRegisters);
    }
    Fold<kOfWarp>::run(mine);
    float4* to = sums + static_cast<int>(threadIdx.x) / 32 * kOfWarp;
#pragma unroll
    for (int i = 0; i < Fold<kOfWarp>::kCount; ++i) {
      const float row = quad_row_sum(mine[i]);
      const int o = Fold<kOfWarp>::owned(i);
      if (o >= 0) number_at(to, o, threadIdx.x % 4) = row;
    }
  }

 private:
  const float4* shared_;
  RegisterWeights<kInRegisters, N> in_registers_;
  SharedWeights<kInShared, N> in_shared_;
#endif
};

inline constexpr int kUnitsAtOnce = kClusterThreads / kClusterRows;

// How many units a thread has to do with, where a CTA has `units`.
constexpr int units_of_thread(int units) { return (units + kUnitsAtOnce - 1) / kUnitsAtOnce; }

// Shared memory of a CTA.
template <class... Products>
struct UnitMemory {
  static constexpr int kInputs = std::max({Products::kInputs...}),
                       kOutputs = std::max({Products::kOutputs...});
  float4 values[2][kInputs];  // exchanged
  float4 sums[2][kOutputs];   // of products, in turns
  float4 weights[(Products::kSharedVectors + ... + 1)];
  alignas(16) std::uint64_t arrived[2];
};

#if NRU_CLUSTER_CODE

// The part of a CTA in a number of units; at least one if there are four.
struct UnitShare {
  int all, first, count, most;  // most: of any CTA
  __device__ UnitShare(int n, int rank)
      : all(n),
        first(rank * n / kClusterCtas),
        count((rank + 1) * n / kClusterCtas - first),
        most((n + kClusterCtas - 1) / kClusterCtas) {}

  // For UnitProduct::load(): outputs are `groups` of this share's units, the weight of unit j in
  // group g and of input n is at weights[(g * all + j) * output_stride + n * input_stride].
  struct Weights {
    const UnitShare& of;
    const float* data;
    int groups, inputs, output_stride, input_stride;
    __device__ float operator()(int o, int n) const {
      const int g = o / of.most, u = o % of.most;
      if (g >= groups || u >= of.count || n >= inputs) return 0.f;
      return data[static_cast<std::size_t>(g * of.all + of.first + u) * output_stride +
                  static_cast<std::size_t>(n) * input_stride];
    }
  };
  __device__ Weights weights(const Matrix& m, int groups, int inputs) const {
    return {*this, m.data, groups, inputs, m.ld, 1};
  }
  __device__ Weights transposed(const Matrix& m, int groups, int inputs) const {
    return {*this, m.data, groups, inputs, 1, m.ld};
  }
};

// One of the units that a thread has to do with.
struct OwnUnit {
  int place;  // among those of its CTA
  int j;      // among all
  bool exists;
  bool stored;  // and there is a row behind the thread's
  __device__ OwnUnit(const UnitShare& of, int u, bool used)
      : place(u), j(of.first + u), exists(u < of.count), stored(exists && used) {}
};

// A value of each row from the four lanes of a quad.
__device__ inline float4 rows_of_quad(float value) {
  const int first = threadIdx.x & 28;
  return make_float4(__shfl_sync(kAllLanes, value, first), __shfl_sync(kAllLanes, value, first + 1),
                     __shfl_sync(kAllLanes, value, first + 2),
                     __shfl_sync(kAllLanes, value, first + 3));
}

// What all cells' passes begin with. Thread i has to do with row i % 4 and the units i / 4,
// i / 4 + 64, ... of its CTA.
template <class Memory>
class UnitCta {
 protected:
  __device__ __forceinline__ UnitCta(const UnitSequence& of, Memory& memory)
      : s_(memory),
        at_(of.batch),
        row_(at_.row(at_.quad_lane)),
        used_(at_.used(at_.quad_lane)),
        values_there_(destination(at_, memory.values)),
        arrived_there_(destination(at_, memory.arrived)) {
    clear_shared(memory);
  }

  // When everything is loaded. `even` and `odd`: how many values all CTAs together send in the
  // exchanges of that number.
  __device__ __forceinline__ void begin(int even, int odd) {
    even_bytes_ = even * sizeof(float4);
    odd_bytes_ = odd * sizeof(float4);
    const ByteBarrier arrived_even(&s_.arrived[0]), arrived_odd(&s_.arrived[1]);
    if (threadIdx.x == 0) {
      arrived_even.initialise();
      arrived_odd.initialise();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      arrived_even.expect(even_bytes_);
      arrived_odd.expect(odd_bytes_);
    }
    cluster_barrier();
  }
  // No CTA may end while others still send to it.
  __device__ __forceinline__ void end() { cluster_barrier(); }

  __device__ __forceinline__ OwnUnit unit(const UnitShare& of, int i = 0) const {
    return {of, static_cast<int>(threadIdx.x) / kClusterRows + i * kUnitsAtOnce, used_};
  }
  // What all of a CTA's threads write and read between two exchanges has two places: 0 and 1 in
  // turns. When one is written again, the threads have met since the last of them read it.
  __device__ __forceinline__ int turn() const { return number_ & 1; }
  __device__ __forceinline__ float4* sums() { return s_.sums[turn()]; }
  __device__ __forceinline__ float sum(int output) const {
    return reinterpret_cast<const float*>(s_.sums[turn()] + output)[at_.quad_lane];
  }

  // What the first product reads.
  __device__ __forceinline__ float4* before() { return s_.values[1]; }

  // To place `index` of all CTAs, by all lanes of a warp: each has its row's value.
  __device__ __forceinline__ void send_row(bool does, int index, float value) const {
    const int place = turn();
    send(does, values_there_ + (place * Memory::kInputs + index) * sizeof(float4),
         rows_of_quad(value), arrived_there_ + place * sizeof(std::uint64_t));
  }
  __device__ __forceinline__ float4* receive() {
    const int place = turn();
    const ByteBarrier arrived(&s_.arrived[place]);
    arrived.wait(number_ >> 1 & 1);
    if (threadIdx.x == 0) arrived.expect(place == 0 ? even_bytes_ : odd_bytes_);
    ++number_;
    return s_.values[place];
  }

  // Adds the largest of all threads' magnitudes to what is there.
  __device__ __forceinline__ void store_largest(unsigned bits, unsigned* to) const {
    bits = __reduce_max_sync(kAllLanes, bits);
    if (to && at_.lane == 0) atomicMax(to, bits);
  }

  Memory& s_;
  const Place at_;
  const std::size_t row_;  // of the batch
  const bool used_;        // there is such a row

 private:
  std::uint32_t values_there_, arrived_there_;
  std::uint32_t even_bytes_, odd_bytes_;
  int number_ = 0;  // of the exchange
};

#endif

#ifndef NRU_EMULATED_CLUSTER

template <class Cta, class Memory, class Call>
__global__ void __launch_bounds__(kClusterThreads, 1)
    units_kernel(const __grid_constant__ Call call) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(16) unsigned char memory[];
  after_previous();
  Cta(call, *reinterpret_cast<Memory*>(memory)).run();
#elif defined(__CUDA_ARCH__)
  __trap();  // no code for this GPU, and garbage if chosen nevertheless: stop instead
#endif
}

template <class Cta, class Memory, class Call>
void launch_units(const char* name, const Call& call, cudaStream_t stream) {
  static_assert(sizeof(Memory) <= 227 * 1024);  // of a CTA, on compute capability 9
  launch_cluster(name, units_kernel<Cta, Memory, Call>, sizeof(Memory), call, stream);
}

#endif

// What the kernels of a cell are made with, and need.
template <class Shape, class ForwardMemory, class BackwardMemory>
class UnitKernels : public Persistent {
 public:
  static constexpr std::size_t kSharedBytes =
      std::max(sizeof(ForwardMemory), sizeof(BackwardMemory));
  UnitKernels(const Program<float>& program, const Shape& shape)
      : program_(program), shape_(shape) {}

 protected:
  static unsigned* largest_of(const PersistentForward& call, int part) {
    return call.largest ? call.largest + part : nullptr;
  }
  static UnitSequence sequence_of(const PersistentCall& call, int hidden) {
    return {call.steps, call.batch, hidden};
  }

  const Program<float>& program_;
  const Shape shape_;
};

}  // namespace nru::kernels::cuda
