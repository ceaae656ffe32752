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

# Configures and builds the project in `source` against the installed tree.
macro(build_project source build)
  run(${CMAKE_COMMAND} -G Ninja -S ${source} -B ${build} -DCMAKE_PREFIX_PATH=${WORK_DIR}/prefix
      -DTorch_DIR=${Torch_DIR} -DCMAKE_CXX_COMPILER=${CXX}
      -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER})
  run(${CMAKE_COMMAND} --build ${build})
endmacro()

build_project(${SOURCE_DIR}/tests/install ${WORK_DIR}/build)
run(${WORK_DIR}/build/consumer)
message("${output}")

# The first block of that language in docs/cpp.md, as a file.
function(extract language file)
  file(READ ${SOURCE_DIR}/docs/cpp.md text)
  string(FIND "${text}" "```${language}\n" begin)
  string(LENGTH "```${language}\n" skip)
  math(EXPR begin "${begin} + ${skip}")
  string(SUBSTRING "${text}" ${begin} -1 text)
  string(FIND "${text}" "```" end)
  string(SUBSTRING "${text}" 0 ${end} text)
  file(WRITE ${file} "${text}")
endfunction()

# What the documentation shows is what works.
extract(cmake ${WORK_DIR}/documented/CMakeLists.txt)
extract(cpp ${WORK_DIR}/documented/running_sum.cpp)
build_project(${WORK_DIR}/documented ${WORK_DIR}/documented/build)
execute_process(
  COMMAND ./running_sum
  WORKING_DIRECTORY ${WORK_DIR}/documented/build
  RESULT_VARIABLE status
  OUTPUT_VARIABLE output)
if(NOT status EQUAL 0 OR NOT output MATCHES "200: 0\\.[0-4]")
  message(FATAL_ERROR "the program of docs/cpp.md does not learn, or loses its weights:\n${output}")
endif()
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
