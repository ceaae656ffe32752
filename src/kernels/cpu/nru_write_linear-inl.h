// The factored memory write with linear heads: rank one, and the hot path of the copy and psMNIST
// tasks. See nru_write-inl.h.
#if defined(NRU_KERNELS_CPU_NRU_WRITE_LINEAR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NRU_KERNELS_CPU_NRU_WRITE_LINEAR_INL_H_
#undef NRU_KERNELS_CPU_NRU_WRITE_LINEAR_INL_H_
#else
#define NRU_KERNELS_CPU_NRU_WRITE_LINEAR_INL_H_
#endif

#include <cmath>
#include <cstdint>

#include "kernels/cpu/math-inl.h"
#include "kernels/cpu/nru_write-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nru::kernels {
namespace HWY_NAMESPACE {
namespace nru_cell {

template <class T>
void linear_norms_safe(const WriteSizes& s, T* u, T* aux, std::int64_t* events) {
  for (int side = 0; side < 2; ++side) {
    const HeadRow<T> row(u, s, side);
    const T n_q = safe_norm(row.q, s.r);
    aux[4 * s.k + side] = n_q > T(0) ? T(1) / n_q : T(0);
    for (int i = 0; i < s.k; ++i) {
      const T n_p = safe_norm(row.p + i * s.R, s.R);
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
  T* rows[2] = {scratch, scratch + R};  // A = sum_i c_i (gain_i p_i)
  const T* q[2];
  for (int side = 0; side < 2; ++side) {
    const HeadRow<T> row(u, s, side);
    q[side] = row.q;
    for (int a = 0; a < R; ++a) rows[side][a] = 0;
    for (int i = 0; i < k; ++i) {
      const T c = T(side ? -s.combine : s.combine) * row.alpha[i], gain = aux[side * k + i];
      for (int a = 0; a < R; ++a) rows[side][a] += c * (gain * row.p[i * R + a]);
    }
  }
  const auto scale_write = hn::Set(d, aux[4 * k]), scale_erase = hn::Set(d, aux[4 * k + 1]);
  for (int j = 0; j < r; j += N) {
    const int n = r - j;
    const auto q_write = hn::Mul(load_first(d, q[0] + j, n), scale_write);
    const auto q_erase = hn::Mul(load_first(d, q[1] + j, n), scale_erase);
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
  T* rows[2] = {scratch, scratch + R};                // A, over live heads
  T* d_rows[2] = {scratch + 2 * R, scratch + 3 * R};  // D Q
  const T* q[2];
  T* d_q[2];
  for (int side = 0; side < 2; ++side) {
    const HeadRow<const T> row(u, s, side);
    q[side] = row.q;
    d_q[side] = HeadRow<T>(d_u, s, side).q;
    for (int a = 0; a < R; ++a) rows[side][a] = d_rows[side][a] = 0;
    for (int i = 0; i < k; ++i) {
      const T c = T(side ? -s.combine : s.combine) * row.alpha[i] * aux[2 * k + side * k + i];
      const T gain = aux[side * k + i];
      for (int a = 0; a < R; ++a) rows[side][a] += c * (gain * row.p[i * R + a]);
    }
  }
  const auto scale_write = hn::Set(d, aux[4 * k]), scale_erase = hn::Set(d, aux[4 * k + 1]);
  for (int j = 0; j < r; j += N) {
    const int n = r - j;
    const auto q_write = hn::Mul(load_first(d, q[0] + j, n), scale_write);
    const auto q_erase = hn::Mul(load_first(d, q[1] + j, n), scale_erase);
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
    T through_norm = 0;
    for (int i = 0; i < k; ++i) {
      const T gain = aux[side * k + i], live = aux[2 * k + side * k + i],
              c = c0 * row.alpha[i] * live;
      T dot = 0;  // <D, v_i>
      for (int a = 0; a < R; ++a) dot += gain * row.p[i * R + a] * d_rows[side][a];
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

}  // namespace nru_cell
}  // namespace HWY_NAMESPACE
}  // namespace nru::kernels
HWY_AFTER_NAMESPACE();
#endif
