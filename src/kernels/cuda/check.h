// Turns CUDA's and cuBLAS's return codes into Errors. For the files of this folder.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "kernels/cuda/device.h"

namespace nru::kernels::cuda {

[[noreturn]] void fail(const std::string& what, cudaError_t error);

inline void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) fail(what, error);
}

// After every launch: names the kernel and the shape it was to work on. Static, because library and
// program each have a CUDA runtime linked in: one shared copy of this function would ask the wrong
// one for its last error.
static inline void check_launch(const char* kernel, long long rows, long long width) {
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) {
    fail("kernel " + std::string(kernel) + " on [" + std::to_string(rows) + ", " +
             std::to_string(width) + "]",
         error);
  }
}

// While a stream is captured, a thread may call what is not captured (allocations) only in the
// relaxed mode.
class RelaxedCapture {
 public:
  RelaxedCapture() {
    check(cudaThreadExchangeStreamCaptureMode(&mode_), "cudaThreadExchangeStreamCaptureMode");
  }
  ~RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace nru::kernels::cuda
