// What layer norm adds to a variance, as torch does. kernels/cuda/activation.cuh has it in float.
#pragma once

namespace nru::kernels {

inline constexpr double kLayerNormEps = 1e-5;

}  // namespace nru::kernels
