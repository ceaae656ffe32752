// Forward pass of the design "rows": see persistent_rows.h.
#pragma once

#include "kernels/cuda/persistent_rows.cuh"
#include "kernels/cuda/persistent_write_fast.cuh"

namespace nru::kernels::cuda {

template <class T>
struct Vectors {
  alignas(16) float h[2][T::kHidden];  // of step t: [t % 2]
  alignas(16) float m[T::kMemory];
  alignas(16) float u[2][T::kHeads];
  alignas(16) float terms[32];
};

// Brings slot 0 into shared memory; the padding is zero.
template <class T>
__device__ void load_states(const RowsForward& c, Vectors<T>& v) {
  const float *h = c.h + row_offset(c, 0, c.ld_h), *m = c.m + row_offset(c, 0, c.ld_m);
  for (int j = threadIdx.x; j < T::kHidden; j += T::kThreads) {
    v.h[0][j] = 0;
    v.h[1][j] = j < c.hidden ? h[j] : 0.f;
  }
  for (int j = threadIdx.x; j < T::kMemory; j += T::kThreads) v.m[j] = j < c.write.m ? m[j] : 0.f;
  for (int j = threadIdx.x; j < T::kHeads; j += T::kThreads) v.u[0][j] = v.u[1][j] = 0;
}

// h = ReLU(x + W_hh h' + W_hm m')
template <class T>
struct ForwardHidden {
  GroupLane at{static_cast<int>(threadIdx.x)};
  PathWeights<T, T::kHidden, T::kMemory> from_memory;
  OffPathWeights<T, T::kHidden, T::kHidden> from_hidden;
  static constexpr int kEach = T::each(T::kHidden), kSpace = decltype(from_hidden)::kValues;

  __device__ ForwardHidden(const RowsForward& c, float* space) {
    from_memory.load(as_stored(c.hm, c.hidden, c.write.m), at, space);
    from_hidden.load(as_stored(c.hh, c.hidden, c.hidden), at, space);
  }
  __device__ void run(const RowsForward& c, Vectors<T>& v, int steps) const {
    const OwnValue mine = OwnValue::of<kEach>(at, T::kGroups, c.hidden);
    const size_t step = static_cast<size_t>(c.batch) * c.ld_h;
    float* slot = c.h + row_offset(c, 1, c.ld_h) + (mine ? mine.index : 0);
    float x = mine && steps > 0 ? *slot : 0.f, sum[kEach];
    unsigned largest = 0;
    clear(sum);
    from_hidden.multiply_add(v.h[1], at, sum);
    for (int t = 0; t < steps; ++t) {
      await<kWrittenForHidden, T::kRole + 32>();
      from_memory.multiply_add(v.m, at, sum);
      const float h = relu(group_sums(sum) + x);
      if (mine) v.h[t % 2][mine.index] = h;
      hand_over_hidden<T>();
      if (mine) {
        *slot = h;
        slot += step;
        if (t + 1 < steps) x = *slot;
        largest = max(largest, magnitude_bits(h));
      }
      clear(sum);
      from_hidden.multiply_add(v.h[t % 2], at, sum);
      await<kHiddenAgain, T::kRole>();
    }
    largest = __reduce_max_sync(kAllLanes, largest);
    if (c.largest_h && threadIdx.x % 32 == 0) atomicMax(c.largest_h, largest);
  }
};

// u = x + W_uh h + W_um m'
template <class T>
struct ForwardHeads {
  GroupLane at{static_cast<int>(threadIdx.x) - T::kRole};
  PathWeights<T, T::kHeads, T::kHidden> from_hidden;
  OffPathWeights<T, T::kHeads, T::kMemory> from_memory;
  static constexpr int kEach = T::each(T::kHeads), kSpace = decltype(from_memory)::kValues;

