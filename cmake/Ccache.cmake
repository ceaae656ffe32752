# Compile through ccache where it is installed: a file with torch headers takes 10 to 30 s the
# first time and a tenth of a second from the cache.
find_program(NRU_CCACHE ccache)
mark_as_advanced(NRU_CCACHE)
foreach(language CXX CUDA)
  if(NRU_CCACHE AND NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER)
    set(CMAKE_${language}_COMPILER_LAUNCHER ${NRU_CCACHE})
  endif()
endforeach()
