// UTF-8, strictly: one code point at a time in and out.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace nru {

struct CodePoint {
  char32_t value;
  std::size_t bytes;  // 1 to 4
};

// The code point that starts at byte `at` (< text.size()). Nothing where the bytes are not UTF-8:
// stray or missing continuation bytes, overlong forms, surrogates, values above U+10FFFF.
std::optional<CodePoint> decode_utf8(std::string_view text, std::size_t at);

bool is_utf8(std::string_view text);

// A surrogate or a value above U+10FFFF is a bug in the caller.
void append_utf8(std::string& out, char32_t code);

}  // namespace nru
