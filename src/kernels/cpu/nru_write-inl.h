// The factored memory write of the NRU: m += sum_i c_i v_i without forming the k*m direction
// numbers.
//
// When the number of heads divides r = sqrt(k m), head i owns R = r/k whole rows of p q^T, so all
// heads share q and
//   linear heads:  v_i = p_i q^T / (|p_i| |q|), and the whole write is of rank one as an R x r
//                  matrix (nru_write_linear-inl.h)
//   ReLU heads:    f(p_i q^T) = p_i+ q+^T + p_i- q-^T with f = max(., 0): rank two
//                  (nru_write_relu-inl.h)
// Both are written as v_i = f((gain_i p_i) (Q)^T), Q = scale q. The forward pass stores per row
//   aux = gain [2k], live [2k], scale [2]         (side 0 writes, side 1 erases)
// live = 0 marks a head whose norm is clamped (or that writes nothing): its direction gets no
// gradient.
//
// Norms are scale-safe: |x|^5 leaves the range of float for |x| outside 1e-8 .. 4e7, so outside a
// comfortable range everything is divided by its largest magnitude first; and p_i and q enter every
// product already normalised, because p_i q^T itself may leave the range. A non-finite p_i or q is
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

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/math-inl.h"
#include "kernels/nru.h"
#include "kernels/nru_norm.h"

HWY_BEFORE_NAMESPACE();
namespace nru::kernels {
namespace HWY_NAMESPACE {
namespace nru_cell {

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
  for (int i = 0; i < n; ++i) m = larger_or_nan(m, std::abs(x[i]));
  return m;
}

// Where 1/norm is still a normal number; what is longer counts as overflow.
template <class T>
constexpr T kLargestNorm = T(1) / std::numeric_limits<T>::min();

// Largest magnitude of x; infinity, with x set to zero, if it is not finite or too large.
template <class T>
T usable_magnitude(T* x, int n) {
  const T m = largest_magnitude(x, n);
  if (m <= kLargestNorm<T>) return m;
  std::fill_n(x, n, T(0));
  return std::numeric_limits<T>::infinity();
}

// |x|_5 by way of the largest magnitude. Infinity says that x has no usable norm.
template <class T>
T safe_norm(T* x, int n) {
  const T m = usable_magnitude(x, n);
  if (m < std::numeric_limits<T>::min()) return 0;
  if (m > kLargestNorm<T>) return m;
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
  if (!(n_p <= kLargestNorm<T> && n_q <= kLargestNorm<T>) ||
      (authors_overflow && !(n_p * n_q <= T(kAuthorsLargestNorm)))) {
    ++events[kOverflow];
  } else if (n_p * n_q <= T(kNormClamp)) {
    ++events[kClamped];
    if (n_p > T(0)) *gain = n_q / T(kNormClamp);
  } else {
    *gain = T(1) / n_p;
    *live = 1;
  }
}

}  // namespace nru_cell
}  // namespace HWY_NAMESPACE
}  // namespace nru::kernels
HWY_AFTER_NAMESPACE();
#endif
