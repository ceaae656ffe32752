// The factored memory write of the NRU by one warp, for any k and R with r = k R <= 32, linear or
// ReLU heads: lane e holds number e of p and of q, for the write and the erase side. Mathematics
// and names are those of nru_linear.cu and nru_relu.cu; the sums here are shuffles that do not
// depend on each other, so that a loop over k or R costs little more than one latency.
#pragma once

#include "kernels/cuda/nru_write.cuh"

namespace nru::kernels::cuda {

struct WriteLane {
  int lane;
  int head, first, row;  // of number `lane` of p: its head, that head's first lane, its row
  int column;            // of q; the last one for lanes that have none
  bool used;
  __device__ explicit WriteLane(const NruWriteSizes& s)
      : lane(threadIdx.x % 32),
        head(lane / s.R),
        first(head * s.R),
        row(lane - first),
        column(min(lane, s.r - 1)),
        used(lane < s.r) {}
};

__device__ inline float of_lane(float x, int lane) { return __shfl_sync(kAllLanes, x, lane); }

// Over the lanes of this lane's head.
__device__ inline float head_sum(const NruWriteSizes& s, const WriteLane& at, float x) {
  float sum = 0;
#pragma unroll 4
  for (int a = 0; a < s.R; ++a) sum += of_lane(x, at.first + a);
  return sum;
}
__device__ inline float head_largest(const NruWriteSizes& s, const WriteLane& at, float x) {
  unsigned largest = 0;
#pragma unroll 4
  for (int a = 0; a < s.R; ++a)
    largest = max(largest, __shfl_sync(kAllLanes, magnitude_bits(x), at.first + a));
  return __uint_as_float(largest);
}
// Over the heads, of this lane's row.
__device__ inline float sum_over_heads(const NruWriteSizes& s, const WriteLane& at, float x) {
  float sum = 0;
#pragma unroll 4
  for (int i = 0; i < s.k; ++i) sum += of_lane(x, i * s.R + at.row);
  return sum;
}

// One side of the write, from the head outputs to what both passes need.
struct WriteSide {
  float alpha = 0, p = 0, q = 0;  // alpha: of this lane's head
  float gain, live, scale;
  // Sums of fifth powers, of p over its head: (gain p)+ and (gain p)-, and of scale q; ReLU only.
  float p_plus, p_minus, q_plus, q_minus;

  __device__ void load(const NruWriteSizes& s, const WriteLane& at, int side, const float* u) {
    if (!at.used) return;
    alpha = u[side * s.k + at.head];
    p = u[p_at(s, side) + at.lane];
    q = u[q_at(s, side) + at.lane];
  }

  // A p_i or q that is not usable becomes zero, here and at `origin`, if given: where u is kept.
  __device__ void settle(const NruWriteSizes& s, const WriteLane& at, int side, float* origin,
                         std::int64_t* events) {
    float top_p = head_largest(s, at, p), top_q = warp_largest(q);
    if (!(top_p <= kLargestNorm)) {
      top_p = infinity();
      p = 0;
      if (origin && at.used) origin[p_at(s, side) + at.lane] = 0;
    }
    if (!(top_q <= kLargestNorm)) {
      top_q = infinity();
      q = 0;
      if (origin && at.used) origin[q_at(s, side) + at.lane] = 0;
    }
    const float inverse_p = top_p >= FLT_MIN ? 1.f / top_p : 0.f;
    const float inverse_q = top_q >= FLT_MIN ? 1.f / top_q : 0.f;
    if (!(at.used && at.row == 0)) events = nullptr;  // one lane counts for its head
    s.relu ? settle_relu(s, at, top_p, inverse_p, top_q, inverse_q, events)
           : settle_linear(s, at, top_p, inverse_p, top_q, inverse_q, events);
  }

