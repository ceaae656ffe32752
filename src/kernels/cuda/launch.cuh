// How kernels are launched: checked, and overlapping with the end of the kernel before.
//
// The chain of a time step is bound by latency, a good part of it between kernels. From Hopper on a
// kernel may start while its predecessor on the stream still runs ("programmatic dependent
// launch"), and waits at after_previous() until that one is complete and its results are visible.
// Every kernel launched here must call after_previous() in all threads before it reads or writes
// anything that others write or read; then each one finds the work of all before it done, as
// without the overlap.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "kernels/cuda/check.h"

namespace nru::kernels::cuda {

// Lets the next kernel start early, when all CTAs of this one have come here or ended. For the end
// of a kernel only: CTAs that come too soon crowd together on the few multiprocessors that are
// free, and stay there.
__device__ inline void release_next() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

__device__ inline void after_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

inline bool can_overlap() { return device_limits().major >= 9; }

struct LaunchShape {
  dim3 grid, block;
  std::size_t shared_bytes = 0;
};

// `name`, rows and width stand for the kernel and its work in error messages.
template <class... Parameters, class... Arguments>
void launch(const char* name, long long rows, long long width, void (*kernel)(Parameters...),
            const LaunchShape& shape, cudaStream_t stream, const Arguments&... arguments) {
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = can_overlap() ? 1 : 0;
  cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...);
  check_launch(name, rows, width);
}

// A kernel needs leave for more shared memory than the default. What no CTA can hold is refused
// here, with its name. For kernels of this folder.
void allow_shared_memory(const std::string& what, const void* kernel, std::size_t bytes);
// The leave is for all that a CTA of the current device has besides the kernel's own static part:
// *bytes. Leave for what one launch needs could be too little for another thread's, which is on its
// way.
cudaError_t allow_all_shared_memory(const void* kernel, std::size_t* bytes);

}  // namespace nru::kernels::cuda
