// The factored memory write of the NRU: m += sum_i c_i v_i without forming the k*m direction
// numbers.
//
// When the number of heads divides r = sqrt(k m), head i owns R = r/k whole rows of p q^T, so all
// heads share q and
//   linear heads:  v_i = p_i q^T / (|p_i| |q|)                         the whole write is of rank
//   one as an R x r matrix ReLU heads:    f(p_i q^T) = p_i+ q+^T + p_i- q-^T, with f = max(.,0)
//   rank two
// Both are written as v_i = f((gain_i p_i) (Q)^T), Q = scale q. The forward pass stores per row
//   aux = gain [2k], live [2k], scale [2]         (side 0 writes, side 1 erases)
// live = 0 marks a head whose norm is clamped (or that writes nothing): its direction gets no
// gradient.
//
// Norms are scale-safe: |x|^5 leaves the range of float for |x| outside 1e-8 .. 4e7, so outside a
// comfortable range everything is divided by its largest magnitude first. A non-finite p_i or q is
// set to zero: it writes nothing.
#if defined(NRU_KERNELS_CPU_NRU_WRITE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NRU_KERNELS_CPU_NRU_WRITE_INL_H_
#undef NRU_KERNELS_CPU_NRU_WRITE_INL_H_
#else
#define NRU_KERNELS_CPU_NRU_WRITE_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/cpu/math-inl.h"
#include "kernels/nru.h"

