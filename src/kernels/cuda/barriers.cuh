// Named barriers between some warps of a CTA: who makes something arrives, who needs it waits, and
// the count is that of both.
//
// Two rules are there for compute-sanitizer, which would report errors otherwise
// (bench/results/sanitizers-h200.txt, bench/named_barriers.cu). For synccheck, a barrier has one
// place in the code where threads wait at it. For racecheck, roles that hand something over wait
// equally often. By what small kernels show, it gives every warp one clock, which waiting moves on
// by one, or to that of those who arrived if theirs is later, while arriving does not move it; and
// it takes an access to come after another warp's only if its clock is later. So some wait once
// more than they need to, for nobody but themselves, where they have nothing else to do.
#pragma once

#include <cuda_runtime.h>

namespace nru::kernels::cuda {

#ifndef NRU_EMULATED_CLUSTER

template <int kBarrier, int kThreads>
__device__ inline void arrive() {
  asm volatile("bar.arrive %0, %1;" ::"n"(kBarrier), "n"(kThreads) : "memory");
}
template <int kBarrier, int kThreads>
__device__ inline void await() {
  asm volatile("bar.sync %0, %1;" ::"n"(kBarrier), "n"(kThreads) : "memory");
}

#endif

}  // namespace nru::kernels::cuda
