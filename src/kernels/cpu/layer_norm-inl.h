// Layer norm of one row: n = gamma * xhat + beta, xhat = (a - mean) / sqrt(var + eps), biased
// variance.
#if defined(NRU_KERNELS_CPU_LAYER_NORM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NRU_KERNELS_CPU_LAYER_NORM_INL_H_
#undef NRU_KERNELS_CPU_LAYER_NORM_INL_H_
#else
#define NRU_KERNELS_CPU_LAYER_NORM_INL_H_
#endif

#include <cmath>

#include "kernels/cpu/math-inl.h"
#include "kernels/layer_norm.h"

HWY_BEFORE_NAMESPACE();
namespace nru::kernels {
namespace HWY_NAMESPACE {

template <class T>
struct RowMoments {
  T mean, inverse_deviation;
};

template <class T>
HWY_INLINE RowMoments<T> row_moments(const T* a, int n) {
  const hn::ScalableTag<T> d;
  constexpr int N = vector_lanes<T>();
  auto sum = hn::Zero(d);
  for (int j = 0; j < n; j += N) sum = hn::Add(sum, load_first(d, a + j, n - j));
  const T mean = sum_lanes(d, sum) / n;
  auto squares = hn::Zero(d);
  for (int j = 0; j < n; j += N) {
    const auto x = hn::IfThenElseZero(hn::FirstN(d, n - j),
                                      hn::Sub(load_first(d, a + j, n - j), hn::Set(d, mean)));
    squares = hn::MulAdd(x, x, squares);
  }
  return {mean, T(1) / std::sqrt(sum_lanes(d, squares) / n + T(kLayerNormEps))};
}

template <class T>
void layer_norm_forward(const T* a, const T* gamma, const T* beta, int n, T* out) {
  const hn::ScalableTag<T> d;
  const RowMoments<T> moments = row_moments(a, n);
  for (int j = 0; j < n; j += vector_lanes<T>()) {
    const auto xhat = hn::Mul(hn::Sub(load_first(d, a + j, n - j), hn::Set(d, moments.mean)),
                              hn::Set(d, moments.inverse_deviation));
    store_first(d,
                hn::MulAdd(load_first(d, gamma + j, n - j), xhat, load_first(d, beta + j, n - j)),
                n - j, out + j);
  }
}

// d_n in, d_a out (may be the same row); adds to d_gamma and d_beta.
template <class T>
void layer_norm_backward(const T* a, const T* gamma, const T* d_n, int n, T* d_a, T* d_gamma,
                         T* d_beta) {
  const hn::ScalableTag<T> d;
  const RowMoments<T> moments = row_moments(a, n);
  const auto mean = hn::Set(d, moments.mean), inverse = hn::Set(d, moments.inverse_deviation);
  auto sum_e = hn::Zero(d), sum_ex = hn::Zero(d);
  for (int j = 0; j < n; j += vector_lanes<T>()) {
    const auto xhat = hn::Mul(hn::Sub(load_first(d, a + j, n - j), mean), inverse);
    const auto g = load_first(d, d_n + j, n - j);  // zero behind n, so e is too
    const auto e = hn::Mul(g, load_first(d, gamma + j, n - j));
    sum_e = hn::Add(sum_e, e);
    sum_ex = hn::MulAdd(e, xhat, sum_ex);
    store_first(d, hn::MulAdd(g, xhat, load_first(d, d_gamma + j, n - j)), n - j, d_gamma + j);
    store_first(d, hn::Add(g, load_first(d, d_beta + j, n - j)), n - j, d_beta + j);
  }
  const auto mean_e = hn::Set(d, sum_lanes(d, sum_e) / n),
             mean_ex = hn::Set(d, sum_lanes(d, sum_ex) / n);
  for (int j = 0; j < n; j += vector_lanes<T>()) {
    const auto xhat = hn::Mul(hn::Sub(load_first(d, a + j, n - j), mean), inverse);
    const auto e = hn::Mul(load_first(d, d_n + j, n - j), load_first(d, gamma + j, n - j));
    store_first(d, hn::Mul(inverse, hn::Sub(e, hn::MulAdd(xhat, mean_ex, mean_e))), n - j, d_a + j);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace nru::kernels
HWY_AFTER_NAMESPACE();
#endif
