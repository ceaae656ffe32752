# Compile through ccache where it is installed: a file with torch headers takes 10 to 30 s the
# first time and a tenth of a second from the cache.
#
# CUDA files by the files that they depend on (CCACHE_DEPEND), never by what the preprocessor makes of
# them: of several architectures ccache preprocesses one, and a change that only another one sees
# (#if __CUDA_ARCH__ >= 900) would get the object of before it. In a namespace of their own, because a
# cache may hold such objects.
find_program(NRU_CCACHE ccache)
mark_as_advanced(NRU_CCACHE)
if(NRU_CCACHE)
  if(NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${NRU_CCACHE})
  endif()
  if(NOT DEFINED CMAKE_CUDA_COMPILER_LAUNCHER)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_DEPEND=1
                                     CCACHE_NAMESPACE=nru-cuda ${NRU_CCACHE})
  endif()
endif()
