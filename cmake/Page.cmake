# The report's page is compiled into the program: src/report/page/* and dygraphs, which Debian
# packages as libjs-dygraphs. Without it the page shows static figures.
find_path(
  NRU_DYGRAPHS_DIR dygraph.min.js
  PATHS /usr/share/javascript/dygraphs
  PATH_SUFFIXES share/javascript/dygraphs
  DOC "Folder with dygraph.min.js and dygraph.min.css")
set(dygraphs_dir "")
set(dygraphs_files "")
if(NRU_DYGRAPHS_DIR)
  set(dygraphs_dir ${NRU_DYGRAPHS_DIR})
  set(dygraphs_files ${dygraphs_dir}/dygraph.min.js ${dygraphs_dir}/dygraph.min.css)
endif()
file(GLOB page_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/report/page/*)
set(NRU_PAGE_SOURCE ${PROJECT_BINARY_DIR}/generated/page_assets.cpp)
add_custom_command(
  OUTPUT ${NRU_PAGE_SOURCE}
  COMMAND
    ${CMAKE_COMMAND} -DPAGE_DIR=${PROJECT_SOURCE_DIR}/src/report/page -DDYGRAPHS_DIR=${dygraphs_dir}
    -DOUTPUT=${NRU_PAGE_SOURCE} -P ${PROJECT_SOURCE_DIR}/cmake/write_page.cmake
  DEPENDS ${page_files} ${dygraphs_files} ${PROJECT_SOURCE_DIR}/cmake/write_page.cmake
  COMMENT "Embedding the report's page"
  VERBATIM)
