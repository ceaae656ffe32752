# Installs BUILD_DIR into a fresh prefix under WORK_DIR, moves the prefix (an installed tree is
# relocatable), and configures, builds and runs the consumer project against it.
cmake_minimum_required(VERSION 3.22)

function(run)
  execute_process(
    COMMAND ${ARGN}
    RESULT_VARIABLE status
    OUTPUT_VARIABLE output
    ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK_DIR})
run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${WORK_DIR}/first)
file(RENAME ${WORK_DIR}/first ${WORK_DIR}/prefix)

# Only what is public is installed, and nothing that points back to the sources or the build.
file(GLOB_RECURSE headers RELATIVE ${WORK_DIR}/prefix/include ${WORK_DIR}/prefix/include/*)
foreach(header ${headers})
  if(NOT EXISTS ${SOURCE_DIR}/include/${header})
    message(FATAL_ERROR "${header} is installed but not public")
  endif()
endforeach()
file(GLOB_RECURSE package_files ${WORK_DIR}/prefix/*.cmake)
if(NOT headers OR NOT package_files)
  message(FATAL_ERROR "no headers or no package files were installed")
endif()
foreach(file ${package_files})
  file(STRINGS ${file} lines REGEX "${SOURCE_DIR}|${BUILD_DIR}")
  if(lines)
    message(FATAL_ERROR "${file} refers to the sources or the build:\n${lines}")
  endif()
endforeach()

run(${CMAKE_COMMAND} -G Ninja -S ${SOURCE_DIR}/tests/install -B ${WORK_DIR}/build
    -DCMAKE_PREFIX_PATH=${WORK_DIR}/prefix -DTorch_DIR=${Torch_DIR} -DCMAKE_CXX_COMPILER=${CXX}
    -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER})
run(${CMAKE_COMMAND} --build ${WORK_DIR}/build)
run(${WORK_DIR}/build/consumer)
message("${output}")
if(EXISTS ${WORK_DIR}/prefix/bin/nru)
  run(${WORK_DIR}/prefix/bin/nru --version)
  # The installed program reads the installed experiments, not those of the sources.
  file(RENAME ${WORK_DIR}/prefix/share/nru/experiments/copy-100.toml
       ${WORK_DIR}/prefix/share/nru/experiments/installed-copy.toml)
  file(GLOB others ${WORK_DIR}/prefix/share/nru/experiments/[^i]*.toml)
  file(REMOVE ${others})
  run(${WORK_DIR}/prefix/bin/nru reproduce --list)
  if(NOT output MATCHES "installed-copy" OR output MATCHES "psmnist")
    message(FATAL_ERROR "the installed program does not read its own experiments:\n${output}")
  endif()
endif()
