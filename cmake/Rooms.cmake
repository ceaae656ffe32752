# Helpers that turn the folders of src/ (the rooms of ARCHITECTURE.md) into targets. A room may be
# empty, and CMake has no object library without sources, so those become interface libraries.

# nru_sources(<variable> <folder>...): the .cpp files directly in these folders.
function(nru_sources variable)
  list(TRANSFORM ARGN PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE globs)
  list(TRANSFORM globs APPEND /*.cpp)
  file(GLOB files CONFIGURE_DEPENDS ${globs})
  set(${variable} ${files} PARENT_SCOPE)
endfunction()

# nru_object_library(<target> [source...])
function(nru_object_library target)
  if(ARGN)
    add_library(${target} OBJECT ${ARGN})
  else()
    add_library(${target} INTERFACE)
  endif()
endfunction()

# nru_link(<target> <library>...): compile against the libraries and hand that on. Object files of
# an object library reach only the targets that take them (nru_take_objects, or a direct link).
function(nru_link target)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL INTERFACE_LIBRARY)
    target_link_libraries(${target} INTERFACE ${ARGN})
  else()
    target_link_libraries(${target} PUBLIC ${ARGN})
  endif()
endfunction()

# nru_take_objects(<interface target> <object library>...): whoever links the interface target gets
# the object files themselves.
function(nru_take_objects target)
  foreach(library ${ARGN})
    target_link_libraries(${target} INTERFACE ${library})
    get_target_property(type ${library} TYPE)
    if(type STREQUAL OBJECT_LIBRARY)
      target_sources(${target} INTERFACE $<TARGET_OBJECTS:${library}>)
    endif()
  endforeach()
endfunction()
