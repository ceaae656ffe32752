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

__device__ inline float inverse_fifth_root(float x) {  // see fifth_root()
  const float y = exp2f(-0.2f * __log2f(x)), rest = fmaf(-x, pow5(y), 1.f);
  return fmaf(0.2f * y, rest, y);
}

// What a lane holds, by slot: its places among the head outputs, -1 for padding.
template <int RP, int NS>
struct HeadLanes {
  int row, side;
  int p[NS], q[NS], alpha[NS], head[NS];

  __device__ explicit HeadLanes(const NruWriteSizes& s) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    row = warp / 2;
    side = warp % 2;
#pragma unroll
    for (int i = 0; i < NS; ++i) {
      const int place = lane + 32 * i, in_head = place % RP;
      const bool exists = place / RP < s.k;
      head[i] = exists ? side * s.k + place / RP : -1;
      alpha[i] = head[i];
      p[i] = exists && in_head < s.R ? p_at(s, side) + place / RP * s.R + in_head : -1;
      q[i] = place < s.r ? q_at(s, side) + place : -1;
    }
  }
  // One lane for each head.
  __device__ bool leads(int slot) const { return head[slot] >= 0 && (threadIdx.x % 32) % RP == 0; }
};

// Norms of the heads' p (by slot) and of q, and their inverses: zero where there is none.
template <int NS>
struct HeadNorms {
  float p[NS], inverse_p[NS], q, inverse_q;
};

// By way of the largest magnitude, for numbers of any size. What has no usable norm becomes zero,
// here and in `u`.
template <int RP, int NS>
__device__ inline HeadNorms<NS> safe_norms(const HeadLanes<RP, NS>& lanes, float4* u,
                                           float (&p)[NS], float (&q)[NS]) {
  HeadNorms<NS> norms;
  const auto settle = [](float largest, float sum, float& norm, float& inverse) {
    norm = largest < FLT_MIN ? 0.f : largest > kLargestNorm ? largest : largest * fifth_root(sum);
    inverse = norm > 0.f && norm <= kLargestNorm ? 1.f / norm : 0.f;
  };
  const auto forget = [&](int place, float& value) {
    value = 0;
    if (place >= 0) reinterpret_cast<float*>(u + place)[lanes.row] = 0;
  };
  unsigned largest_q = 0;
#pragma unroll
  for (int s = 0; s < NS; ++s) {
    unsigned bits = __float_as_uint(fabsf(p[s]));  // in their order, a NaN being the largest
#pragma unroll
    for (int d = 1; d < RP; d *= 2) bits = max(bits, __shfl_xor_sync(kAllLanes, bits, d));
    float largest = __uint_as_float(bits);
    if (!(largest <= kLargestNorm)) {
      largest = infinity();
      forget(lanes.p[s], p[s]);
    }
    const float scale = largest >= FLT_MIN ? 1.f / largest : 0.f;
    settle(largest, head_sum<RP>(pow5(fabsf(p[s] * scale))), norms.p[s], norms.inverse_p[s]);
    largest_q = max(largest_q, __float_as_uint(fabsf(q[s])));
  }
  float largest = __uint_as_float(__reduce_max_sync(kAllLanes, largest_q)), sum = 0;
  if (!(largest <= kLargestNorm)) largest = infinity();
#pragma unroll
  for (int s = 0; s < NS; ++s) {
    if (largest > kLargestNorm) forget(lanes.q[s], q[s]);
    sum += largest >= FLT_MIN ? pow5(fabsf(q[s] * (1.f / largest))) : 0.f;
  }
  settle(largest, warp_sum(sum), norms.q, norms.inverse_q);
  return norms;
}

template <int RP, int NS>
__device__ inline HeadNorms<NS> head_norms(const HeadLanes<RP, NS>& lanes, float4* u,
                                           float (&p)[NS], float (&q)[NS]) {
  float power_p[NS], power_q = 0;
#pragma unroll
  for (int s = 0; s < NS; ++s) {
    power_p[s] = head_sum<RP>(pow5(fabsf(p[s])));
    power_q += pow5(fabsf(q[s]));
  }
  power_q = warp_sum(power_q);
  const auto plain = [](float x) { return x >= kSmallestPower && x <= kLargestPower; };
  bool all = plain(power_q);
#pragma unroll
  for (int s = 0; s < NS; ++s) all = all && (lanes.head[s] < 0 || plain(power_p[s]));
  if (!__all_sync(kAllLanes, all)) return safe_norms(lanes, u, p, q);
  HeadNorms<NS> norms;
  const auto settle = [](float power, float& norm, float& inverse) {
    inverse = inverse_fifth_root(power);
    norm = (power * (inverse * inverse)) * (inverse * inverse);
  };
#pragma unroll
  for (int s = 0; s < NS; ++s) settle(power_p[s], norms.p[s], norms.inverse_p[s]);
  settle(power_q, norms.q, norms.inverse_q);
  return norms;
}

