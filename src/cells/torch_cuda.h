// torch's CUDA streams, memory and graphs, for the few files that name them
// (those below #ifdef exist in CUDA builds of torch alone).
//
// cmake/Torch.cmake defines NRU_TORCH_CUDA for these files where the torch in use has CUDA.
#pragma once

#include <nru/torch.h>
// (keep the order)
#include <torch/cuda.h>

#ifdef NRU_TORCH_CUDA
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif
