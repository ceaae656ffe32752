# The CUDA kernels, src/kernels/cuda/*.cu: torch-free, so nvcc compiles them even without a GPU or
# a CUDA build of torch. Their object files join nru_core's.
file(GLOB cuda_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/kernels/cuda/*.cu)
if(cuda_sources AND NRU_CUDA)
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES 80 90) # A100 and H100; newer ones through 90's PTX
    endif()
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    target_sources(nru_core PRIVATE ${cuda_sources})
    set_target_properties(
      nru_core PROPERTIES CUDA_STANDARD 17 CUDA_STANDARD_REQUIRED ON
                          CUDA_ARCHITECTURES "${CMAKE_CUDA_ARCHITECTURES}")
    target_link_libraries(nru_core PUBLIC CUDA::cudart)
    target_compile_definitions(nru_core PUBLIC NRU_HAS_CUDA=1)
  elseif(NRU_CUDA STREQUAL ON)
    message(FATAL_ERROR "NRU_CUDA is ON but no nvcc was found: put it on PATH, or set CUDACXX")
  endif()
endif()