  __device__ ForwardHeads(const RowsForward& c, float* space) {
    from_hidden.load(as_stored(c.uh, c.write.outputs, c.hidden), at, space);
    from_memory.load(as_stored(c.um, c.write.outputs, c.write.m), at, space);
  }
  __device__ void run(const RowsForward& c, Vectors<T>& v, int steps) const {
    const OwnValue mine = OwnValue::of<kEach>(at, T::kGroups, c.write.outputs);
    const bool strength = c.write.limit > 0 && mine.index < 2 * c.write.k;
    const size_t step = static_cast<size_t>(c.batch) * c.ld_u;
    float* slot = c.u + row_offset(c, 1, c.ld_u) + (mine ? mine.index : 0);
    float x = mine && steps > 0 ? *slot : 0.f;
    for (int t = 0; t < steps; ++t) {
      float sum[kEach];
      clear(sum);
      await<kWrittenForOther, T::kRole + 32>();
      from_memory.multiply_add(v.m, at, sum);
      await<kHiddenForOther, 2 * T::kRole>();
      from_hidden.multiply_add(v.h[t % 2], at, sum);
      float u = group_sums(sum) + x;
      if (strength) u = cut_off(u, c.write.limit);
      if (mine) {
        v.u[t % 2][mine.index] = u;
        *slot = u;  // before the write's warp may have to set it to zero
      }
      arrive<kReadyForWrite, T::kRole + 32>();
      if (mine) {
        slot += step;
        if (t + 1 < steps) x = *slot;
      }
      await<kOtherAgain, T::kRole>();
    }
  }
};

// m = m' + write(u)
template <class T, bool kFast>
__device__ void run_forward_write(const RowsForward& c, Vectors<T>& v, int steps) {
  constexpr int kEach = T::kMemoryEach;
  const int lane = threadIdx.x % 32;
  float m[kEach];
#pragma unroll
  for (int j = 0; j < kEach; ++j) m[j] = lane + 32 * j < c.write.m ? v.m[lane + 32 * j] : 0.f;
  unsigned largest = 0;
  if (steps > 0) hand_to_roles<T>();
  for (int t = 0; t < steps; ++t) {
    await_other<T>();
    const float* u = v.u[t % 2];
    const bool written = kFast && write_forward_fast(c.write, u, v.terms, m);
    if (!written) {
      write_forward(c.write, u, c.u + row_offset(c, t + 1, c.ld_u), c.events + blockIdx.x * kEvents,
                    m);
    }
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      if (lane + 32 * j < c.write.m) v.m[lane + 32 * j] = m[j];
    }
    if (t + 1 < steps) hand_to_roles<T>();
    float* slot = c.m + row_offset(c, t + 1, c.ld_m) + lane;
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      if (lane + 32 * j >= c.write.m) continue;
      slot[32 * j] = m[j];
      largest = max(largest, magnitude_bits(m[j]));
    }
  }
  largest = __reduce_max_sync(kAllLanes, largest);
  if (c.largest_m && lane == 0) atomicMax(c.largest_m, largest);
}

// A finished row keeps its states.
template <class T, int kRole>
__device__ void hold_states(const RowsForward& c, const Vectors<T>& v, int steps) {
  if (steps == c.steps) return;
  meet_all<T, kEnd, kRole>();
  const float* last = v.h[(steps + 1) % 2];
  for (int t = steps; t < c.steps; ++t) {
    float *h = c.h + row_offset(c, t + 1, c.ld_h), *m = c.m + row_offset(c, t + 1, c.ld_m);
    for (int j = threadIdx.x; j < c.hidden; j += T::kThreads) h[j] = last[j];
    for (int j = threadIdx.x; j < c.write.m; j += T::kThreads) m[j] = v.m[j];
  }
}

// The CTA of a row. The weights do not depend on the kernel before, which is one of this call (the
// input's share): they are on their way while that one still runs.
template <class T, bool kFast>
struct RowForward {
  static constexpr int kSpace = ForwardHidden<T>::kSpace + ForwardHeads<T>::kSpace;
  using Shared = Vectors<T>;

  __device__ static void run(const RowsForward& c, Vectors<T>& v, float* space) {
    const int role = threadIdx.x / T::kRole;
    if (role == kHiddenRole) {
      const ForwardHidden<T> hidden(c, space);
      const int steps = begin<kHiddenRole>(c, v);
      hidden.run(c, v, steps);
      hold_states<T, kHiddenRole>(c, v, steps);
    } else if (role == kOtherRole) {
      const ForwardHeads<T> heads(c, space + ForwardHidden<T>::kSpace);
      const int steps = begin<kOtherRole>(c, v);
      heads.run(c, v, steps);
      hold_states<T, kOtherRole>(c, v, steps);
    } else {
      const int steps = begin<kWriteRole>(c, v);
      run_forward_write<T, kFast>(c, v, steps);
      hold_states<T, kWriteRole>(c, v, steps);
    }
  }

 private:
  template <int kRole>
  __device__ static int begin(const RowsForward& c, Vectors<T>& v) {
    after_previous();
    load_states(c, v);
    meet_all<T, kStart, kRole>();
    return steps_of_row(c);
  }
};

}  // namespace nru::kernels::cuda