 private:
  __device__ static float norm(float top, float sum) {
    return top < FLT_MIN ? 0.f : top > kLargestNorm ? top : top * fifth_root(sum);
  }
  __device__ void settle_linear(const NruWriteSizes& s, const WriteLane& at, float top_p,
                                float inverse_p, float top_q, float inverse_q,
                                std::int64_t* events) {
    const float n_p = norm(top_p, head_sum(s, at, pow5(fabsf(p * inverse_p))));
    const float n_q = norm(top_q, warp_sum(pow5(fabsf(q * inverse_q))));
    scale = n_q > 0.f ? 1.f / n_q : 0.f;
    settle_head(n_p, n_q, s.authors_overflow, &gain, &live, events);
  }
  __device__ void settle_relu(const NruWriteSizes& s, const WriteLane& at, float top_p,
                              float inverse_p, float top_q, float inverse_q, std::int64_t* events) {
    float y = pow5(p * inverse_p);
    const float plus = head_sum(s, at, fmaxf(y, 0.f)), minus = head_sum(s, at, fmaxf(-y, 0.f));
    scale = inverse_q;
    y = pow5(q * inverse_q);
    q_plus = warp_sum(fmaxf(y, 0.f));
    q_minus = warp_sum(fmaxf(-y, 0.f));
    settle_head(top_p * fifth_root(plus * q_plus + minus * q_minus), top_q, s.authors_overflow,
                &gain, &live, events);
    y = pow5(p * gain);
    p_plus = head_sum(s, at, fmaxf(y, 0.f));
    p_minus = head_sum(s, at, fmaxf(-y, 0.f));
  }
};

// The rows of the write, sum_i c_i gain_i p_i, in the lanes of each row; with ReLU heads those of
// p_i+ and of p_i-, which keeps its sign.
struct WriteRowsOfSide {
  float plus, minus;
  __device__ WriteRowsOfSide(const NruWriteSizes& s, const WriteLane& at, const WriteSide& w,
                             float c) {
    const float x = w.gain * w.p;
    plus = sum_over_heads(s, at, c * (s.relu ? fmaxf(x, 0.f) : x));
    minus = s.relu ? sum_over_heads(s, at, c * fminf(x, 0.f)) : plus;
  }
};

__device__ inline float rectified_if(bool rectify, float x) { return rectify ? relu(x) : x; }

// m += write, of the numbers lane, lane + 32, .. of the memory.
template <int kEach>
__device__ inline void write_forward(const NruWriteSizes& s, const float* u, float* origin,
                                     std::int64_t* events, float (&m)[kEach]) {
  const WriteLane at(s);
  for (int side = 0; side < 2; ++side) {
    WriteSide w;
    w.load(s, at, side, u);
    w.settle(s, at, side, origin, events);
    const WriteRowsOfSide rows(s, at, w, sign_of(s, side) * rectified_if(s.relu, w.alpha));
    const float Q = w.scale * w.q;
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int e = at.lane + 32 * j, a = e / s.r;
      const float Qb = of_lane(Q, e - a * s.r);
      const float plus = of_lane(rows.plus, a), minus = of_lane(rows.minus, a);
      m[j] = fmaf(Qb > 0.f ? plus : minus, Qb, m[j]);
    }
  }
}

// The backward pass in two halves: what u alone says, and what follows once D, the gradient of m,
// is there.
struct WriteBackward {
  WriteSide w[2];
  float c[2];  // of this lane's head, zero if that is not alive
  float plus[2], minus[2];

  __device__ void prepare(const NruWriteSizes& s, const WriteLane& at, const WriteSide (&raw)[2]) {
#pragma unroll
    for (int side = 0; side < 2; ++side) {
      w[side] = raw[side];
      w[side].settle(s, at, side, nullptr, nullptr);
      c[side] = sign_of(s, side) * rectified_if(s.relu, w[side].alpha) * w[side].live;
      const WriteRowsOfSide rows(s, at, w[side], c[side]);
      plus[side] = rows.plus;
      minus[side] = rows.minus;
    }
  }

  // d_u lies as u does.
  __device__ void finish(const NruWriteSizes& s, const WriteLane& at, const float* D,
                         float* d_u) const {
#pragma unroll
    for (int side = 0; side < 2; ++side) {
      const WriteSide& x = w[side];
      const float Q = x.scale * x.q, y = x.gain * x.p;
      float d_plus = 0, d_minus = 0;  // D Q over q > 0 and over q < 0
#pragma unroll 4
      for (int b = 0; b < s.r; ++b) {
        const float Qb = of_lane(Q, b), d = D[at.row * s.r + b] * Qb;
        Qb > 0.f ? d_plus += d : d_minus += d;
      }
      if (!s.relu) d_plus = d_minus = d_plus + d_minus;
      const float d_row = y > 0.f ? d_plus : d_minus;
      const float dot = head_sum(s, at, y * d_row);  // <D, v_i>
      float sum = 0;                                 // of this lane's column
#pragma unroll 4
      for (int a = 0; a < s.R; ++a) {
        const float row_plus = of_lane(plus[side], a), row_minus = of_lane(minus[side], a);
        sum = fmaf(Q > 0.f ? row_plus : row_minus, D[a * s.r + at.column], sum);
      }
      float d_p, d_q;
      if (s.relu) {
        const float power = x.p_plus * x.q_plus + x.p_minus * x.q_minus;
        const float along = x.live > 0.f ? dot / power : 0.f;
        const float through_plus = sum_over_heads(s, at, c[side] * along * x.p_plus);
        const float through_minus = sum_over_heads(s, at, c[side] * along * x.p_minus);
        const float y4 = (y * y) * (y * y), Q4 = (Q * Q) * (Q * Q);
        d_p = y > 0.f   ? c[side] * x.gain * (d_row - along * y4 * x.q_plus)
              : y < 0.f ? c[side] * x.gain * (d_row + along * y4 * x.q_minus)
                        : 0.f;
        d_q = Q > 0.f   ? x.scale * (sum - Q4 * through_plus)
              : Q < 0.f ? x.scale * (sum + Q4 * through_minus)
                        : 0.f;
      } else {
        const float through = sum_over_heads(s, at, c[side] * dot);
        d_p = c[side] * x.gain * (d_row - dot * signed_pow4(y));
        d_q = x.scale * (sum - through * signed_pow4(Q));
      }
      if (!at.used) continue;
      const bool passes =
          (!s.relu || x.alpha > 0.f) && !(s.limit > 0 && is_cut_off(x.alpha, s.limit));
      if (at.row == 0) d_u[side * s.k + at.head] = passes ? sign_of(s, side) * dot : 0.f;
      d_u[p_at(s, side) + at.lane] = d_p;
      d_u[q_at(s, side) + at.lane] = d_q;
    }
  }
};

}  // namespace nru::kernels::cuda
