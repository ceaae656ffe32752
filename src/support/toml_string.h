// Strings as TOML writes them in one line: "basic" with escapes, 'literal' without.
#pragma once

#include <string>
#include <string_view>

namespace nru {

// The basic string that stands for `text`, quotes included.
std::string quote_toml(std::string_view text);

// The reverse, for basic and literal strings. Throws nru::Error for a broken quotation: no closing
// quote, text after it, an unknown escape.
std::string unquote_toml(std::string_view quoted);

}  // namespace nru
