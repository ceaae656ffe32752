// modReLU of one number, forward and backward: kernels/cpu/modrelu-inl.h has the formulas. P = 1: a
// real number, P = 2: a complex one as real and imaginary part.
#pragma once

#include <cuda_runtime.h>

#include "kernels/modrelu.h"

namespace nru::kernels::cuda {

template <int P>
struct Value {
  float part[P];
};

template <int P>
__device__ inline float product(const Value<P>& a, const Value<P>& b) {
  float sum = a.part[0] * b.part[0];
  if constexpr (P == 2) sum = fmaf(a.part[1], b.part[1], sum);
  return sum;
}

// |z|. Complex numbers whose square would overflow are scaled down first.
template <int P>
__device__ inline float magnitude(const Value<P>& z) {
  if constexpr (P == 1) {
    return fabsf(z.part[0]);
  } else {
    const bool large = fmaxf(fabsf(z.part[0]), fabsf(z.part[1])) > 0x1p60f;
    const float scale = large ? 0x1p-70f : 1.f;
    const float re = z.part[0] * scale, im = z.part[1] * scale;
    return sqrtf(fmaf(im, im, re * re)) * (large ? 0x1p70f : 1.f);
  }
}

template <int P>
__device__ inline Value<P> modrelu(ModRelu form, float eps, float b, const Value<P>& z) {
  const float size = magnitude(z) + eps, sum = size + b;
  const float kept = sum <= 0.f ? 0.f : sum;
  Value<P> out;
  if (P == 1 && form == ModRelu::sign) {
    out.part[0] = z.part[0] == 0.f ? 0.f : copysignf(kept, z.part[0]);
    return out;
  }
  const float factor = kept / size;
  for (int p = 0; p < P; ++p) out.part[p] = z.part[p] * factor;
  return out;
}

// g = d(out) in, d(z) out; returns d(b).
template <int P>
__device__ inline float modrelu_backward(ModRelu form, float eps, float b, const Value<P>& z,
                                         Value<P>& g) {
  const float length = magnitude(z), size = length + eps;
  bool silent = size + b <= 0.f;
  float d_bias;
  if (P == 1 && form == ModRelu::sign) {
    silent = silent || z.part[0] == 0.f;
    d_bias = z.part[0] < 0.f ? -g.part[0] : g.part[0];
  } else {
    const float inverse = 1.f / size, b_inverse = b * inverse;
    d_bias = product(g, z) * inverse;
    if constexpr (P == 1) {
      g.part[0] *= fmaf(b_inverse, eps * inverse, 1.f);
    } else {
      const float radial = length == 0.f ? 0.f : b_inverse * d_bias / length;
      const float factor = 1.f + b_inverse;
      for (int p = 0; p < P; ++p) g.part[p] = fmaf(-radial, z.part[p], factor * g.part[p]);
    }
  }
  for (int p = 0; p < P; ++p) g.part[p] = silent ? 0.f : g.part[p];
  return silent ? 0.f : d_bias;
}

}  // namespace nru::kernels::cuda
