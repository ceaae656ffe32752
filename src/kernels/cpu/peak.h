// The arithmetic speed limit of this machine, measured: what `nru bench` compares every kernel
// with.
#pragma once

namespace nru::kernels {

// Fused multiply-add throughput of one thread in FLOP/s (float), over about `seconds`; the best of
// several windows.
double measure_fma_peak(double seconds);

}  // namespace nru::kernels
