// Forward kernel of the design "rows": see persistent_rows.h.
#include "kernels/cuda/persistent_rows.cuh"
#include "kernels/cuda/persistent_write_fast.cuh"

namespace nru::kernels::cuda {
namespace {

constexpr Barrier kMemoryReady = kFirstReady, kHiddenReady = kSecondReady,
                  kHeadsReady = kThirdReady;

template <class T>
struct Vectors {
  alignas(16) float h[T::kHidden];
  alignas(16) float m[T::kMemory];
  alignas(16) float u[T::kHeads];
  alignas(16) float terms[32];
  unsigned largest_h[T::kRole / 32];
};

// Brings slot 0 into shared memory; the padding is zero.
template <class T>
__device__ void load_states(const RowsForward& c, Vectors<T>& v) {
  const float *h = c.h + row_offset(c, 0, c.ld_h), *m = c.m + row_offset(c, 0, c.ld_m);
  for (int j = threadIdx.x; j < T::kHidden; j += T::kThreads) v.h[j] = j < c.hidden ? h[j] : 0.f;
  for (int j = threadIdx.x; j < T::kMemory; j += T::kThreads) v.m[j] = j < c.write.m ? m[j] : 0.f;
  for (int j = threadIdx.x; j < T::kHeads; j += T::kThreads) v.u[j] = 0;
}

// h = ReLU(x + W_hh h' + W_hm m')
template <class T>
struct HiddenRole {
  GroupLane at{static_cast<int>(threadIdx.x)};
  PathWeights<T, T::kHidden, T::kMemory> from_memory;
  OffPathWeights<T, T::kHidden, T::kHidden> from_hidden;
  static constexpr int kEach = T::each(T::kHidden), kSpace = decltype(from_hidden)::kValues;

  __device__ HiddenRole(const RowsForward& c, float* space) {
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
    from_hidden.multiply_add(v.h, at, sum);
    for (int t = 0; t < steps; ++t) {
      await<kMemoryReady, T::kThreads>();
      from_memory.multiply_add(v.m, at, sum);
      const float h = relu(group_sums(sum) + x);
      if (mine) v.h[mine.index] = h;
      await<kHiddenReady, 2 * T::kRole>();
      arrive<kHeadsReady, T::kThreads>();  // m' has been read
      if (mine) {
        *slot = h;
        slot += step;
        if (t + 1 < steps) x = *slot;
        largest = max(largest, magnitude_bits(h));
      }
      clear(sum);
      from_hidden.multiply_add(v.h, at, sum);
    }
    largest = __reduce_max_sync(kAllLanes, largest);
    if (c.largest_h && threadIdx.x % 32 == 0) atomicMax(c.largest_h, largest);
  }
};

// u = x + W_uh h + W_um m'
template <class T>
struct HeadsRole {
  GroupLane at{static_cast<int>(threadIdx.x) - T::kRole};
  PathWeights<T, T::kHeads, T::kHidden> from_hidden;
  OffPathWeights<T, T::kHeads, T::kMemory> from_memory;
  static constexpr int kEach = T::each(T::kHeads), kSpace = decltype(from_memory)::kValues;

