// The factored write of a step by a warp, for one row of the batch and one side (write or erase),
// in the cluster kernels and in those of groups (groups.h): what linear heads
// (cluster_write_linear.cuh) and ReLU heads (cluster_write_relu.cuh) share. The mathematics is that
// of nru_linear.cu and nru_relu.cu; here a lane holds a few numbers of p and q, and sums are
// exchanges of lanes.
//
// p is laid out by head, each padded to RP numbers (a power of two): number a of head i is at
// i * RP + a, and place x is held by lane x % 32 in slot x / 32. So lanes of one head are
// neighbours, and all heads' numbers a lie in lanes that are a modulo RP. q fills the lanes in its
// own order. RP and the number NS of slots are those of the tile T.
#pragma once

#include "kernels/cuda/cluster.h"
#include "kernels/cuda/cluster_product.cuh"
#include "kernels/cuda/nru_write.cuh"

namespace nru::kernels::cuda {

// Over the RP lanes of a head.
template <int RP>
__device__ inline float head_sum(float x) {
#pragma unroll
  for (int d = 1; d < RP; d *= 2) x += __shfl_xor_sync(kAllLanes, x, d);
  return x;
}
// Over the lanes of all heads that hold the same number of their p.
template <int RP>
__device__ inline float sum_over_heads(float x) {
#pragma unroll
  for (int d = RP; d < 32; d *= 2) x += __shfl_xor_sync(kAllLanes, x, d);
  return x;
}
// Lane l gets the sum of values[l % N] over the N lanes of its group.
template <int N>
__device__ inline float transposed_sum(float* values) {
  if constexpr (N == 1) {
    return values[0];
  } else {
    const bool upper = threadIdx.x & (N / 2);
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      const float send = upper ? values[i] : values[i + N / 2];
      const float keep = upper ? values[i + N / 2] : values[i];
      values[i] = keep + __shfl_xor_sync(kAllLanes, send, N / 2);
    }
    return transposed_sum<N / 2>(values);
  }
}

// Where |x|^5 and its sum keep their precision in float.
__device__ inline bool ordinary_power(float x) { return x >= 1e-25f && x <= 1e30f; }

// x^(-1/5) of an ordinary power; see fifth_root().
__device__ inline float inverse_fifth_root(float x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(-0.2f * y));
#else
  const float y = exp2f(-0.2f * log2f(x));
#endif
  return fmaf(0.2f * y, fmaf(-x, pow5(y), 1.f), y);
}

// What a lane holds, by slot: places of its numbers among the head outputs. Where there is none,
// the place is T::kNothing behind them, which reads as zero and may be written to.
template <class T>
struct HeadLanes {
  int row, side;
  bool leads[T::NS];  // one lane for each head
  int p[T::NS], q[T::NS], head[T::NS];

  __device__ explicit HeadLanes(const NruWriteSizes& s) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    row = warp / 2;
    side = warp % 2;
#pragma unroll
    for (int i = 0; i < T::NS; ++i) {
      const int place = lane + 32 * i, in_head = place % T::RP;
      const bool exists = place / T::RP < s.k;
      leads[i] = exists && in_head == 0;
      head[i] = exists ? side * s.k + place / T::RP : T::kNothing;
      p[i] = exists && in_head < s.R ? p_at(s, side) + place / T::RP * s.R + in_head : T::kNothing;
      q[i] = place < s.r ? q_at(s, side) + place : T::kNothing;
      hold(p[i]);
      hold(q[i]);
      hold(head[i]);
    }
  }
  __device__ bool exists(int slot) const { return head[slot] != T::kNothing; }
};

// One row's number in a place of shared memory, where a place has the numbers of several rows
// (V = float4) or of one (V = float, row 0).
template <class V>
__device__ inline float& number_at(V* values, int place, int row) {
  return reinterpret_cast<float*>(values + place)[row];
}

// A row's side: head outputs, and what the forward pass makes of them for the backward pass.
template <class T>
struct HeadValues {
  float p[T::NS], q[T::NS], alpha[T::NS], gain[T::NS], live[T::NS], scale;
};
template <class T>
struct HeadEvents {
  bool overflow[T::NS], clamped[T::NS];
};

template <class T>
__device__ inline void read_heads(const HeadLanes<T>& lanes, float4* u, HeadValues<T>& v) {
#pragma unroll
  for (int s = 0; s < T::NS; ++s) {
    v.p[s] = number_at(u, lanes.p[s], lanes.row);
    v.q[s] = number_at(u, lanes.q[s], lanes.row);
    v.alpha[s] = number_at(u, lanes.head[s], lanes.row);
  }
}

