// The factored memory write with ReLU heads: rank two. Used at char-PTB size, where the products
// dwarf the pointwise work: always the scale-safe form, in plain loops. See nru_write-inl.h.
#if defined(NRU_KERNELS_CPU_NRU_WRITE_RELU_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NRU_KERNELS_CPU_NRU_WRITE_RELU_INL_H_
#undef NRU_KERNELS_CPU_NRU_WRITE_RELU_INL_H_
#else
#define NRU_KERNELS_CPU_NRU_WRITE_RELU_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/cpu/nru_write-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nru::kernels {
namespace HWY_NAMESPACE {
namespace nru_cell {

template <class T>
T pow5(T x) {
  return x * x * x * x * x;
}

// S(x+) and S(x-), S(y) = sum y^5, of scale*x.
template <class T>
void signed_sums(const T* x, int n, T scale, T* positive, T* negative) {
  T plus = 0, minus = 0;
  for (int i = 0; i < n; ++i) {
    const T y = pow5(scale * x[i]);
    plus += std::max(y, T(0));
    minus += std::max(-y, T(0));
  }
  *positive = plus;
  *negative = minus;
}

template <class T>
void relu_norms(const WriteSizes& s, T* u, T* aux, std::int64_t* events) {
  constexpr T smallest = std::numeric_limits<T>::min();
  for (int side = 0; side < 2; ++side) {
    const HeadRow<T> row(u, s, side);
    const T m_q = usable_magnitude(row.q, s.r);
    const T scale = m_q >= smallest ? T(1) / m_q : T(0);
    aux[4 * s.k + side] = scale;
    T q_plus, q_minus;
    signed_sums(row.q, s.r, scale, &q_plus, &q_minus);
    for (int i = 0; i < s.k; ++i) {
      T* p = row.p + i * s.R;
      const T m_p = usable_magnitude(p, s.R);
      T p_plus = 0, p_minus = 0;
      if (m_p >= smallest) signed_sums(p, s.R, T(1) / m_p, &p_plus, &p_minus);
      const T root = std::pow(p_plus * q_plus + p_minus * q_minus, T(0.2));
      settle_head(m_p * root, m_q, s.authors_overflow, aux + side * s.k + i,
                  aux + 2 * s.k + side * s.k + i, events);
    }
  }
}

template <class T>
void write_relu(const WriteSizes& s, T* u, T* aux, const T* m_prev, T* m_out, T* scratch,
                std::int64_t* events) {
  relu_norms(s, u, aux, events);
  // sum_i c_i (gain_i p_i+) and the same of p_i-, which keeps its sign
  T *plus = scratch, *minus = plus + s.R, *Q = minus + s.R;
  std::copy_n(m_prev, s.R * s.r, m_out);
  for (int side = 0; side < 2; ++side) {
    const HeadRow<T> row(u, s, side);
    std::fill_n(scratch, 2 * s.R, T(0));
    for (int j = 0; j < s.r; ++j) Q[j] = aux[4 * s.k + side] * row.q[j];
    for (int i = 0; i < s.k; ++i) {
      const T c = T(side ? -s.combine : s.combine) * std::max(row.alpha[i], T(0));
      for (int a = 0; a < s.R; ++a) {
        const T x = aux[side * s.k + i] * row.p[i * s.R + a];
        plus[a] += c * std::max(x, T(0));
        minus[a] += c * std::min(x, T(0));
      }
    }
    for (int a = 0; a < s.R; ++a) {
      for (int j = 0; j < s.r; ++j) m_out[a * s.r + j] += (Q[j] > T(0) ? plus[a] : minus[a]) * Q[j];
    }
  }
}

template <class T>
void write_relu_backward(const WriteSizes& s, const T* u, const T* aux, const T* d_m, T* d_u,
                         T* scratch) {
  T *plus = scratch, *minus = plus + s.R, *d_plus = minus + s.R, *d_minus = d_plus + s.R;
  T* Q = d_minus + s.R;
  for (int side = 0; side < 2; ++side) {
    const HeadRow<const T> row(u, s, side);
    const HeadRow<T> out(d_u, s, side);
    const T c0 = T(side ? -s.combine : s.combine), scale = aux[4 * s.k + side];
    std::fill_n(scratch, 4 * s.R, T(0));
    for (int j = 0; j < s.r; ++j) Q[j] = scale * row.q[j];
    for (int a = 0; a < s.R; ++a) {  // D Q over q > 0 and over q < 0
      for (int j = 0; j < s.r; ++j) {
        (Q[j] > T(0) ? d_plus[a] : d_minus[a]) += d_m[a * s.r + j] * Q[j];
      }
    }
    T q_plus, q_minus, through_plus = 0, through_minus = 0;
    signed_sums(Q, s.r, T(1), &q_plus, &q_minus);
    for (int i = 0; i < s.k; ++i) {
      const T* p = row.p + i * s.R;
      const T gain = aux[side * s.k + i], live = aux[2 * s.k + side * s.k + i];
      const T c = c0 * std::max(row.alpha[i], T(0)) * live;
      T dot = 0, p_plus, p_minus;
      for (int a = 0; a < s.R; ++a) dot += gain * p[a] * (p[a] > T(0) ? d_plus[a] : d_minus[a]);
      signed_sums(p, s.R, gain, &p_plus, &p_minus);
      out.alpha[i] = row.alpha[i] > T(0) ? c0 * dot : T(0);
      // The gradient through the norm is divided by |v|_5^5 as it came out (one, but for a few
      // units in the last place), so that what ought to cancel against it does.
      const T power = p_plus * q_plus + p_minus * q_minus;
      const T along = live > T(0) ? dot / power : T(0);
      through_plus += c * along * p_plus;
      through_minus += c * along * p_minus;
      for (int a = 0; a < s.R; ++a) {
        const T x = gain * p[a], x4 = x * x * x * x;
        out.p[i * s.R + a] = p[a] > T(0)   ? c * gain * (d_plus[a] - along * x4 * q_plus)
                             : p[a] < T(0) ? c * gain * (d_minus[a] + along * x4 * q_minus)
                                           : T(0);
        plus[a] += c * std::max(x, T(0));
        minus[a] += c * std::min(x, T(0));
      }
    }
    for (int j = 0; j < s.r; ++j) {
      const T Q4 = Q[j] * Q[j] * Q[j] * Q[j];
      T sum = 0;
      for (int a = 0; a < s.R; ++a) sum += (Q[j] > T(0) ? plus[a] : minus[a]) * d_m[a * s.r + j];
      out.q[j] = Q[j] > T(0)   ? scale * (sum - Q4 * through_plus)
                 : Q[j] < T(0) ? scale * (sum + Q4 * through_minus)
                               : T(0);
    }
  }
}

}  // namespace nru_cell
}  // namespace HWY_NAMESPACE
}  // namespace nru::kernels
HWY_AFTER_NAMESPACE();
#endif
