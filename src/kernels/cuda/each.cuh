// A function of (row, column), one thread each: the form of most pointwise kernels.
#pragma once

#include "kernels/cuda/launch.cuh"

namespace nru::kernels::cuda {

inline constexpr int kEachThreads = 128;

template <class F>
__global__ void __launch_bounds__(kEachThreads) each_kernel(const F f, int width) {
  after_previous();
  const int column = blockIdx.y * kEachThreads + threadIdx.x;
  if (column < width) f(static_cast<long long>(blockIdx.x), column);
}

// `name` stands for the kernel in error messages.
template <class F>
void for_each(const char* name, long long rows, int width, cudaStream_t stream, const F& f) {
  if (rows == 0 || width == 0) return;
  const dim3 grid(static_cast<unsigned>(rows), (width + kEachThreads - 1) / kEachThreads);
  launch(name, rows, width, each_kernel<F>, {grid, dim3(kEachThreads)}, stream, f, width);
}

}  // namespace nru::kernels::cuda
