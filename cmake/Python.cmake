# The Python module: python/nru/*.py and the operators (src/python) in one library, put together
# under python/ in the build folder, ready for PYTHONPATH or pip. The operators need torch but not
# Python: the module loads them with torch.ops.load_library. Torch must be the one that Python uses:
# Debian's libtorch-dev goes with python3-torch; for pip's torch put its share/cmake on
# CMAKE_PREFIX_PATH.
nru_sources(python_sources src/python)
set(NRU_PYTHON_DIR ${PROJECT_BINARY_DIR}/python)

add_library(nru_operators MODULE EXCLUDE_FROM_ALL ${python_sources} $<TARGET_OBJECTS:nru>)
target_link_libraries(nru_operators PRIVATE nru_core torch)
set_target_properties(
  nru_operators PROPERTIES PREFIX lib LINKER_LANGUAGE CXX
                           LIBRARY_OUTPUT_DIRECTORY ${NRU_PYTHON_DIR}/nru)

file(GLOB module_files CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/python
     ${PROJECT_SOURCE_DIR}/python/nru/*.py)
configure_file(${PROJECT_SOURCE_DIR}/python/setup.py.in ${NRU_PYTHON_DIR}/setup.py @ONLY)
set(copies)
foreach(file pyproject.toml ${module_files})
  add_custom_command(
    OUTPUT ${NRU_PYTHON_DIR}/${file}
    COMMAND ${CMAKE_COMMAND} -E copy ${PROJECT_SOURCE_DIR}/python/${file} ${NRU_PYTHON_DIR}/${file}
    DEPENDS ${PROJECT_SOURCE_DIR}/python/${file}
    VERBATIM)
  list(APPEND copies ${NRU_PYTHON_DIR}/${file})
endforeach()
add_custom_target(nru_python DEPENDS ${copies})
add_dependencies(nru_python nru_operators)
