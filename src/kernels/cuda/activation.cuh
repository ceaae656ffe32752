// The two activations, and what layer norm adds to a variance.
#pragma once

#include "kernels/cuda/math.cuh"

namespace nru::kernels::cuda {

inline constexpr float kLayerNormEps = 1e-5f;

__device__ inline float activate(bool tanh, float a) { return tanh ? tanhf(a) : relu(a); }
__device__ inline float activate_backward(bool tanh, float h, float dh) {
  return tanh ? tanh_backward(h, dh) : relu_backward(h, dh);
}

}  // namespace nru::kernels::cuda
