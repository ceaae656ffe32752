// The files of src/report/page and the charting library, as CMake found them when this was built
// (cmake/write_page.cmake).
#pragma once

#include <string_view>

namespace nru::report {

struct PageAssets {
  std::string_view html;     // with {{placeholders}}
  std::string_view style;    // ours and the library's
  std::string_view script;   // ours
  std::string_view library;  // dygraphs; empty: it was not there
};

const PageAssets& page_assets();

}  // namespace nru::report
