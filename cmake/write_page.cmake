# Script: writes OUTPUT, a C++ file with the report's page (the files of PAGE_DIR) and dygraphs (from
# DYGRAPHS_DIR, may be empty) as strings. Without the first line @...@ inside the JavaScript would be
# expanded.
cmake_minimum_required(VERSION 3.22)

# A raw string literal for each 8 KB: compilers need not take longer ones.
function(add_literal name)
  set(text "")
  foreach(file ${ARGN})
    file(READ "${file}" content)
    # A browser would look for the map; the page asks the network for nothing.
    string(REGEX REPLACE "//# sourceMappingURL=[^\n]*|/\\*# sourceMappingURL=[^*]*\\*/" "" content
                         "${content}")
    string(REPLACE "</script" "<\\/script" content "${content}")
    string(APPEND text "${content}\n")
  endforeach()
  string(LENGTH "${text}" length)
  file(APPEND "${OUTPUT}.new" "constexpr std::string_view ${name} =\n    \"\"")
  set(at 0)
  while(at LESS length)
    string(SUBSTRING "${text}" ${at} 8000 piece)
    file(APPEND "${OUTPUT}.new" "\n    R\"nru_page(${piece})nru_page\"")
    math(EXPR at "${at} + 8000")
  endwhile()
  file(APPEND "${OUTPUT}.new" ";\n")
endfunction()

file(WRITE "${OUTPUT}.new" "// Written by cmake/write_page.cmake.\n#include \"report/page_assets.h\"\n\n"
                           "namespace nru::report {\nnamespace {\n\n")
set(library "")
set(library_style "")
if(DYGRAPHS_DIR)
  set(library ${DYGRAPHS_DIR}/dygraph.min.js)
  set(library_style ${DYGRAPHS_DIR}/dygraph.min.css)
endif()
add_literal(kStyle ${library_style} ${PAGE_DIR}/page.css)
add_literal(kScript ${PAGE_DIR}/chart.js ${PAGE_DIR}/map.js ${PAGE_DIR}/page.js)
add_literal(kLibrary ${library})
# The page itself holds the real </script>.
file(READ "${PAGE_DIR}/page.html" html)
file(APPEND "${OUTPUT}.new" "constexpr std::string_view kHtml = R\"nru_page(${html})nru_page\";\n"
     "\n}  // namespace\n\nconst PageAssets& page_assets() {\n"
     "  static constexpr PageAssets assets{kHtml, kStyle, kScript, kLibrary};\n"
     "  return assets;\n}\n\n}  // namespace nru::report\n")
file(RENAME "${OUTPUT}.new" "${OUTPUT}")
