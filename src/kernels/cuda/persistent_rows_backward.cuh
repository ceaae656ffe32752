// Backward pass of the design "rows": see persistent_rows.h. In reverse the write comes first (D,
// the gradient of m, gives d_u), then h (d_u gives d_a), then D of the step before.
#pragma once

#include "kernels/cuda/persistent_rows.cuh"
#include "kernels/cuda/persistent_write_fast.cuh"

namespace nru::kernels::cuda {

template <class T>
struct Gradients {
  alignas(16) float D[2][T::kMemory];  // that step t reads: [t % 2]
  alignas(16) float d_u[T::kHeads];
  alignas(16) float d_a[2][T::kHidden];  // of step t: [t % 2]
};

template <class T>
__device__ void load_gradients(const RowsBackward& c, Gradients<T>& g, int steps) {
  const size_t row = blockIdx.x;
  for (int j = threadIdx.x; j < T::kMemory; j += T::kThreads) {
    g.D[steps % 2][j] = 0;
    g.D[(steps + 1) % 2][j] = c.final_m && j < c.write.m ? c.final_m[row * c.write.m + j] : 0.f;
  }
  for (int j = threadIdx.x; j < T::kHeads; j += T::kThreads) g.d_u[j] = 0;
  for (int j = threadIdx.x; j < T::kHidden; j += T::kThreads) g.d_a[0][j] = g.d_a[1][j] = 0;
}

// d_a = ReLU'(d_h), d_h = what arrives + W_uh^T d_u + W_hh^T d_a of the step after
template <class T>
struct BackwardHidden {
  GroupLane at{static_cast<int>(threadIdx.x)};
  PathWeights<T, T::kHidden, T::kHeads> from_heads;
  OffPathWeights<T, T::kHidden, T::kHidden> from_hidden;
  static constexpr int kEach = T::each(T::kHidden), kSpace = decltype(from_hidden)::kValues;

  __device__ BackwardHidden(const RowsBackward& c, float* space) {
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
      await<kWrittenForHidden, T::kRole + 32>();
      from_heads.multiply_add(g.d_u, at, sum);
      const float d_a = relu_backward(h, group_sums(sum) + d);
      if (mine) g.d_a[t % 2][own] = d_a;
      hand_over_hidden<T>();
      if (mine) c.d_a[row_offset(c, t, c.ld_h) + own] = d_a;
      d = arriving(t - 1);
      h = h_of(t - 1);
      clear(sum);
      from_hidden.multiply_add(g.d_a[t % 2], at, sum);
      await<kHiddenAgain, T::kRole>();
    }
    const float initial = group_sums(sum) + (steps == 0 ? last : 0.f);
    if (mine) c.gradient_h[row_offset(c, 0, c.ld_h) + own] = initial;
  }
};

// D' = D + W_um^T d_u + W_hm^T d_a
template <class T>
struct BackwardMemory {
  GroupLane at{static_cast<int>(threadIdx.x) - T::kRole};
  PathWeights<T, T::kMemory, T::kHidden> from_hidden;
  OffPathWeights<T, T::kMemory, T::kHeads> from_heads;
  static constexpr int kEach = T::each(T::kMemory), kSpace = decltype(from_heads)::kValues;

  __device__ BackwardMemory(const RowsBackward& c, float* space) {
    from_hidden.load(transposed(c.hm, c.hidden, c.write.m), at, space);
    from_heads.load(transposed(c.um, c.write.outputs, c.write.m), at, space);
  }
  __device__ void run(const RowsBackward& c, Gradients<T>& g, int steps) const {
    const OwnValue mine = OwnValue::of<kEach>(at, T::kGroups, c.write.m);
    float D = mine ? g.D[(steps + 1) % 2][mine.index] : 0.f;
    for (int t = steps; t-- > 0;) {
      float sum[kEach];
      clear(sum);
      await<kWrittenForOther, T::kRole + 32>();
      from_heads.multiply_add(g.d_u, at, sum);
      await<kHiddenForOther, 2 * T::kRole>();
      from_hidden.multiply_add(g.d_a[t % 2], at, sum);
      D += group_sums(sum);
      if (mine) g.D[(t + 1) % 2][mine.index] = D;
      if (t > 0) arrive<kReadyForWrite, T::kRole + 32>();
      await<kOtherAgain, T::kRole>();
    }
    if (mine) c.gradient_m[row_offset(c, 0, c.ld_m) + mine.index] = D;
  }
};

// d_u from D. Norms and rows of the write are made one step ahead, u is loaded two steps ahead.
template <class T, bool kFast>
__device__ void run_backward_write(const RowsBackward& c, Gradients<T>& g, int steps) {
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
    if (t < steps - 1) await_other<T>();
    if (kFast && ready.fits) {
      ready.finish(g.D[t % 2], g.d_u);
    } else {
      if constexpr (kFast) {
        for (int side = 0; side < 2; ++side) raw[side].load(s, at, side, u_of(t));
        general.prepare(s, at, raw);
      }
      general.finish(s, at, g.D[t % 2], g.d_u);
    }
    hand_to_roles<T>();
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

// The CTA of a row.
template <class T, bool kFast>
struct RowBackward {
  static constexpr int kSpace = BackwardHidden<T>::kSpace + BackwardMemory<T>::kSpace;
  using Shared = Gradients<T>;

  __device__ static void run(const RowsBackward& c, Gradients<T>& g, float* space) {
    const int role = threadIdx.x / T::kRole;
    if (role == kHiddenRole) {
      const BackwardHidden<T> hidden(c, space);
      hidden.run(c, g, begin<kHiddenRole>(c, g));
    } else if (role == kOtherRole) {
      const BackwardMemory<T> memory(c, space + BackwardHidden<T>::kSpace);
      memory.run(c, g, begin<kOtherRole>(c, g));
    } else {
      run_backward_write<T, kFast>(c, g, begin<kWriteRole>(c, g));
    }
  }

 private:
  template <int kRole>
  __device__ static int begin(const RowsBackward& c, Gradients<T>& g) {
    after_previous();
    const int steps = steps_of_row(c);
    load_gradients(c, g, steps);
    clear_finished<T>(c, steps);
    meet_all<T, kStart, kRole>();
    return steps;
  }
};

}  // namespace nru::kernels::cuda
