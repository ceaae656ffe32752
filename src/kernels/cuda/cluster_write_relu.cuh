// The write with ReLU heads: rank two. m += A+ Q+^T + A- Q-^T, where A+ and A- are sums over the
// heads' positive and negative p, and Q+ and Q- the positive and negative numbers of Q = scale q.
#pragma once

#include "kernels/cuda/cluster_write.cuh"

namespace nru::kernels::cuda {

// Sums of y^5 over the positive, and of -y^5 over the other numbers y (a NaN is among these).
struct SignedPowers {
  float plus = 0, minus = 0;
  __device__ void add(float y) {
    const float power = pow5(y);
    plus += power > 0.f ? power : 0.f;
    minus += power > 0.f ? 0.f : -power;
  }
  template <int RP>
  __device__ void sum_over_head() {
    plus = head_sum<RP>(plus);
    minus = head_sum<RP>(minus);
  }
  __device__ float total() const { return plus + minus; }
};
// |f(p q^T)|_5^5.
__device__ inline float relu_power(const SignedPowers& p, const SignedPowers& q) {
  return p.plus * q.plus + p.minus * q.minus;
}

template <class T>
struct ReluWrite {
  static constexpr int kRows = 2;  // A+, A-

  // From the head outputs in `v` to A+ and A- (`rows`) and Q of a row's side, with the memory left
  // to do.
  template <class V>
  __device__ static void prepare(const NruWriteSizes& sizes, const HeadLanes<T>& lanes,
                                 V (*rows)[32], V* Q, HeadValues<T>& v, HeadEvents<T>& events) {
    const int lane = threadIdx.x % 32;
    const float sign = sign_of(sizes, lanes.side);
    settle(sizes, lanes, v, events);
    float plus = 0, minus = 0;
#pragma unroll
    for (int s = 0; s < T::NS; ++s) {
      number_at(Q, lane + 32 * s, lanes.row) = v.scale * v.q[s];
      const float x = v.gain[s] * v.p[s], c = relu(v.alpha[s]);
      plus = fmaf(c, fmaxf(x, 0.f), plus);
      minus = fmaf(c, fminf(x, 0.f), minus);
    }
    number_at(rows[0], lane, lanes.row) = sign * sum_over_heads<T::RP>(plus);
    number_at(rows[1], lane, lanes.row) = sign * sum_over_heads<T::RP>(minus);
  }

  __device__ static void add(const float (*rows)[32], int a, float Q, float& m) {
    m = fmaf(Q > 0.f ? rows[0][a] : rows[1][a], Q, m);
  }
  __device__ static void add(const float4 (*rows)[32], int a, float4 Q, float4& m) {
    const float4 plus = rows[0][a], minus = rows[1][a];
    m = make_float4(
        fmaf(Q.x > 0.f ? plus.x : minus.x, Q.x, m.x), fmaf(Q.y > 0.f ? plus.y : minus.y, Q.y, m.y),
        fmaf(Q.z > 0.f ? plus.z : minus.z, Q.z, m.z), fmaf(Q.w > 0.f ? plus.w : minus.w, Q.w, m.w));
  }

 private:
  __device__ static SignedPowers powers_of_q(const HeadValues<T>& v, float scale) {
    SignedPowers q;
#pragma unroll
    for (int s = 0; s < T::NS; ++s) q.add(scale * v.q[s]);
    return {warp_sum(q.plus), warp_sum(q.minus)};
  }
  __device__ static SignedPowers powers_of_p(const HeadValues<T>& v, float scale, int s) {
    SignedPowers p;
    p.add(scale * v.p[s]);
    p.sum_over_head<T::RP>();
    return p;
  }

  // Ordinary numbers need no scale.
  __device__ static void settle(const NruWriteSizes& sizes, const HeadLanes<T>& lanes,
                                HeadValues<T>& v, HeadEvents<T>& events) {
    const SignedPowers q = powers_of_q(v, 1);
    bool ordinary = ordinary_power(q.total());
    v.scale = 1;
#pragma unroll
    for (int s = 0; s < T::NS; ++s) {
      const SignedPowers p = powers_of_p(v, 1, s);
      const float power = relu_power(p, q), gain = inverse_fifth_root(power);
      ordinary =
          ordinary && (!lanes.exists(s) || (ordinary_power(p.total()) && ordinary_power(power)));
      settle_ordinary_slot(sizes, lanes, gain, gain, s, v, events);
    }
    if (!__all_sync(kAllLanes, ordinary)) settle_safely(sizes, v, events);
  }

