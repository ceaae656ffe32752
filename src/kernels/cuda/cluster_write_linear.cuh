// The write with linear heads: rank one. m += A Q^T with A = sum_i c_i gain_i p_i and Q = q / |q|.
#pragma once

#include "kernels/cuda/cluster_write.cuh"

namespace nru::kernels::cuda {

template <class T>
struct LinearWrite {
  static constexpr int kRows = 1;  // vectors A of a side

  // From the head outputs in `v` to A (`rows`) and Q of a row's side, with m += A Q^T left to do.
  template <class V>
  __device__ static void prepare(const NruWriteSizes& sizes, const HeadLanes<T>& lanes,
                                 V (*rows)[32], V* Q, HeadValues<T>& v, HeadEvents<T>& events) {
    const int lane = threadIdx.x % 32;
    settle(sizes, lanes, v, events);
    float sum = 0;
#pragma unroll
    for (int s = 0; s < T::NS; ++s) {
      number_at(Q, lane + 32 * s, lanes.row) = v.scale * v.q[s];
      sum = fmaf(v.alpha[s], v.gain[s] * v.p[s], sum);
    }
    // Lanes that repeat others' sums write them where nobody looks.
    number_at(rows[0], lane, lanes.row) = sign_of(sizes, lanes.side) * sum_over_heads<T::RP>(sum);
  }

  __device__ static void add(const float (*rows)[32], int a, float Q, float& m) {
    m = fmaf(rows[0][a], Q, m);
  }
  __device__ static void add(const float4 (*rows)[32], int a, float4 Q, float4& m) {
    const float4 A = rows[0][a];
    m = make_float4(fmaf(A.x, Q.x, m.x), fmaf(A.y, Q.y, m.y), fmaf(A.z, Q.z, m.z),
                    fmaf(A.w, Q.w, m.w));
  }

 private:
  __device__ static void settle(const NruWriteSizes& sizes, const HeadLanes<T>& lanes,
                                HeadValues<T>& v, HeadEvents<T>& events) {
    float power[T::NS], power_q = 0;
#pragma unroll
    for (int s = 0; s < T::NS; ++s) {
      power[s] = head_sum<T::RP>(pow5(fabsf(v.p[s])));
      power_q += pow5(fabsf(v.q[s]));
    }
    power_q = warp_sum(power_q);
    bool ordinary = ordinary_power(power_q);
    v.scale = inverse_fifth_root(power_q);
#pragma unroll
    for (int s = 0; s < T::NS; ++s) {
      ordinary = ordinary && (!lanes.exists(s) || ordinary_power(power[s]));
      const float gain = inverse_fifth_root(power[s]);
      settle_ordinary_slot(sizes, lanes, gain, gain * v.scale, s, v, events);
    }
    if (!__all_sync(kAllLanes, ordinary)) settle_safely(sizes, v, events);
  }

  // By way of the largest magnitudes, for numbers of any size.
  __device__ static void settle_safely(const NruWriteSizes& sizes, HeadValues<T>& v,
                                       HeadEvents<T>& events) {
    const auto norm = [](float largest, float sum) {
      return largest < FLT_MIN ? 0.f : largest > kLargestNorm ? largest : largest * fifth_root(sum);
    };
    float largest = usable_q(v), sum = 0;
#pragma unroll
    for (int s = 0; s < T::NS; ++s) sum += pow5(fabsf(v.q[s] * inverse_or_zero(largest)));
    const float n_q = norm(largest, warp_sum(sum));
    v.scale = n_q > 0.f ? 1.f / n_q : 0.f;
#pragma unroll
    for (int s = 0; s < T::NS; ++s) {
      largest = usable_p(v, s);
      sum = head_sum<T::RP>(pow5(fabsf(v.p[s] * inverse_or_zero(largest))));
      settle_slot(sizes, norm(largest, sum), n_q, s, v, events);
    }
  }
};

// Backward. What does not wait for the gradient of m is prepared before.
template <class T>
class LinearWriteBackward {
 public:
  __device__ void prepare(const NruWriteSizes& sizes, int side, const HeadValues<T>& v) {
    float sum = 0;
    scale_ = v.scale;
#pragma unroll
    for (int s = 0; s < T::NS; ++s) {
      gain_[s] = v.gain[s];
      x_[s] = v.gain[s] * v.p[s];
      c_[s] = sign_of(sizes, side) * v.alpha[s] * v.live[s];
      Q_[s] = v.scale * v.q[s];
      sum = fmaf(c_[s], x_[s], sum);
    }
    own_row_ = sum_over_heads<T::RP>(sum);
#pragma unroll
    for (int a = 0; a < T::RP; ++a) rows_[a] = __shfl_sync(kAllLanes, own_row_, a, T::RP);
  }

  // D: gradient of m, number (a, b) of it at a * 32 NS + b, zero where there is none.
  template <class V>
  __device__ HeadGradients<T> run(const NruWriteSizes& sizes, const HeadLanes<T>& lanes,
                                  V* D) const {
    HeadGradients<T> d;
    float products[T::RP] = {};  // D Q, of this lane's columns
#pragma unroll
    for (int s = 0; s < T::NS; ++s) {
      d.q[s] = 0;
#pragma unroll
      for (int a = 0; a < T::RP; ++a) {
        const float value = number_at(D, a * 32 * T::NS + threadIdx.x % 32 + 32 * s, lanes.row);
        d.q[s] = fmaf(rows_[a], value, d.q[s]);
        products[a] = fmaf(Q_[s], value, products[a]);
      }
    }
    const float d_row = sum_over_heads<T::RP>(transposed_sum<T::RP>(products));
    const float through_norm = head_sum<T::RP>(own_row_ * d_row);
#pragma unroll
    for (int s = 0; s < T::NS; ++s) {
      const float dot = head_sum<T::RP>(x_[s] * d_row);  // <D, v_i>
      d.alpha[s] = sign_of(sizes, lanes.side) * dot;
      d.p[s] = c_[s] * gain_[s] * (d_row - dot * signed_pow4(x_[s]));
      d.q[s] = scale_ * (d.q[s] - through_norm * signed_pow4(Q_[s]));
    }
    return d;
  }

 private:
  float gain_[T::NS], x_[T::NS], c_[T::NS], Q_[T::NS], scale_;  // x = gain p, c = sign alpha live
  float own_row_, rows_[T::RP];  // A as far as it is live: at lane % RP, and all of it
};

}  // namespace nru::kernels::cuda
