// For tests of what runs on a CUDA device: skipped, and counted as such, where there is none.
#pragma once

#include <gtest/gtest.h>

#ifdef NRU_HAS_CUDA
#include "kernels/cuda/device.h"
#define NRU_NEEDS_CUDA_DEVICE() \
  if (::nru::kernels::cuda::device_count() == 0) GTEST_SKIP() << "no CUDA device"
#else
#define NRU_NEEDS_CUDA_DEVICE() GTEST_SKIP() << "built without CUDA"
#endif
