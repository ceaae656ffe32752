// The GRU's equations for one unit of one row (gru.cu has them as a whole): reset before the
// product.
#pragma once

#include "kernels/cuda/math.cuh"

namespace nru::kernels::cuda {

// h, of the gate z, the candidate n and h'.
__device__ inline float gru_blend(float z, float n, float h0) { return fmaf(z, h0, (1.f - z) * n); }

struct GruBlendGradient {
  float n, z;  // of the pre-activations
  float h0;
};
__device__ inline GruBlendGradient gru_blend_backward(float z, float n, float h0, float dh) {
  return {dh * (1.f - z) * (1.f - n * n), dh * (h0 - n) * z * (1.f - z), dh * z};
}

// Of the pre-activation of r, from the gradient of r h'.
__device__ inline float gru_reset_backward(float r, float h0, float d_inner) {
  return d_inner * h0 * r * (1.f - r);
}

}  // namespace nru::kernels::cuda
