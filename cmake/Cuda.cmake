# The CUDA kernels, src/kernels/cuda: torch-free, so nvcc compiles them even without a GPU or a CUDA
# build of torch. Their object files join nru_core's. The host side there is plain C++ and goes
# through the C++ compiler: faster, and with all its warnings.

# nru_add_cuda(<target> <source>...): .cu files and the C++ beside them.
function(nru_add_cuda target)
  target_sources(${target} PRIVATE ${ARGN})
  set_target_properties(
    ${target} PROPERTIES CUDA_STANDARD 17 CUDA_STANDARD_REQUIRED ON
                         CUDA_ARCHITECTURES "${CMAKE_CUDA_ARCHITECTURES}")
  # constexpr functions of plain headers may be called on the device.
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>)
  # Costs a machine without CUDA nothing: the runtime is linked in.
  target_link_libraries(${target} PUBLIC CUDA::cudart_static ${CMAKE_DL_LIBS})
endfunction()

file(GLOB cuda_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/kernels/cuda/*.cu)
nru_sources(cuda_host_sources src/kernels/cuda)
if(cuda_sources AND NRU_CUDA)
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
      # A100 and H100, and through 90's PTX what comes after them; every further one costs compile time.
      set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
    endif()
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    nru_add_cuda(nru_core ${cuda_sources} ${cuda_host_sources})
    target_compile_definitions(nru_common INTERFACE NRU_HAS_CUDA=1)
    target_include_directories(nru_common SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
    list(JOIN CMAKE_CUDA_ARCHITECTURES ", " architectures)
    set_property(
      SOURCE ${PROJECT_SOURCE_DIR}/src/kernels/cuda/device.cpp APPEND
      PROPERTY COMPILE_DEFINITIONS NRU_CUDA_ARCHITECTURES="${architectures}")
    # cuBLAS is loaded when it is first needed, so that it costs a machine without CUDA nothing either.
    set_property(
      SOURCE ${PROJECT_SOURCE_DIR}/src/kernels/cuda/gemm.cpp APPEND
      PROPERTY COMPILE_DEFINITIONS NRU_CUDA_LIBRARY_DIR="${CUDAToolkit_LIBRARY_DIR}")
  elseif(NRU_CUDA STREQUAL ON)
    message(FATAL_ERROR "NRU_CUDA is ON but no nvcc was found: put it on PATH, or set CUDACXX")
  endif()
endif()

# Times the kernels, and tries compute-sanitizer; built on demand (ninja cuda_update named_barriers).
if(TARGET CUDA::cudart_static AND EXISTS ${PROJECT_SOURCE_DIR}/bench/cuda_update.cpp)
  add_executable(cuda_update EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/bench/cuda_update.cpp)
  target_link_libraries(cuda_update PRIVATE nru_core nru_common)
  add_executable(named_barriers EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/bench/named_barriers.cu)
endif()
