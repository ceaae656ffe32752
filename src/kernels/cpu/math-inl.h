// Vector functions shared by the cells' pointwise kernels. Included once per SIMD level (Highway's
// -inl convention).
#if defined(NRU_KERNELS_CPU_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NRU_KERNELS_CPU_MATH_INL_H_
#undef NRU_KERNELS_CPU_MATH_INL_H_
#else
#define NRU_KERNELS_CPU_MATH_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace nru::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
constexpr int vector_lanes() {
  return static_cast<int>(hn::MaxLanes(hn::ScalableTag<T>()));
}

// Stores the first n values of v: what lies behind belongs to someone else.
template <class D, class V, class T = hn::TFromD<D>>
HWY_INLINE void store_first(D d, V v, int n, T* to) {
  if (n >= vector_lanes<T>()) {
    hn::StoreU(v, d, to);
  } else {
    hn::BlendedStore(v, hn::FirstN(d, n), d, to);
  }
}

// Loads n values, zero behind them.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_first(D d, const T* from, int n) {
  return n >= vector_lanes<T>() ? hn::LoadU(d, from) : hn::MaskedLoad(hn::FirstN(d, n), d, from);
}

// e^x, saturating at the largest power of e that is finite. Highway's Exp turns NaN into 0 and
// large arguments into nonsense: both would hide a broken network.
template <class D, class V>
HWY_INLINE V exp(D d, V x) {
  const V limit = hn::Set(d, sizeof(hn::TFromD<D>) == 4 ? 88 : 706);
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(d, hn::IfThenElse(hn::Gt(x, limit), limit, x)));
}

template <class D, class V>
HWY_INLINE V sigmoid(D d, V x) {
  const V one = hn::Set(d, 1);
  return hn::Div(one, hn::Add(one, exp(d, hn::Neg(x))));
}

template <class D, class V>
HWY_INLINE V tanh(D d, V x) {
  return hn::Tanh(d, x);
}

// |x|^5 and sign(x)|x|^4, by multiplication.
template <class V>
HWY_INLINE V abs_pow5(V x) {
  const V x2 = hn::Mul(x, x);
  return hn::Mul(hn::Mul(x2, x2), hn::Abs(x));
}
template <class V>
HWY_INLINE V signed_pow4(V x) {
  return hn::Mul(hn::Mul(x, hn::Abs(x)), hn::Mul(x, x));
}

// x^(-1/5) for normal x > 0. Exp of Log is off by several units in the last place, five times of
// which would stay where the gradient through the norm should cancel; a Newton step leaves about
// one.
template <class D, class V>
HWY_INLINE V inverse_fifth_root(D d, V x) {
  using T = hn::TFromD<D>;
  const V y = hn::Exp(d, hn::Mul(hn::Log(d, x), hn::Set(d, T(-0.2))));
  const V y2 = hn::Mul(y, y), y5 = hn::Mul(hn::Mul(y2, y2), y);
  const V rest = hn::NegMulAdd(x, y5, hn::Set(d, T(1)));
  return hn::MulAdd(hn::Mul(y, hn::Set(d, T(0.2))), rest, y);
}

template <class D, class V, class T = hn::TFromD<D>>
HWY_INLINE T sum_lanes(D d, V v) {
  return hn::GetLane(hn::SumOfLanes(d, v));
}

}  // namespace HWY_NAMESPACE
}  // namespace nru::kernels
HWY_AFTER_NAMESPACE();
#endif
