// Text from files (names, labels, configurations, error messages) made harmless for where it goes.
#pragma once

#include <string>
#include <string_view>

namespace nru::report {

// Bytes that are no UTF-8 become U+FFFD, control characters other than tab and line end a space:
// what XML, HTML and JSON can hold.
std::string clean_text(std::string_view text);

// For HTML, between tags and inside double quotes.
std::string html(std::string_view text);

// For a cell of a Markdown table: one line, nothing in it is markup.
std::string markdown(std::string_view text);

}  // namespace nru::report
