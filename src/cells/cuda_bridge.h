// The bridge's way to the CUDA kernels: on torch's current stream, in torch's memory.
//
// A forward pass makes a Sequence and its backward pass (or the end of the graph) drops it, so all
// its memory comes from torch's caching allocator: no call waits for the device, the memory is
// counted where users look for it, and under torch's graph capture it belongs to the graph's own
// pool and stays valid as long as the graph, which no pool of ours could know.
#pragma once

#include <nru/torch.h>

#include <memory>
#include <string>

#include "cells/bridge.h"
#include "cells/runner.h"
#include "kernels/program.h"

namespace nru {

// Why float32 tensors on a CUDA device cannot go through the kernels; empty: they can.
std::string no_cuda_kernels_for(const kernels::Program<float>& program);

// Throws std::logic_error where no_cuda_kernels_for() has a reason. Products use TF32 where torch
// was told that its own may (at::globalContext().allowTF32CuBLAS()).
std::unique_ptr<Runner<float>> make_cuda_runner(const FusedCall& call, torch::Device device);

}  // namespace nru