// The forward write of a warp: from the head outputs `u` to A (`rows`) and Q of its row and side,
// with m += A Q^T left to do. `aux` and `events` are those of the row, null in all CTAs but one.
template <int RP, int NS>
__device__ inline void prepare_write(const NruWriteSizes& sizes, const HeadLanes<RP, NS>& lanes,
                                     float4* u, float4* rows, float4* Q, float* aux,
                                     std::int64_t* events) {
  const auto value_at = [&](int place) {
    return place >= 0 ? reinterpret_cast<const float*>(u + place)[lanes.row] : 0.f;
  };
  const int lane = threadIdx.x % 32;
  float p[NS], q[NS], c[NS];
#pragma unroll
  for (int s = 0; s < NS; ++s) {
    p[s] = value_at(lanes.p[s]);
    q[s] = value_at(lanes.q[s]);
    c[s] = sign_of(sizes, lanes.side) * value_at(lanes.alpha[s]);
  }
  const HeadNorms<NS> norms = head_norms(lanes, u, p, q);
  float sum = 0;
#pragma unroll
  for (int s = 0; s < NS; ++s) {
    const float n_p = norms.p[s], n_q = norms.q;
    const bool overflow = !(n_p <= kLargestNorm && n_q <= kLargestNorm) ||
                          (sizes.authors_overflow && !(n_p * n_q <= kAuthorsLargest));
    const bool clamped = !overflow && n_p * n_q <= kClamp;
    const float clamped_gain = n_p > 0.f ? n_q / kClamp : 0.f;
    const float gain = overflow ? 0.f : clamped ? clamped_gain : norms.inverse_p[s];
    sum = fmaf(c[s], gain * p[s], sum);
    if (aux && lanes.leads(s)) {
      aux[lanes.head[s]] = gain;
      aux[2 * sizes.k + lanes.head[s]] = overflow || clamped ? 0.f : 1.f;
      if (overflow) count_event(events, kOverflow);
      if (clamped) count_event(events, kClamped);
    }
    if (lane + 32 * s < sizes.r)
      reinterpret_cast<float*>(Q + lane + 32 * s)[lanes.row] = q[s] * norms.inverse_q;
  }
  sum = sum_over_heads<RP>(sum);
  if (lane < sizes.R) reinterpret_cast<float*>(rows + lane)[lanes.row] = sum;
  if (aux && lane == 0) aux[4 * sizes.k + lanes.side] = norms.inverse_q;
}

// ---- backward ----

// What the forward pass left of a row's side, on its way from global memory.
template <int NS>
struct HeadValues {
  float p[NS], q[NS], alpha[NS], gain[NS], live[NS], scale;

  template <int RP>
  __device__ void load(const NruWriteSizes& sizes, const HeadLanes<RP, NS>& lanes, const float* u,
                       const float* aux) {
#pragma unroll
    for (int s = 0; s < NS; ++s) {
      p[s] = lanes.p[s] >= 0 ? u[lanes.p[s]] : 0.f;
      q[s] = lanes.q[s] >= 0 ? u[lanes.q[s]] : 0.f;
      alpha[s] = lanes.head[s] >= 0 ? u[lanes.alpha[s]] : 0.f;
      gain[s] = lanes.head[s] >= 0 ? aux[lanes.head[s]] : 0.f;
      live[s] = lanes.head[s] >= 0 ? aux[2 * sizes.k + lanes.head[s]] : 0.f;
    }
    scale = aux[4 * sizes.k + lanes.side];
  }
};

// What of the backward write does not wait for the gradient of m.
template <int RP, int NS>
struct WriteBackward {
  float gain[NS], x[NS], c[NS], Q[NS], scale;  // x = gain p, c = sign alpha live
  float own_row, rows[RP];  // A as far as it is live: at lane % RP, and all of it

  __device__ void prepare(const NruWriteSizes& sizes, int side, const HeadValues<NS>& v) {
    float sum = 0;
    scale = v.scale;
#pragma unroll
    for (int s = 0; s < NS; ++s) {
      gain[s] = v.gain[s];
      x[s] = gain[s] * v.p[s];
      c[s] = sign_of(sizes, side) * v.alpha[s] * v.live[s];
      Q[s] = scale * v.q[s];
      sum = fmaf(c[s], x[s], sum);
    }
    own_row = sum_over_heads<RP>(sum);
#pragma unroll
    for (int a = 0; a < RP; ++a) rows[a] = __shfl_sync(kAllLanes, own_row, a, RP);
  }

  // D: gradient of m; gives those of p, q (by slot) and of the heads' alpha.
  __device__ void run(const NruWriteSizes& sizes, const HeadLanes<RP, NS>& lanes, const float4* D,
                      float (&d_p)[NS], float (&d_q)[NS], float (&d_alpha)[NS]) const {
    const int lane = threadIdx.x % 32;
    float products[RP];  // D Q, of this lane's columns
#pragma unroll
    for (int a = 0; a < RP; ++a) products[a] = 0;
#pragma unroll
    for (int s = 0; s < NS; ++s) {
      const int column = lane + 32 * s;
      d_q[s] = 0;
#pragma unroll
      for (int a = 0; a < RP; ++a) {
        const float d = a < sizes.R && column < sizes.r
                            ? reinterpret_cast<const float*>(D + a * sizes.r + column)[lanes.row]
                            : 0.f;
        d_q[s] = fmaf(rows[a], d, d_q[s]);
        products[a] = fmaf(Q[s], d, products[a]);
      }
    }
    const float d_row = sum_over_heads<RP>(transposed_sum<RP>(products));
    const float through_norm = head_sum<RP>(own_row * d_row);
#pragma unroll
    for (int s = 0; s < NS; ++s) {
      const float dot = head_sum<RP>(x[s] * d_row);  // <D, v_i>
      d_alpha[s] = sign_of(sizes, lanes.side) * dot;
      d_p[s] = c[s] * gain[s] * (d_row - dot * signed_pow4(x[s]));
      d_q[s] = scale * (d_q[s] - through_norm * signed_pow4(Q[s]));
    }
  }

 private:
  // Lane l gets the sum of values[l % N] over the N lanes of its group.
  template <int N>
  __device__ static float transposed_sum(float (&values)[RP]) {
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