  __device__ static void settle_safely(const NruWriteSizes& sizes, HeadValues<T>& v,
                                       HeadEvents<T>& events) {
    const float largest_q = usable_q(v);
    v.scale = inverse_or_zero(largest_q);
    const SignedPowers q = powers_of_q(v, v.scale);
#pragma unroll
    for (int s = 0; s < T::NS; ++s) {
      const float largest = usable_p(v, s);
      const SignedPowers p = powers_of_p(v, inverse_or_zero(largest), s);
      settle_slot(sizes, largest * fifth_root(relu_power(p, q)), largest_q, s, v, events);
    }
  }
};

template <class T>
class ReluWriteBackward {
 public:
  __device__ void prepare(const NruWriteSizes& sizes, int side, const HeadValues<T>& v) {
    SignedPowers q;
    float plus = 0, minus = 0;
    scale_ = v.scale;
#pragma unroll
    for (int s = 0; s < T::NS; ++s) {
      alpha_[s] = v.alpha[s];
      gain_[s] = v.gain[s];
      x_[s] = v.gain[s] * v.p[s];
      positive_[s] = v.p[s] > 0.f;
      c_[s] = sign_of(sizes, side) * relu(v.alpha[s]) * v.live[s];
      Q_[s] = v.scale * v.q[s];
      q.add(Q_[s]);
      plus = fmaf(c_[s], fmaxf(x_[s], 0.f), plus);
      minus = fmaf(c_[s], fminf(x_[s], 0.f), minus);
    }
    q_ = {warp_sum(q.plus), warp_sum(q.minus)};
    plus = sum_over_heads<T::RP>(plus);
    minus = sum_over_heads<T::RP>(minus);
#pragma unroll
    for (int s = 0; s < T::NS; ++s) {
      SignedPowers p;
      p.add(x_[s]);
      p.sum_over_head<T::RP>();
      p_[s] = p;
      // The gradient through the norm is divided by |v|_5^5 as it came out (see nru_relu.cu).
      inverse_power_[s] = v.live[s] > 0.f ? 1.f / relu_power(p, q_) : 0.f;
#pragma unroll
      for (int a = 0; a < T::RP; ++a) {
        const float A_plus = __shfl_sync(kAllLanes, plus, a, T::RP);
        const float A_minus = __shfl_sync(kAllLanes, minus, a, T::RP);
        rows_[s][a] = Q_[s] > 0.f ? A_plus : A_minus;
      }
    }
  }

  template <class V>
  __device__ HeadGradients<T> run(const NruWriteSizes& sizes, const HeadLanes<T>& lanes,
                                  V* D) const {
    HeadGradients<T> d;
    float plus[T::RP] = {}, minus[T::RP] = {};  // D Q over the positive and the negative Q
#pragma unroll
    for (int s = 0; s < T::NS; ++s) {
      d.q[s] = 0;
#pragma unroll
      for (int a = 0; a < T::RP; ++a) {
        const float value = number_at(D, a * 32 * T::NS + threadIdx.x % 32 + 32 * s, lanes.row);
        d.q[s] = fmaf(rows_[s][a], value, d.q[s]);
        plus[a] = fmaf(fmaxf(Q_[s], 0.f), value, plus[a]);
        minus[a] = fmaf(fminf(Q_[s], 0.f), value, minus[a]);
      }
    }
    const float d_plus = sum_over_heads<T::RP>(transposed_sum<T::RP>(plus));
    const float d_minus = sum_over_heads<T::RP>(transposed_sum<T::RP>(minus));
    float through_plus = 0, through_minus = 0;
#pragma unroll
    for (int s = 0; s < T::NS; ++s) {
      const float d_row = positive_[s] ? d_plus : d_minus, x2 = x_[s] * x_[s];
      const float dot = head_sum<T::RP>(x_[s] * d_row);  // <D, v_i>
      const float along = dot * inverse_power_[s];
      d.alpha[s] = alpha_[s] > 0.f ? sign_of(sizes, lanes.side) * dot : 0.f;
      d.p[s] =
          c_[s] * gain_[s] * (d_row - along * (x2 * x2) * (positive_[s] ? q_.plus : -q_.minus));
      if (x_[s] == 0.f) d.p[s] = 0;
      through_plus = fmaf(c_[s] * along, p_[s].plus, through_plus);
      through_minus = fmaf(c_[s] * along, p_[s].minus, through_minus);
    }
    through_plus = sum_over_heads<T::RP>(through_plus);
    through_minus = sum_over_heads<T::RP>(through_minus);
#pragma unroll
    for (int s = 0; s < T::NS; ++s) {
      const float through = Q_[s] > 0.f ? through_plus : -through_minus, Q2 = Q_[s] * Q_[s];
      d.q[s] = Q_[s] == 0.f ? 0.f : scale_ * (d.q[s] - through * (Q2 * Q2));
    }
    return d;
  }

 private:
  float alpha_[T::NS], gain_[T::NS], x_[T::NS], c_[T::NS], Q_[T::NS], scale_;
  bool positive_[T::NS];
  SignedPowers p_[T::NS], q_;                        // of x and Q
  float inverse_power_[T::NS], rows_[T::NS][T::RP];  // A+ or A-, as the sign of Q says
};

}  // namespace nru::kernels::cuda
