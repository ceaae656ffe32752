// The cosines and sines that the butterfly kernels read, made once per call.
#pragma once

#include <cuda_runtime_api.h>

namespace nru::kernels::cuda {

// to[2 i], to[2 i + 1] = cos, sin of angles[i].
void cosines_and_sines(const float* angles, int count, float* to, cudaStream_t stream);

}  // namespace nru::kernels::cuda
