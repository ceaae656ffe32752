// modReLU of a vector of values, forward and backward. Every value is a Planes<V, P>: P = 1 real
// numbers, P = 2 complex ones as real and imaginary parts.
//
// smooth: N = |z| + eps, out = z max(N + b, 0) / N. Where N + b > 0, with <g, z> the real product,
//   db = <g, z> / N,   dz = ((N + b) / N) g - (b / N^2) <g, z> z / |z|
// (last term zero at z = 0; for real numbers the two add up to dz = (1 + b eps / N^2) g); elsewhere
// both are zero. sign: out = sign(z) max(|z| + eps + b, 0), dz = g and db = g sign(z) where z is
// not zero and the maximum is positive. A NaN comes out as a NaN.
#if defined(NRU_KERNELS_CPU_MODRELU_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NRU_KERNELS_CPU_MODRELU_INL_H_
#undef NRU_KERNELS_CPU_MODRELU_INL_H_
#else
#define NRU_KERNELS_CPU_MODRELU_INL_H_
#endif

#include "kernels/cpu/math-inl.h"
#include "kernels/cpu/planes-inl.h"
#include "kernels/modrelu.h"

HWY_BEFORE_NAMESPACE();
namespace nru::kernels {
namespace HWY_NAMESPACE {

template <class D, class V, int P>
HWY_INLINE Planes<V, P> modrelu(D d, ModRelu form, V eps, V b, const Planes<V, P>& z) {
  const V zero = hn::Zero(d), size = hn::Add(magnitude(d, z), eps), sum = hn::Add(size, b);
  const V kept = hn::IfThenZeroElse(hn::Le(sum, zero), sum);
  if (P == 1 && form == ModRelu::sign) {
    const V out = hn::IfThenZeroElse(hn::Eq(z.part[0], zero), hn::CopySign(kept, z.part[0]));
    return {{out}};
  }
  const V factor = hn::Div(kept, size);
  Planes<V, P> out;
  for (int p = 0; p < P; ++p) out.part[p] = hn::Mul(z.part[p], factor);
  return out;
}

// g = d(out) in, d(z) out; returns d(b).
template <class D, class V, int P>
HWY_INLINE V modrelu_backward(D d, ModRelu form, V eps, V b, const Planes<V, P>& z,
                              Planes<V, P>& g) {
  const V zero = hn::Zero(d), one = hn::Set(d, 1), length = magnitude(d, z);
  const V size = hn::Add(length, eps);
  auto silent = hn::Le(hn::Add(size, b), zero);
  V d_bias;
  if (P == 1 && form == ModRelu::sign) {
    silent = hn::Or(silent, hn::Eq(z.part[0], zero));
    d_bias = hn::IfThenElse(hn::Lt(z.part[0], zero), hn::Neg(g.part[0]), g.part[0]);
  } else {
    const V inverse = hn::Div(one, size), along = product(g, z), b_inverse = hn::Mul(b, inverse);
    d_bias = hn::Mul(along, inverse);
    if constexpr (P == 1) {
      g.part[0] = hn::Mul(g.part[0], hn::MulAdd(b_inverse, hn::Mul(eps, inverse), one));
    } else {
      const V radial =
          hn::IfThenZeroElse(hn::Eq(length, zero), hn::Div(hn::Mul(b_inverse, d_bias), length));
      const V factor = hn::Add(one, b_inverse);
      for (int p = 0; p < P; ++p)
        g.part[p] = hn::NegMulAdd(radial, z.part[p], hn::Mul(factor, g.part[p]));
    }
  }
  for (int p = 0; p < P; ++p) g.part[p] = hn::IfThenZeroElse(silent, g.part[p]);
  return hn::IfThenZeroElse(silent, d_bias);
}

}  // namespace HWY_NAMESPACE
}  // namespace nru::kernels
HWY_AFTER_NAMESPACE();
#endif
