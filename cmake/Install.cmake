# make install: headers, libnru, the program, the paper's experiments, and what find_package(nru) needs.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/nru)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/nruConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/nruConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/nruConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)

install(TARGETS nru EXPORT nruTargets)
install(EXPORT nruTargets NAMESPACE nru:: DESTINATION ${package_dir})
install(FILES ${PROJECT_BINARY_DIR}/nruConfig.cmake ${PROJECT_BINARY_DIR}/nruConfigVersion.cmake
        DESTINATION ${package_dir})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/nru DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN *.h)
if(TARGET nru_cli)
  install(TARGETS nru_cli)
  # find_experiments() looks for them relative to the program.
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/experiments DESTINATION share/nru
          FILES_MATCHING PATTERN *.toml)
endif()
