// What the page's scripts draw, as JSON inside the page.
#pragma once

#include <string>
#include <string_view>

#include "report/report.h"

namespace nru::report {

// {"figures":{name:{...}},"maps":{name:{...}}}, safe between <script> tags. Numbers have four
// digits: more cannot be seen.
std::string page_data(const Report& report);

std::string to_base64(std::string_view bytes);

}  // namespace nru::report
