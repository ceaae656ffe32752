// Vectors of real or complex numbers, and rotations in a plane.
#if defined(NRU_KERNELS_CPU_PLANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NRU_KERNELS_CPU_PLANES_INL_H_
#undef NRU_KERNELS_CPU_PLANES_INL_H_
#else
#define NRU_KERNELS_CPU_PLANES_INL_H_
#endif

#include "kernels/cpu/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nru::kernels {
namespace HWY_NAMESPACE {

// A vector of real (P = 1) or complex (P = 2: Re, Im) numbers.
template <class V, int P>
struct Planes {
  V part[P];
};

template <class V, int P>
HWY_INLINE V product(const Planes<V, P>& a, const Planes<V, P>& b) {
  V sum = hn::Mul(a.part[0], b.part[0]);
  if constexpr (P == 2) sum = hn::MulAdd(a.part[1], b.part[1], sum);
  return sum;
}

// |z|. Complex numbers whose square would overflow are scaled down first; one whose square vanishes
// has magnitude 0, far below any eps.
template <class D, class V, int P>
HWY_INLINE V magnitude(D d, const Planes<V, P>& z) {
  using T = hn::TFromD<D>;
  if constexpr (P == 1) {
    return hn::Abs(z.part[0]);
  } else {
    constexpr T kLarge = sizeof(T) == 4 ? T(0x1p60) : T(0x1p500);
    constexpr T kScale = sizeof(T) == 4 ? T(0x1p-70) : T(0x1p-600);
    const V one = hn::Set(d, 1);
    const auto large = hn::Gt(hn::Max(hn::Abs(z.part[0]), hn::Abs(z.part[1])), hn::Set(d, kLarge));
    const V scale = hn::IfThenElse(large, hn::Set(d, kScale), one);
    const V re = hn::Mul(z.part[0], scale), im = hn::Mul(z.part[1], scale);
    return hn::Mul(hn::Sqrt(hn::MulAdd(im, im, hn::Mul(re, re))),
                   hn::IfThenElse(large, hn::Set(d, 1 / kScale), one));
  }
}

// (a, b) <- (c a - s b, s a + c b), and back.
template <class V>
HWY_INLINE void turn(V c, V s, V& a, V& b) {
  const V first = hn::NegMulAdd(s, b, hn::Mul(c, a));
  b = hn::MulAdd(s, a, hn::Mul(c, b));
  a = first;
}
template <class V>
HWY_INLINE void turn_back(V c, V s, V& a, V& b) {
  const V first = hn::MulAdd(s, b, hn::Mul(c, a));
  b = hn::NegMulAdd(s, a, hn::Mul(c, b));
  a = first;
}

}  // namespace HWY_NAMESPACE
}  // namespace nru::kernels
HWY_AFTER_NAMESPACE();
#endif
