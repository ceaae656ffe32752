// Backward kernel of the design "rows": see persistent_rows.h. In reverse the write comes first (D,
// the gradient of m, gives d_u), then h (d_u gives d_a), then D of the step before.
#include "kernels/cuda/persistent_rows.cuh"
#include "kernels/cuda/persistent_write_fast.cuh"

namespace nru::kernels::cuda {
namespace {

constexpr Barrier kMemoryReady = kFirstReady, kHeadsReady = kSecondReady,
                  kHiddenReady = kThirdReady;

template <class T>
struct Gradients {
  alignas(16) float D[T::kMemory];
  alignas(16) float d_u[T::kHeads];
  alignas(16) float d_a[T::kHidden];
};

template <class T>
__device__ void load_gradients(const RowsBackward& c, Gradients<T>& g) {
  const size_t row = blockIdx.x;
  for (int j = threadIdx.x; j < T::kMemory; j += T::kThreads)
    g.D[j] = c.final_m && j < c.write.m ? c.final_m[row * c.write.m + j] : 0.f;
  for (int j = threadIdx.x; j < T::kHeads; j += T::kThreads) g.d_u[j] = 0;
  for (int j = threadIdx.x; j < T::kHidden; j += T::kThreads) g.d_a[j] = 0;
}

// d_a = ReLU'(d_h), d_h = what arrives + W_uh^T d_u + W_hh^T d_a of the step after
template <class T>
struct HiddenRole {
  GroupLane at{static_cast<int>(threadIdx.x)};
  PathWeights<T, T::kHidden, T::kHeads> from_heads;
  OffPathWeights<T, T::kHidden, T::kHidden> from_hidden;
  static constexpr int kEach = T::each(T::kHidden), kSpace = decltype(from_hidden)::kValues;

  __device__ HiddenRole(const RowsBackward& c, float* space) {
    from_heads.load(transposed(c.uh, c.write.outputs, c.hidden), at, space);
    from_hidden.load(transposed(c.hh, c.hidden, c.hidden), at, space);
  }
  __device__ void run(const RowsBackward& c, Gradients<T>& g, int steps) const {
    const OwnValue mine = OwnValue::of<kEach>(at, T::kGroups, c.hidden);
    const int own = mine ? mine.index : 0;
    const auto arriving = [&](int t) {
      return mine && t >= max(c.bulk_first, 0) ? c.bulk[row_offset(c, t, c.ld_h) + own] : 0.f;
    };
    const auto h_of = [&](int t) {
      return mine && t >= 0 ? c.h[row_offset(c, t + 1, c.ld_h) + own] : 0.f;
    };
    float d = arriving(steps - 1), h = h_of(steps - 1), sum[kEach];
    const float last =
        mine && c.final_h ? c.final_h[blockIdx.x * static_cast<size_t>(c.hidden) + own] : 0.f;
    d += last;
    clear(sum);
    for (int t = steps; t-- > 0;) {
      await<kHeadsReady, T::kThreads>();
      from_heads.multiply_add(g.d_u, at, sum);
      const float d_a = relu_backward(h, group_sums(sum) + d);
      if (mine) g.d_a[own] = d_a;
      await<kHiddenReady, 2 * T::kRole>();
      if (t > 0) arrive<kMemoryReady, T::kThreads>();  // d_u has been read
      if (mine) c.d_a[row_offset(c, t, c.ld_h) + own] = d_a;
      d = arriving(t - 1);
      h = h_of(t - 1);
      clear(sum);
      from_hidden.multiply_add(g.d_a, at, sum);
    }
    const float initial = group_sums(sum) + (steps == 0 ? last : 0.f);
    if (mine) c.gradient_h[row_offset(c, 0, c.ld_h) + own] = initial;
  }
};

// D' = D + W_um^T d_u + W_hm^T d_a
template <class T>
struct MemoryRole {
  GroupLane at{static_cast<int>(threadIdx.x) - T::kRole};
  PathWeights<T, T::kMemory, T::kHidden> from_hidden;
  OffPathWeights<T, T::kMemory, T::kHeads> from_heads;
  static constexpr int kEach = T::each(T::kMemory), kSpace = decltype(from_heads)::kValues;

