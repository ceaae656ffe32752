// Phases that end in an activation of all their outputs: h = f(a), or h = f(LN(a)), f = ReLU or
// tanh. Shared by the NRU, the RNN and the SRU.
#pragma once

#include <vector>

#include "kernels/cuda/device_cell.h"

namespace nru::kernels::cuda {

struct Activation {
  int part = 0;  // h
  int width = 0;
  bool tanh = false;          // else ReLU
  int pre = -1;               // with layer norm: the part that keeps a
  int gamma = -1, beta = -1;  // and the parameters, which the cell lists as row sums
};

DevicePhase activation_phase(const Activation& f);

}  // namespace nru::kernels::cuda
