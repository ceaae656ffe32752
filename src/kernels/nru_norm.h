// The numbers in the NRU's norms, v = f(.) / max(|f(.)|_5, kNormClamp). kernels/cuda/nru_write.cuh
// has them in float.
#pragma once

namespace nru::kernels {

inline constexpr double kNormClamp = 1e-12;
// FLT_MAX^(1/5): above, the published code's norm is infinite.
inline constexpr double kAuthorsLargestNorm = 5.07e7;

}  // namespace nru::kernels
