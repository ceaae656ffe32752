# LibTorch: sets NRU_TORCH_HAS_CUDA where it is a CUDA build, and gives the function below.
#
# Finding a CUDA build of torch sets the architectures and flags of whoever looks for it to torch's
# own taste; the kernels here keep theirs.
set(nru_architectures "${CMAKE_CUDA_ARCHITECTURES}")
set(nru_cuda_flags "${CMAKE_CUDA_FLAGS}")
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 90) # for what torch tries while it is being found
endif()
find_package(Torch REQUIRED)
if(nru_architectures)
  set(CMAKE_CUDA_ARCHITECTURES "${nru_architectures}")
else()
  unset(CMAKE_CUDA_ARCHITECTURES) # cmake/Cuda.cmake has the default
endif()
set(CMAKE_CUDA_FLAGS "${nru_cuda_flags}")

set(NRU_TORCH_HAS_CUDA OFF)
if(TARGET torch_cuda OR TORCH_CUDA_LIBRARIES)
  set(NRU_TORCH_HAS_CUDA ON)
endif()

# nru_uses_torch_cuda(<file>...): these files include src/cells/torch_cuda.h.
function(nru_uses_torch_cuda)
  if(NRU_TORCH_HAS_CUDA)
    set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_DEFINITIONS NRU_TORCH_CUDA=1)
  endif()
endfunction()
