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
  double squares[2 * T::kRole / 32];     // of what goes back, by warp of the roles; limited only
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

// What scales the gradient that a step sends back, of which each thread of the two roles has no
// more than one number, `mine`: SequenceGradients::state_limit. The roles wait for each other's
// sums; each has a barrier of its own, and meets the other at two more before it is here again.
template <class T, int kRole>
__device__ inline float state_scale(const RowsBackward& c, Gradients<T>& g, float mine) {
  double square = static_cast<double>(mine) * mine;
#pragma unroll
  for (int d = 16; d > 0; d /= 2) square += __shfl_xor_sync(kAllLanes, square, d);
  if (threadIdx.x % 32 == 0) g.squares[threadIdx.x / 32] = square;
  arrive<kMeasured + (kRole == kHiddenRole ? kOtherRole : kHiddenRole), 2 * T::kRole>();
  await<kMeasured + kRole, 2 * T::kRole>();
  double sum = 0;
#pragma unroll
  for (double of_warp : g.squares) sum += of_warp;
  return sum > c.state_limit * c.state_limit ? static_cast<float>(c.state_limit / sqrt(sum)) : 1.f;
}

// d_a = ReLU'(d_h), d_h = what arrives + W_uh^T d_u + W_hh^T d_a of the step after
template <class T, bool kLimited>
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
    float d = mine && c.final_h ? c.final_h[blockIdx.x * static_cast<size_t>(c.hidden) + own] : 0.f;
    float h = h_of(steps - 1), sum[kEach];
    d += arriving(steps - 1);
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
      if constexpr (kLimited) {
        const float back = group_sums(sum);
        d += back * state_scale<T, kHiddenRole>(c, g, mine ? back : 0.f);
        clear(sum);
      }
      await<kHiddenAgain, T::kRole>();
    }
    const float initial = group_sums(sum) + d;
    if (mine) c.gradient_h[row_offset(c, 0, c.ld_h) + own] = initial;
  }
};

// D' = D + W_um^T d_u + W_hm^T d_a
template <class T, bool kLimited>
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
      if constexpr (kLimited) D *= state_scale<T, kOtherRole>(c, g, mine ? D : 0.f);
      if (mine) g.D[(t + 1) % 2][mine.index] = D;
      if (t > 0) arrive<kReadyForWrite, T::kRole + 32>();
      await<kOtherAgain, T::kRole>();
    }
    if (mine) c.gradient_m[row_offset(c, 0, c.ld_m) + mine.index] = D;
  }
};

// d_u from D. Norms and rows of the write are made one step ahead, u is loaded two steps ahead.
template <class T, bool kFast, bool kLimited>
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
    if (t < steps - 1) {
      if constexpr (kLimited) await<kMeasured + kWriteRole, 32>();  // for racecheck
      await_other<T>();
    }
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
template <class T, bool kFast, bool kLimited>
struct RowBackward {
  using Hidden = BackwardHidden<T, kLimited>;
  using Memory = BackwardMemory<T, kLimited>;
  static constexpr int kSpace = Hidden::kSpace + Memory::kSpace;
  using Shared = Gradients<T>;

  __device__ static void run(const RowsBackward& c, Gradients<T>& g, float* space) {
    const int role = threadIdx.x / T::kRole;
    if (role == kHiddenRole) {
      const Hidden hidden(c, space);
      hidden.run(c, g, begin<kHiddenRole>(c, g));
    } else if (role == kOtherRole) {
      const Memory memory(c, space + Hidden::kSpace);
      memory.run(c, g, begin<kOtherRole>(c, g));
    } else {
      run_backward_write<T, kFast, kLimited>(c, g, begin<kWriteRole>(c, g));
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
