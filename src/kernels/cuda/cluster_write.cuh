// The factored write of a step by a warp for one row of the batch and one side (write or erase).
// The mathematics is that of nru_linear.cu; here a lane holds a few numbers of p and q, and sums
// are exchanges of lanes.
//
// p is laid out by head, each padded to RP numbers (a power of two): number a of head i is at
// i * RP + a, and place x is held by lane x % 32 in slot x / 32. So lanes of one head are
// neighbours, and all heads' numbers a lie in lanes that are a modulo RP. q fills the lanes in its
// own order.
#pragma once

#include "kernels/cuda/cluster.h"
#include "kernels/cuda/cluster_product.cuh"
#include "kernels/cuda/nru_write.cuh"

namespace nru::kernels::cuda {

// Where |x|^5 and its sum keep their precision in float.
inline constexpr float kSmallestPower = 1e-25f, kLargestPower = 1e30f;

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

// x^(-1/5) for x within those bounds; see fifth_root().
__device__ inline float inverse_fifth_root(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(-0.2f * y));
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
};

// One row's number in a place of shared memory.
__device__ inline float& number_at(float4* values, int place, int row) {
  return reinterpret_cast<float*>(values + place)[row];
}

// A row's side after the forward pass: what the backward pass needs, and what was an event.
template <class T>
struct HeadValues {
  float p[T::NS], q[T::NS], alpha[T::NS], gain[T::NS], live[T::NS], scale;
};
template <class T>
struct HeadEvents {
  bool overflow[T::NS], clamped[T::NS];
};

// Gains of heads by way of the largest magnitude, for numbers of any size. What has no usable norm
// becomes zero.
template <class T>
__device__ inline void settle_safely(const NruWriteSizes& sizes, HeadValues<T>& v,
                                     HeadEvents<T>& events) {
  const auto norm_of = [](float largest, float sum) {
    return largest < FLT_MIN ? 0.f : largest > kLargestNorm ? largest : largest * fifth_root(sum);
  };
  const auto scale_of = [](float largest) { return largest >= FLT_MIN ? 1.f / largest : 0.f; };
  unsigned bits = 0;  // of magnitudes they are in order, a NaN being the largest
#pragma unroll
  for (int s = 0; s < T::NS; ++s) bits = max(bits, __float_as_uint(fabsf(v.q[s])));
  float largest = __uint_as_float(__reduce_max_sync(kAllLanes, bits)), sum = 0;
  if (!(largest <= kLargestNorm)) largest = infinity();
#pragma unroll
  for (int s = 0; s < T::NS; ++s) {
    if (largest > kLargestNorm) v.q[s] = 0;
    sum += pow5(fabsf(v.q[s] * scale_of(largest)));
  }
  const float n_q = norm_of(largest, warp_sum(sum));
  v.scale = n_q > 0.f ? 1.f / n_q : 0.f;
#pragma unroll
  for (int s = 0; s < T::NS; ++s) {
    bits = __float_as_uint(fabsf(v.p[s]));
#pragma unroll
    for (int d = 1; d < T::RP; d *= 2) bits = max(bits, __shfl_xor_sync(kAllLanes, bits, d));
    largest = __uint_as_float(bits);
    if (!(largest <= kLargestNorm)) {
      largest = infinity();
      v.p[s] = 0;
    }
    const float n_p = norm_of(largest, head_sum<T::RP>(pow5(fabsf(v.p[s] * scale_of(largest)))));
    events.overflow[s] = !(n_p <= kLargestNorm && n_q <= kLargestNorm) ||
                         (sizes.authors_overflow && !(n_p * n_q <= kAuthorsLargest));
    events.clamped[s] = !events.overflow[s] && n_p * n_q <= kClamp;
    v.live[s] = events.overflow[s] || events.clamped[s] ? 0.f : 1.f;
    v.gain[s] = v.live[s] > 0.f ? 1.f / n_p : events.clamped[s] && n_p > 0.f ? n_q / kClamp : 0.f;
  }
}

// The same where all norms are of ordinary size: then none is clamped, and only the authors' rule
// can call one an overflow.
template <class T>
__device__ inline void settle_heads(const NruWriteSizes& sizes, const HeadLanes<T>& lanes,
                                    HeadValues<T>& v, HeadEvents<T>& events) {
  const auto ordinary = [](float x) { return x >= kSmallestPower && x <= kLargestPower; };
  float power[T::NS], power_q = 0;
#pragma unroll
  for (int s = 0; s < T::NS; ++s) {
    power[s] = head_sum<T::RP>(pow5(fabsf(v.p[s])));
    power_q += pow5(fabsf(v.q[s]));
  }
  power_q = warp_sum(power_q);
  bool all = ordinary(power_q);
#pragma unroll
  for (int s = 0; s < T::NS; ++s) all = all && (lanes.head[s] == T::kNothing || ordinary(power[s]));
  v.scale = inverse_fifth_root(power_q);
#pragma unroll
  for (int s = 0; s < T::NS; ++s) {
    v.gain[s] = inverse_fifth_root(power[s]);
    events.clamped[s] = false;
    events.overflow[s] = sizes.authors_overflow && v.gain[s] * v.scale < 1.f / kAuthorsLargest;
    v.live[s] = events.overflow[s] ? 0.f : 1.f;
    if (events.overflow[s] || lanes.head[s] == T::kNothing) v.gain[s] = 0;
  }
  if (!__all_sync(kAllLanes, all)) settle_safely(sizes, v, events);
}