// Largest magnitudes of q and (by slot) of a head's p. What is not finite or too large becomes
// zero, its largest magnitude infinity. Bits of magnitudes are in their order, a NaN being the
// largest.
template <class T>
__device__ inline float usable_q(HeadValues<T>& v) {
  unsigned bits = 0;
#pragma unroll
  for (int s = 0; s < T::NS; ++s) bits = max(bits, __float_as_uint(fabsf(v.q[s])));
  const float largest = __uint_as_float(__reduce_max_sync(kAllLanes, bits));
  if (largest <= kLargestNorm) return largest;
#pragma unroll
  for (int s = 0; s < T::NS; ++s) v.q[s] = 0;
  return infinity();
}
template <class T>
__device__ inline float usable_p(HeadValues<T>& v, int s) {
  unsigned bits = __float_as_uint(fabsf(v.p[s]));
#pragma unroll
  for (int d = 1; d < T::RP; d *= 2) bits = max(bits, __shfl_xor_sync(kAllLanes, bits, d));
  const float largest = __uint_as_float(bits);
  if (largest <= kLargestNorm) return largest;
  v.p[s] = 0;
  return infinity();
}
__device__ inline float inverse_or_zero(float largest) {
  return largest >= FLT_MIN ? 1.f / largest : 0.f;
}

// gain and live of a head from its norm n_p n_q: settle_head() of nru_write.cuh for a lane.
template <class T>
__device__ inline void settle_slot(const NruWriteSizes& sizes, float n_p, float n_q, int s,
                                   HeadValues<T>& v, HeadEvents<T>& events) {
  events.overflow[s] = !(n_p <= kLargestNorm && n_q <= kLargestNorm) ||
                       (sizes.authors_overflow && !(n_p * n_q <= kAuthorsLargest));
  events.clamped[s] = !events.overflow[s] && n_p * n_q <= kClamp;
  v.live[s] = events.overflow[s] || events.clamped[s] ? 0.f : 1.f;
  v.gain[s] = v.live[s] > 0.f ? 1.f / n_p : events.clamped[s] && n_p > 0.f ? n_q / kClamp : 0.f;
}
// The same where the norm is of ordinary size, and its inverse known: it is not clamped, and only
// the authors' rule can call it an overflow.
template <class T>
__device__ inline void settle_ordinary_slot(const NruWriteSizes& sizes, const HeadLanes<T>& lanes,
                                            float gain, float inverse_norm, int s, HeadValues<T>& v,
                                            HeadEvents<T>& events) {
  events.clamped[s] = false;
  events.overflow[s] = sizes.authors_overflow && inverse_norm < 1.f / kAuthorsLargest;
  v.live[s] = events.overflow[s] ? 0.f : 1.f;
  v.gain[s] = events.overflow[s] || !lanes.exists(s) ? 0.f : gain;
}

// What the backward pass needs of a row, to and from global memory: head outputs and aux.
template <class T>
__device__ inline void store_heads(const NruWriteSizes& sizes, const HeadLanes<T>& lanes,
                                   const HeadValues<T>& v, const HeadEvents<T>& happened, float* u,
                                   float* aux, std::int64_t* events) {
#pragma unroll
  for (int s = 0; s < T::NS; ++s) {
    if (lanes.p[s] != T::kNothing) u[lanes.p[s]] = v.p[s];
    if (lanes.q[s] != T::kNothing) u[lanes.q[s]] = v.q[s];
    if (!lanes.leads[s]) continue;
    u[lanes.head[s]] = v.alpha[s];
    aux[lanes.head[s]] = v.gain[s];
    aux[2 * sizes.k + lanes.head[s]] = v.live[s];
    if (happened.overflow[s]) count_event(events, kOverflow);
    if (happened.clamped[s]) count_event(events, kClamped);
  }
  if (threadIdx.x % 32 == 0) aux[4 * sizes.k + lanes.side] = v.scale;
}

template <class T>
__device__ inline void load_heads(const NruWriteSizes& sizes, const HeadLanes<T>& lanes,
                                  const float* u, const float* aux, HeadValues<T>& v) {
#pragma unroll
  for (int s = 0; s < T::NS; ++s) {
    v.p[s] = lanes.p[s] != T::kNothing ? u[lanes.p[s]] : 0.f;
    v.q[s] = lanes.q[s] != T::kNothing ? u[lanes.q[s]] : 0.f;
    v.alpha[s] = lanes.exists(s) ? u[lanes.head[s]] : 0.f;
    v.gain[s] = lanes.exists(s) ? aux[lanes.head[s]] : 0.f;
    v.live[s] = lanes.exists(s) ? aux[2 * sizes.k + lanes.head[s]] : 0.f;
  }
  v.scale = aux[4 * sizes.k + lanes.side];
}

// Gradients of what HeadValues holds of u.
template <class T>
struct HeadGradients {
  float p[T::NS], q[T::NS], alpha[T::NS];
};

}  // namespace nru::kernels::cuda
