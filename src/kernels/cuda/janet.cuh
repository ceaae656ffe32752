// JANET's equations for one unit of one row (janet.cu has them as a whole).
#pragma once

#include <cmath>

#include "kernels/cuda/math.cuh"
#include "kernels/janet.h"

namespace nru::kernels::cuda {

struct JanetBeta {
  bool used;
  float exponential;  // e^beta
  explicit JanetBeta(const JanetShape& shape)
      : used(shape.beta != 0), exponential(static_cast<float>(std::exp(shape.beta))) {}
  // s2, of f: without beta it is f itself.
  __device__ float shifted(float f) const { return used ? f / fmaf(1.f - f, exponential, f) : f; }
};

struct JanetUnit {
  float f, g;  // activated
};
__device__ inline JanetUnit janet_gates(float a_f, float a_g) { return {sigmoid(a_f), tanhf(a_g)}; }
__device__ inline float janet_forward(const JanetUnit& u, float h0, const JanetBeta& beta) {
  return fmaf(u.f, h0, (1.f - beta.shifted(u.f)) * u.g);
}

struct JanetGradient {
  float f, g;  // of the pre-activations
  float h0;
};
__device__ inline JanetGradient janet_backward(const JanetUnit& u, float h0, float dh,
                                               const JanetBeta& beta) {
  const float s2 = beta.shifted(u.f), input = 1.f - s2, slope = u.f * (1.f - u.f);
  return {dh * (beta.used ? h0 * slope - u.g * (s2 * input) : (h0 - u.g) * slope),
          dh * input * (1.f - u.g * u.g), dh * u.f};
}

}  // namespace nru::kernels::cuda
