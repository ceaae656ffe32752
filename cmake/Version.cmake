# nru::version() and nru::commit() come from one small generated file. The target nru_version runs
# in every build and rewrites the file only when the commit changed: a new commit costs one compile
# and a link, no configure step.
set(NRU_COMMIT "" CACHE STRING "The commit to name where the sources lie without their history")
set(NRU_VERSION_SOURCE ${PROJECT_BINARY_DIR}/generated/version.cpp)
add_custom_target(
  nru_version
  COMMAND
    ${CMAKE_COMMAND} -DSOURCE_DIR=${PROJECT_SOURCE_DIR} -DVERSION=${PROJECT_VERSION}
    -DOUTPUT=${NRU_VERSION_SOURCE} -DCOMMIT=${NRU_COMMIT} -P ${PROJECT_SOURCE_DIR}/cmake/write_version.cmake
  BYPRODUCTS ${NRU_VERSION_SOURCE}
  COMMENT "Checking the commit"
  VERBATIM)