  __device__ HeadsRole(const RowsForward& c, float* space) {
    from_hidden.load(as_stored(c.uh, c.write.outputs, c.hidden), at, space);
    from_memory.load(as_stored(c.um, c.write.outputs, c.write.m), at, space);
  }
  __device__ void run(const RowsForward& c, Vectors<T>& v, int steps) const {
    const OwnValue mine = OwnValue::of<kEach>(at, T::kGroups, c.write.outputs);
    const size_t step = static_cast<size_t>(c.batch) * c.ld_u;
    float* slot = c.u + row_offset(c, 1, c.ld_u) + (mine ? mine.index : 0);
    float x = mine && steps > 0 ? *slot : 0.f;
    for (int t = 0; t < steps; ++t) {
      float sum[kEach];
      clear(sum);
      await<kMemoryReady, T::kThreads>();
      from_memory.multiply_add(v.m, at, sum);
      await<kHiddenReady, 2 * T::kRole>();
      from_hidden.multiply_add(v.h, at, sum);
      const float u = group_sums(sum) + x;
      if (mine) {
        v.u[mine.index] = u;
        *slot = u;  // before the write's warp may have to set it to zero
      }
      arrive<kHeadsReady, T::kThreads>();
      if (mine) {
        slot += step;
        if (t + 1 < steps) x = *slot;
      }
    }
  }
};

// m = m' + write(u)
template <class T, bool kFast>
__device__ void run_write(const RowsForward& c, Vectors<T>& v, int steps) {
  constexpr int kEach = T::kMemoryEach;
  const int lane = threadIdx.x % 32;
  float m[kEach];
#pragma unroll
  for (int j = 0; j < kEach; ++j) m[j] = lane + 32 * j < c.write.m ? v.m[lane + 32 * j] : 0.f;
  unsigned largest = 0;
  if (steps > 0) arrive<kMemoryReady, T::kThreads>();
  for (int t = 0; t < steps; ++t) {
    await<kHeadsReady, T::kThreads>();
    const bool written = kFast && write_forward_fast(c.write, v.u, v.terms, m);
    if (!written) {
      write_forward(c.write, v.u, c.u + row_offset(c, t + 1, c.ld_u),
                    c.events + blockIdx.x * kEvents, m);
    }
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      if (lane + 32 * j < c.write.m) v.m[lane + 32 * j] = m[j];
    }
    if (t + 1 < steps) arrive<kMemoryReady, T::kThreads>();
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
template <class T>
__device__ void hold_states(const RowsForward& c, const Vectors<T>& v, int steps) {
  for (int t = steps; t < c.steps; ++t) {
    float *h = c.h + row_offset(c, t + 1, c.ld_h), *m = c.m + row_offset(c, t + 1, c.ld_m);
    for (int j = threadIdx.x; j < c.hidden; j += T::kThreads) h[j] = v.h[j];
    for (int j = threadIdx.x; j < c.write.m; j += T::kThreads) m[j] = v.m[j];
  }
}

// The weights do not depend on the kernel before, which is one of this call (the input's share):
// they are on their way while that one still runs.
template <class T, bool kFast>
__global__ void __launch_bounds__(T::kThreads, 1)
    rows_forward_kernel(const __grid_constant__ RowsForward c) {
  __shared__ Vectors<T> v;
  extern __shared__ float4 off_path[];
  float* space = reinterpret_cast<float*>(off_path);
  const int role = threadIdx.x / T::kRole;
  const auto begin = [&] {
    after_previous();
    load_states(c, v);
    await<kAll, T::kThreads>();
    return steps_of_row(c);
  };
  int steps;
  if (role == 0) {
    const HiddenRole<T> hidden(c, space);
    hidden.run(c, v, steps = begin());
  } else if (role == 1) {
    const HeadsRole<T> heads(c, space + HiddenRole<T>::kSpace);
    heads.run(c, v, steps = begin());
  } else {
    steps = begin();
    run_write<T, kFast>(c, v, steps);
  }
  if (steps == c.steps) return;
  await<kAll, T::kThreads>();
  hold_states(c, v, steps);
}

template <class T, bool kFast>
void launch_forward(const RowsForward& call, cudaStream_t stream) {
  constexpr std::size_t kBytes = sizeof(float) * (HiddenRole<T>::kSpace + HeadsRole<T>::kSpace);
  const auto kernel = rows_forward_kernel<T, kFast>;
  allow_shared_memory("nru_rows_forward", reinterpret_cast<const void*>(kernel), kBytes);
  launch("nru_rows_forward", call.batch, call.hidden, kernel,
         {dim3(call.batch), dim3(T::kThreads), kBytes}, stream, call);
}

}  // namespace

void rows_forward(int shape, const RowsForward& call, cudaStream_t stream) {
  run_rows_tile(shape, call.write, [&](auto tile, auto fast) {
    launch_forward<decltype(tile), decltype(fast)::value>(call, stream);
  });
}

}  // namespace nru::kernels::cuda
