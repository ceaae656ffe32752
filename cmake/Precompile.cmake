# Torch's headers take two thirds of the time of most files that include them. Precompiled, once per
# target, they save a cold build a quarter of its time; not the default, because ccache keeps nothing
# then, and because every target needs half a gigabyte for it.
option(NRU_PRECOMPILE "Precompile torch's headers: faster where there is no ccache" OFF)

# nru_precompile_torch(<target>...)
function(nru_precompile_torch)
  if(NOT NRU_PRECOMPILE)
    return()
  endif()
  foreach(target ${ARGN})
    target_precompile_headers(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:<nru/torch.h$<ANGLE-R>>)
  endforeach()
endfunction()
