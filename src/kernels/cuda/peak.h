// What the GPU can do at most, measured: `nru bench` compares every update with it.
#pragma once

#include "kernels/cuda/device.h"

namespace nru::kernels::cuda {

struct Peaks {
  double fma_flops = 0;   // float multiply-adds outside the tensor cores, FLOP/s
  double tf32_flops = 0;  // a large TF32 product through cuBLAS, FLOP/s
  double copy_bytes = 0;  // a large copy on the device, bytes read and written per second
  double clock_hz = 0;    // of the multiprocessors, while they multiplied
};

// Each the best of several tries; takes a few tenths of a second.
Peaks measure_peaks(StreamHandle stream);

}  // namespace nru::kernels::cuda
