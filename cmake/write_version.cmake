# Script: writes OUTPUT from version.cpp.in with the commit of SOURCE_DIR, or COMMIT where that is
# given (a source tree without its history: -DNRU_COMMIT=...). Called by nru_version.
cmake_minimum_required(VERSION 3.22)

if(NOT COMMIT)
  set(COMMIT unknown)
  find_program(git git)
  if(git AND EXISTS ${SOURCE_DIR}/.git) # an unpacked archive may lie inside another repository
    execute_process(
      COMMAND ${git} describe --always --abbrev=12 --dirty --exclude=*
      WORKING_DIRECTORY ${SOURCE_DIR}
      OUTPUT_VARIABLE described
      OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
      RESULT_VARIABLE status)
    if(status EQUAL 0)
      set(COMMIT ${described})
    endif()
  endif()
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/version.cpp.in ${OUTPUT} @ONLY)
