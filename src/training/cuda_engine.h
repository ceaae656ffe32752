// Training on a CUDA device.
#pragma once

#include <memory>
#include <string>

#include "training/engine.h"
#include "training/updater.h"

namespace nru::training {

// Throws nru::Error where the build has no CUDA kernels or the machine no such device; "cpu"
// passes.
void require_device(const std::string& device);

// Throws nru::Error as that does, and where the cell has no kernels. device: "cuda" or "cuda:N".
// tf32: see CudaNetwork.
std::unique_ptr<Engine> make_cuda_engine(Model model, FlatParameters& parameters,
                                         const std::string& device, bool tf32);

}  // namespace nru::training