HWY_BEFORE_NAMESPACE();
namespace nru::kernels {
namespace HWY_NAMESPACE {
namespace nru_cell {

constexpr double kClamp = 1e-12;  // the norm is max(|.|_5, this)
constexpr double kAuthorsLargest =
    5.07e7;  // FLT_MAX^(1/5): above, the published code's norm is infinite

// Sizes of the factored write, read off the shape once.
struct WriteSizes {
  int k, r, R;
  double combine;  // c0: 1/k or 1
  bool authors_overflow;
  explicit WriteSizes(const NruShape& s)
      : k(s.heads),
        r(s.rank()),
        R(s.rank() / s.heads),
        combine(s.sum_heads ? 1.0 : 1.0 / s.heads),
        authors_overflow(s.authors_overflow) {}
  int aux() const { return 4 * k + 2; }
  std::size_t scratch() const { return static_cast<std::size_t>(6 * r + 4 * k + 64); }
};

template <class T>
struct HeadRow {  // one row of head outputs, or of their gradients
  T *alpha, *p, *q;
  HeadRow(T* u, const WriteSizes& s, int side)
      : alpha(u + side * s.k), p(u + 2 * s.k + side * 2 * s.r), q(p + s.r) {}
};

template <class T>
T largest_magnitude(const T* x, int n) {
  T m = 0;
  for (int i = 0; i < n; ++i) {
    const T a = std::abs(x[i]);
    if (!(a <= m)) m = a;  // keeps a NaN
  }
  return m;
}

// |x|_5 from the largest magnitude; sets x to zero and counts if it is not finite.
template <class T>
T safe_norm(T* x, int n, std::int64_t* events) {
  const T m = largest_magnitude(x, n);
  if (!(m <= std::numeric_limits<T>::max())) {
    std::fill_n(x, n, T(0));
    ++events[kOverflow];
    return 0;
  }
  if (m < std::numeric_limits<T>::min()) return 0;
  T sum = 0;
  for (int i = 0; i < n; ++i) {
    const T a = std::abs(x[i] / m);
    sum += a * a * a * a * a;
  }
  return m * std::pow(sum, T(0.2));
}

// gain and live of one head from its norm, split as n = n_p * n_q so that neither factor overflows.
template <class T>
void settle_head(T n_p, T n_q, bool authors_overflow, T* gain, T* live, std::int64_t* events) {
  *gain = *live = 0;
  if (n_p == T(0) || n_q == T(0)) {
    ++events[kClamped];
  } else if (authors_overflow && !(n_p * n_q <= T(kAuthorsLargest))) {
    ++events[kOverflow];
  } else if (n_p * n_q <= T(kClamp)) {
    ++events[kClamped];
    *gain = n_q / T(kClamp);
  } else {
    *gain = T(1) / n_p;
    *live = 1;
  }
}

// ---- linear heads
// ------------------------------------------------------------------------------------------------------

template <class T>
void linear_norms_safe(const WriteSizes& s, T* u, T* aux, std::int64_t* events) {
  for (int side = 0; side < 2; ++side) {
    const HeadRow<T> row(u, s, side);
    const T n_q = safe_norm(row.q, s.r, events);
    aux[4 * s.k + side] = n_q > T(0) ? T(1) / n_q : T(0);
    for (int i = 0; i < s.k; ++i) {
      const T n_p = safe_norm(row.p + i * s.R, s.R, events);
      settle_head(n_p, n_q, s.authors_overflow, aux + side * s.k + i,
                  aux + 2 * s.k + side * s.k + i, events);
    }
  }
}

// Plain sums of fifth powers, all roots in one go; false if a sum is outside the range where that
// is accurate.
template <class T, int kR>
HWY_INLINE bool linear_norms(const WriteSizes& s, const T* u, T* scratch, T* aux) {
  const hn::ScalableTag<T> d;
  constexpr int N = vector_lanes<T>();
  const int k = s.k, r = s.r, R = kR > 0 ? kR : s.R, count = 2 * k + 2;
  T* sums = scratch;                // [2k heads, 2 q] and room for a whole vector
  T* powers = scratch + count + N;  // [r]
  for (int side = 0; side < 2; ++side) {
    const T* p = u + 2 * k + side * 2 * r;
    auto sum_q = hn::Zero(d);
    for (int j = 0; j < r; j += N) {
      hn::StoreU(abs_pow5(load_first(d, p + j, r - j)), d, powers + j);
      sum_q = hn::Add(sum_q, abs_pow5(load_first(d, p + r + j, r - j)));
    }
    sums[2 * k + side] = sum_lanes(d, sum_q);
    for (int i = 0; i < k; ++i) {
      T sum = 0;
      for (int a = 0; a < R; ++a) sum += powers[i * R + a];
      sums[side * k + i] = sum;
    }
  }
  // Inside these bounds n_p n_q > 1e-12, and below 5e7 for the authors' rule: no head needs a
  // second look.
  const T low = T(1e-29), high = s.authors_overflow ? T(1e19) : T(1e30);
  bool fine = true;
  for (int i = 0; i < count; ++i) fine &= sums[i] >= low && sums[i] <= high;
  if (!fine) return false;
  for (int i = 0; i < count; i += N) {
    hn::StoreU(inverse_fifth_root(d, load_first(d, sums + i, count - i)), d, sums + i);
  }
  for (int i = 0; i < 2 * k; ++i) {
    aux[i] = sums[i];
    aux[2 * k + i] = 1;
  }
  aux[4 * k] = sums[2 * k];
  aux[4 * k + 1] = sums[2 * k + 1];
  return true;
}

template <class T, int kR>
HWY_INLINE void write_linear(const WriteSizes& s, T* u, T* aux, const T* m_prev, T* m_out,
                             T* scratch, std::int64_t* events) {
  const hn::ScalableTag<T> d;
  constexpr int N = vector_lanes<T>();
  const int k = s.k, r = s.r, R = kR > 0 ? kR : s.R;
  if (!linear_norms<T, kR>(s, u, scratch, aux)) linear_norms_safe(s, u, aux, events);
  T* rows[2] = {scratch, scratch + R};  // a = sum_i c_i gain_i p_i, times scale
  const T* q[2];
  for (int side = 0; side < 2; ++side) {
    const HeadRow<T> row(u, s, side);
    q[side] = row.q;
    for (int a = 0; a < R; ++a) rows[side][a] = 0;
    const T c0 = T(side ? -s.combine : s.combine) * aux[4 * k + side];
    for (int i = 0; i < k; ++i) {
      const T c = c0 * row.alpha[i] * aux[side * k + i];
      for (int a = 0; a < R; ++a) rows[side][a] += c * row.p[i * R + a];
    }
  }
  for (int j = 0; j < r; j += N) {
    const int n = r - j;
    const auto q_write = load_first(d, q[0] + j, n), q_erase = load_first(d, q[1] + j, n);
    for (int a = 0; a < R; ++a) {
      auto m = load_first(d, m_prev + a * r + j, n);
      m = hn::MulAdd(hn::Set(d, rows[0][a]), q_write, m);
      m = hn::MulAdd(hn::Set(d, rows[1][a]), q_erase, m);
      store_first(d, m, n, m_out + a * r + j);
    }
  }
}

template <class T, int kR>
HWY_INLINE void write_linear_backward(const WriteSizes& s, const T* u, const T* aux, const T* d_m,
                                      T* d_u, T* scratch) {
  const hn::ScalableTag<T> d;
  constexpr int N = vector_lanes<T>();
  const int k = s.k, r = s.r, R = kR > 0 ? kR : s.R;
  T* rows[2] = {scratch, scratch + R};                // A = sum_i c_i gain_i p_i over live heads
  T* d_rows[2] = {scratch + 2 * R, scratch + 3 * R};  // D Q
  const T* q[2];
  T* d_q[2];
  for (int side = 0; side < 2; ++side) {
    const HeadRow<const T> row(u, s, side);
    q[side] = row.q;
    d_q[side] = HeadRow<T>(d_u, s, side).q;
    for (int a = 0; a < R; ++a) rows[side][a] = d_rows[side][a] = 0;
    for (int i = 0; i < k; ++i) {
      const T c = T(side ? -s.combine : s.combine) * row.alpha[i] * aux[side * k + i] *
                  aux[2 * k + side * k + i];
      for (int a = 0; a < R; ++a) rows[side][a] += c * row.p[i * R + a];
    }
  }
  for (int j = 0; j < r; j += N) {
    const int n = r - j;
    const auto q_write = load_first(d, q[0] + j, n), q_erase = load_first(d, q[1] + j, n);
    auto dq_write = hn::Zero(d), dq_erase = hn::Zero(d);
    for (int a = 0; a < R; ++a) {
      const auto D = load_first(d, d_m + a * r + j, n);
      d_rows[0][a] += sum_lanes(d, hn::Mul(D, q_write));
      d_rows[1][a] += sum_lanes(d, hn::Mul(D, q_erase));
      dq_write = hn::MulAdd(hn::Set(d, rows[0][a]), D, dq_write);
      dq_erase = hn::MulAdd(hn::Set(d, rows[1][a]), D, dq_erase);
    }
    store_first(d, dq_write, n, d_q[0] + j);
    store_first(d, dq_erase, n, d_q[1] + j);
  }
  for (int side = 0; side < 2; ++side) {
    const HeadRow<const T> row(u, s, side);
    const HeadRow<T> out(d_u, s, side);
    const T c0 = T(side ? -s.combine : s.combine), scale = aux[4 * k + side];
    for (int a = 0; a < R; ++a) d_rows[side][a] *= scale;
    T through_norm = 0;
    for (int i = 0; i < k; ++i) {
      const T gain = aux[side * k + i], live = aux[2 * k + side * k + i],
              c = c0 * row.alpha[i] * live;
      T dot = 0;  // <D, v_i>
      for (int a = 0; a < R; ++a) dot += row.p[i * R + a] * d_rows[side][a];
      dot *= gain;
      out.alpha[i] = c0 * dot;
      through_norm += c * dot;
      for (int a = 0; a < R; ++a) {
        const T x = gain * row.p[i * R + a];
        out.p[i * R + a] = c * gain * (d_rows[side][a] - dot * (x * std::abs(x)) * (x * x));
      }
    }
    for (int j = 0; j < r; j += N) {
      const int n = r - j;
      const auto Q = hn::Mul(load_first(d, row.q + j, n), hn::Set(d, scale));
      const auto g =
          hn::NegMulAdd(hn::Set(d, through_norm), signed_pow4(Q), load_first(d, out.q + j, n));
      store_first(d, hn::Mul(g, hn::Set(d, scale)), n, out.q + j);
    }
  }
}

// ---- ReLU heads
// --------------------------------------------------------------------------------------------------------
// Used at char-PTB size, where the products dwarf the pointwise work: always the scale-safe form,
// in plain loops.

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
  constexpr T largest = std::numeric_limits<T>::max(), smallest = std::numeric_limits<T>::min();
  for (int side = 0; side < 2; ++side) {
    const HeadRow<T> row(u, s, side);
    T m_q = largest_magnitude(row.q, s.r);
    if (!(m_q <= largest)) {
      std::fill_n(row.q, s.r, T(0));
      ++events[kOverflow];
      m_q = 0;
    }
    const T scale = m_q >= smallest ? T(1) / m_q : T(0);
    aux[4 * s.k + side] = scale;
    T q_plus, q_minus;
    signed_sums(row.q, s.r, scale, &q_plus, &q_minus);
    for (int i = 0; i < s.k; ++i) {
      T* p = row.p + i * s.R;
      T m_p = largest_magnitude(p, s.R);
      if (!(m_p <= largest)) {
        std::fill_n(p, s.R, T(0));
        ++events[kOverflow];
        m_p = 0;
      }
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
  T *plus = scratch,
    *minus = scratch + s.R;  // sum_i c_i gain_i p_i+ and p_i-, times scale (p- keeps its sign)
  std::copy_n(m_prev, s.R * s.r, m_out);
  for (int side = 0; side < 2; ++side) {
    const HeadRow<T> row(u, s, side);
    std::fill_n(scratch, 2 * s.R, T(0));
    const T c0 = T(side ? -s.combine : s.combine) * aux[4 * s.k + side];
    for (int i = 0; i < s.k; ++i) {
      const T c = c0 * std::max(row.alpha[i], T(0)) * aux[side * s.k + i];
      for (int a = 0; a < s.R; ++a) {
        plus[a] += c * std::max(row.p[i * s.R + a], T(0));
        minus[a] += c * std::min(row.p[i * s.R + a], T(0));
      }
    }
    for (int a = 0; a < s.R; ++a) {
      for (int j = 0; j < s.r; ++j)
        m_out[a * s.r + j] += (row.q[j] > T(0) ? plus[a] : minus[a]) * row.q[j];
    }
  }
}

template <class T>
void write_relu_backward(const WriteSizes& s, const T* u, const T* aux, const T* d_m, T* d_u,
                         T* scratch) {
  T *plus = scratch, *minus = plus + s.R, *d_plus = minus + s.R, *d_minus = d_plus + s.R;
  for (int side = 0; side < 2; ++side) {
    const HeadRow<const T> row(u, s, side);
    const HeadRow<T> out(d_u, s, side);
    const T c0 = T(side ? -s.combine : s.combine), scale = aux[4 * s.k + side];
    std::fill_n(scratch, 4 * s.R, T(0));
    for (int a = 0; a < s.R; ++a) {  // D Q over q > 0 and over q < 0
      for (int j = 0; j < s.r; ++j) {
        const T x = d_m[a * s.r + j] * row.q[j] * scale;
        (row.q[j] > T(0) ? d_plus[a] : d_minus[a]) += x;
      }
    }
    T q_plus, q_minus, through_plus = 0, through_minus = 0;
    signed_sums(row.q, s.r, scale, &q_plus, &q_minus);
    for (int i = 0; i < s.k; ++i) {
      const T* p = row.p + i * s.R;
      const T gain = aux[side * s.k + i], live = aux[2 * s.k + side * s.k + i];
      const T c = c0 * std::max(row.alpha[i], T(0)) * live;
      T dot = 0, p_plus, p_minus;
      for (int a = 0; a < s.R; ++a) dot += gain * p[a] * (p[a] > T(0) ? d_plus[a] : d_minus[a]);
      signed_sums(p, s.R, gain, &p_plus, &p_minus);
      out.alpha[i] = row.alpha[i] > T(0) ? c0 * dot : T(0);
      through_plus += c * dot * p_plus;
      through_minus += c * dot * p_minus;
      for (int a = 0; a < s.R; ++a) {
        const T x = gain * p[a], x4 = x * x * x * x;
        out.p[i * s.R + a] = p[a] > T(0)   ? c * gain * (d_plus[a] - dot * x4 * q_plus)
                             : p[a] < T(0) ? c * gain * (d_minus[a] + dot * x4 * q_minus)
                                           : T(0);
        plus[a] += c * gain * std::max(p[a], T(0));
        minus[a] += c * gain * std::min(p[a], T(0));
      }
    }
    for (int j = 0; j < s.r; ++j) {
      const T Q = scale * row.q[j], Q4 = Q * Q * Q * Q;
      T sum = 0;
      for (int a = 0; a < s.R; ++a) sum += (Q > T(0) ? plus[a] : minus[a]) * d_m[a * s.r + j];
      out.q[j] = Q > T(0)   ? scale * (sum - Q4 * through_plus)
                 : Q < T(0) ? scale * (sum + Q4 * through_minus)
                            : T(0);
    }
  }
}

}  // namespace nru_cell
}  // namespace HWY_NAMESPACE
}  // namespace nru::kernels
HWY_AFTER_NAMESPACE();
#endif