// The forward write of a warp: from the head outputs u to A (`rows`) and Q of its row and side,
// with m += A Q^T left to do.
template <class T>
__device__ inline void prepare_write(const NruWriteSizes& sizes, const HeadLanes<T>& lanes,
                                     float4* u, float4* rows, float4* Q, HeadValues<T>& v,
                                     HeadEvents<T>& events) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int s = 0; s < T::NS; ++s) {
    v.p[s] = number_at(u, lanes.p[s], lanes.row);
    v.q[s] = number_at(u, lanes.q[s], lanes.row);
    v.alpha[s] = number_at(u, lanes.head[s], lanes.row);
  }
  settle_heads(sizes, lanes, v, events);
  float sum = 0;
#pragma unroll
  for (int s = 0; s < T::NS; ++s) {
    number_at(Q, lane + 32 * s, lanes.row) = v.scale * v.q[s];
    sum = fmaf(v.alpha[s], v.gain[s] * v.p[s], sum);
  }
  // Lanes that repeat others' sums write them where nobody looks.
  number_at(rows, lane, lanes.row) = sign_of(sizes, lanes.side) * sum_over_heads<T::RP>(sum);
}

// What the backward pass needs of it to global memory: rows of the head outputs and of aux.
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

// ---- backward ----

// What the forward pass left of a row's side.
template <class T>
__device__ inline void load_heads(const NruWriteSizes& sizes, const HeadLanes<T>& lanes,
                                  const float* u, const float* aux, HeadValues<T>& v) {
#pragma unroll
  for (int s = 0; s < T::NS; ++s) {
    v.p[s] = lanes.p[s] != T::kNothing ? u[lanes.p[s]] : 0.f;
    v.q[s] = lanes.q[s] != T::kNothing ? u[lanes.q[s]] : 0.f;
    const bool exists = lanes.head[s] != T::kNothing;
    v.alpha[s] = exists ? u[lanes.head[s]] : 0.f;
    v.gain[s] = exists ? aux[lanes.head[s]] : 0.f;
    v.live[s] = exists ? aux[2 * sizes.k + lanes.head[s]] : 0.f;
  }
  v.scale = aux[4 * sizes.k + lanes.side];
}

// What of the backward write does not wait for the gradient of m.
template <class T>
struct WriteBackward {
  float gain[T::NS], x[T::NS], c[T::NS], Q[T::NS], scale;  // x = gain p, c = sign alpha live
  float own_row, rows[T::RP];  // A as far as it is live: at lane % T::RP, and all of it

  __device__ void prepare(const NruWriteSizes& sizes, int side, const HeadValues<T>& v) {
    float sum = 0;
    scale = v.scale;
#pragma unroll
    for (int s = 0; s < T::NS; ++s) {
      gain[s] = v.gain[s];
      x[s] = gain[s] * v.p[s];
      c[s] = sign_of(sizes, side) * v.alpha[s] * v.live[s];
      Q[s] = scale * v.q[s];
      sum = fmaf(c[s], x[s], sum);
    }
    own_row = sum_over_heads<T::RP>(sum);
#pragma unroll
    for (int a = 0; a < T::RP; ++a) rows[a] = __shfl_sync(kAllLanes, own_row, a, T::RP);
  }

  // D: gradient of m, number (a, b) of it at a * 32 NS + b, zero where there is none. Gives the
  // gradients of p, q (by slot) and of the heads' alpha.
  __device__ void run(const NruWriteSizes& sizes, const HeadLanes<T>& lanes, float4* D,
                      float (&d_p)[T::NS], float (&d_q)[T::NS], float (&d_alpha)[T::NS]) const {
    const int lane = threadIdx.x % 32;
    float products[T::RP];  // D Q, of this lane's columns
#pragma unroll
    for (int a = 0; a < T::RP; ++a) products[a] = 0;
#pragma unroll
    for (int s = 0; s < T::NS; ++s) {
      const int column = lane + 32 * s;
      d_q[s] = 0;
#pragma unroll
      for (int a = 0; a < T::RP; ++a) {
        const float d = number_at(D, a * 32 * T::NS + column, lanes.row);
        d_q[s] = fmaf(rows[a], d, d_q[s]);
        products[a] = fmaf(Q[s], d, products[a]);
      }
    }
    const float d_row = sum_over_heads<T::RP>(transposed_sum<T::RP>(products));
    const float through_norm = head_sum<T::RP>(own_row * d_row);
#pragma unroll
    for (int s = 0; s < T::NS; ++s) {
      const float dot = head_sum<T::RP>(x[s] * d_row);  // <D, v_i>
      d_alpha[s] = sign_of(sizes, lanes.side) * dot;
      d_p[s] = c[s] * gain[s] * (d_row - dot * signed_pow4(x[s]));
      d_q[s] = scale * (d_q[s] - through_norm * signed_pow4(Q[s]));
    }
  }

 private:
  // Lane l gets the sum of values[l % N] over the N lanes of its group.
  template <int N>
  __device__ static float transposed_sum(float (&values)[T::RP]) {
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
};

}  // namespace nru::kernels::cuda
