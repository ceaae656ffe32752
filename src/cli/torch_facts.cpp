#include "cli/torch_facts.h"

#include "cells/torch_cuda.h"

namespace nru::cli {

const char* torch_version() { return TORCH_VERSION; }

bool torch_has_cuda() {
#ifdef NRU_TORCH_CUDA
  return true;
#else
  return false;
#endif
}

int cuda_devices() { return static_cast<int>(torch::cuda::device_count()); }

}  // namespace nru::cli
