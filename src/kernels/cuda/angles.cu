#include "kernels/cuda/angles.h"

#include "kernels/cuda/each.cuh"

namespace nru::kernels::cuda {
namespace {

struct CosineSine {
  const float* angles;
  float* to;
  __device__ void operator()(long long, int i) const {
    sincosf(angles[i], to + 2 * i + 1, to + 2 * i);
  }
};

}  // namespace

void cosines_and_sines(const float* angles, int count, float* to, cudaStream_t stream) {
  for_each("cosines_and_sines", 1, count, stream, CosineSine{angles, to});
}

}  // namespace nru::kernels::cuda