  __device__ MemoryRole(const RowsBackward& c, float* space) {
    from_hidden.load(transposed(c.hm, c.hidden, c.write.m), at, space);
    from_heads.load(transposed(c.um, c.write.outputs, c.write.m), at, space);
  }
  __device__ void run(const RowsBackward& c, Gradients<T>& g, int steps) const {
    const OwnValue mine = OwnValue::of<kEach>(at, T::kGroups, c.write.m);
    float D = mine ? g.D[mine.index] : 0.f;
    for (int t = steps; t-- > 0;) {
      float sum[kEach];
      clear(sum);
      await<kHeadsReady, T::kThreads>();
      from_heads.multiply_add(g.d_u, at, sum);
      await<kHiddenReady, 2 * T::kRole>();
      from_hidden.multiply_add(g.d_a, at, sum);
      D += group_sums(sum);
      if (mine) g.D[mine.index] = D;
      if (t > 0) arrive<kMemoryReady, T::kThreads>();
    }
    if (mine) c.gradient_m[row_offset(c, 0, c.ld_m) + mine.index] = D;
  }
};

// d_u from D. Norms and rows of the write are made one step ahead, u is loaded two steps ahead.
template <class T, bool kFast>
__device__ void run_write(const RowsBackward& c, Gradients<T>& g, int steps) {
  const NruWriteSizes& s = c.write;
  const WriteLane at(s);
  const auto u_of = [&](int t) { return c.u + row_offset(c, max(t, 0) + 1, c.ld_u); };
  FastWriteBackward fast;
  WriteBackward general;
  WriteSide raw[2];
  const auto load = [&](int t) {
    if constexpr (kFast) {
      fast.load(u_of(t));
    } else {
      raw[0].load(s, at, 0, u_of(t));
      raw[1].load(s, at, 1, u_of(t));
    }
  };
  FastWriteBackward ready;
  const auto prepare = [&] {
    if constexpr (kFast) {
      ready = fast;
      ready.prepare(s);
    } else {
      general.prepare(s, at, raw);
    }
  };
  load(steps - 1);
  prepare();
  load(steps - 2);
  for (int t = steps; t-- > 0;) {
    if (t < steps - 1) await<kMemoryReady, T::kThreads>();
    if (kFast && ready.fits) {
      ready.finish(g.D, g.d_u);
    } else {
      if constexpr (kFast) {
        for (int side = 0; side < 2; ++side) raw[side].load(s, at, side, u_of(t));
        general.prepare(s, at, raw);
      }
      general.finish(s, at, g.D, g.d_u);
    }
    arrive<kHeadsReady, T::kThreads>();
    __syncwarp();
    float* kept = c.d_u + row_offset(c, t, c.ld_u);
    for (int j = at.lane; j < s.outputs; j += 32) kept[j] = g.d_u[j];
    prepare();
    load(t - 2);
  }
}

// A finished row adds nothing to any weight.
template <class T>
__device__ void clear_finished(const RowsBackward& c, int steps) {
  for (int t = steps; t < c.steps; ++t) {
    float *d_a = c.d_a + row_offset(c, t, c.ld_h), *d_u = c.d_u + row_offset(c, t, c.ld_u);
    for (int j = threadIdx.x; j < c.hidden; j += T::kThreads) d_a[j] = 0;
    for (int j = threadIdx.x; j < c.write.outputs; j += T::kThreads) d_u[j] = 0;
  }
}

template <class T, bool kFast>
__global__ void __launch_bounds__(T::kThreads, 1)
    rows_backward_kernel(const __grid_constant__ RowsBackward c) {
  __shared__ Gradients<T> g;
  extern __shared__ float4 off_path[];
  float* space = reinterpret_cast<float*>(off_path);
  const int role = threadIdx.x / T::kRole;
  const auto begin = [&] {
    after_previous();
    load_gradients(c, g);
    const int steps = steps_of_row(c);
    clear_finished<T>(c, steps);
    await<kAll, T::kThreads>();
    return steps;
  };
  if (role == 0) {
    const HiddenRole<T> hidden(c, space);
    hidden.run(c, g, begin());
  } else if (role == 1) {
    const MemoryRole<T> memory(c, space + HiddenRole<T>::kSpace);
    memory.run(c, g, begin());
  } else {
    run_write<T, kFast>(c, g, begin());
  }
}

template <class T, bool kFast>
void launch_backward(const RowsBackward& call, cudaStream_t stream) {
  constexpr std::size_t kBytes = sizeof(float) * (HiddenRole<T>::kSpace + MemoryRole<T>::kSpace);
  const auto kernel = rows_backward_kernel<T, kFast>;
  allow_shared_memory("nru_rows_backward", reinterpret_cast<const void*>(kernel), kBytes);
  launch("nru_rows_backward", call.batch, call.hidden, kernel,
         {dim3(call.batch), dim3(T::kThreads), kBytes}, stream, call);
}

}  // namespace

void rows_backward(int shape, const RowsBackward& call, cudaStream_t stream) {
  run_rows_tile(shape, call.write, [&](auto tile, auto fast) {
    launch_backward<decltype(tile), decltype(fast)::value>(call, stream);
  });
}

}  // namespace nru::kernels::cuda
