// Escapes of TOML's one-line strings. A full TOML parser is no help here: it wants a document and
// reports positions in it, while `--set key=value` needs one value and a message about it.
#include "support/toml_string.h"

#include <fmt/format.h>
#include <nru/error.h>

#include <charconv>
#include <cstddef>
#include <cstdint>

#include "support/utf8.h"

namespace nru {
namespace {

constexpr std::string_view kEscapeLetters = "btnfr\"\\";
constexpr std::string_view kEscapedChars = "\b\t\n\f\r\"\\";

// The code point of \uXXXX or \UXXXXXXXX, `digits` being what follows the letter.
uint32_t code_point(std::string_view digits, std::size_t count, std::string_view quoted) {
  uint32_t code = 0;
  digits = digits.substr(0, count);
  const auto [end, failure] =
      std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (digits.size() != count || failure != std::errc{} || end != digits.data() + count ||
      surrogate || code > 0x10FFFF) {
    throw Error(
        fmt::format("the string {} has a bad \\u escape; it needs {} hexadecimal digits of a "
                    "Unicode character",
                    quoted, count));
  }
  return code;
}

// Appends what the escape after the backslash at `at` stands for; returns the position after it.
std::size_t unescape(std::string_view quoted, std::size_t at, std::string& out) {
  const char letter = at + 1 < quoted.size() ? quoted[at + 1] : '\0';
  if (letter == 'u' || letter == 'U') {
    const std::size_t count = letter == 'u' ? 4 : 8;
    append_utf8(out, code_point(quoted.substr(at + 2), count, quoted));
    return at + 2 + count;
  }
  const std::size_t which = kEscapeLetters.find(letter);
  if (which == std::string_view::npos) {
    throw Error(
        fmt::format("the string {} has an unknown escape; write \\\\ for a backslash, or use "
                    "'single quotes'",
                    quoted));
  }
  out += kEscapedChars[which];
  return at + 2;
}

}  // namespace

std::string quote_toml(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const std::size_t which = kEscapedChars.find(c);
    if (which != std::string_view::npos) {
      quoted += '\\';
      quoted += kEscapeLetters[which];
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      quoted += fmt::format("\\u{:04X}", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string unquote_toml(std::string_view quoted) {
  std::string out;
  const char quote = quoted.empty() ? '\0' : quoted.front();
  for (std::size_t at = 1; at < quoted.size();) {
    if (quoted[at] == quote) {
      if (at + 1 == quoted.size()) return out;
      throw Error(
          fmt::format("the string {} goes on after its closing quote; escape quotes inside "
                      "a string as \\\"",
                      quoted));
    }
    if (quote == '"' && quoted[at] == '\\') {
      at = unescape(quoted, at, out);
    } else {
      out += quoted[at++];
    }
  }
  throw Error(fmt::format("the string {} has no closing quote; add {}", quoted, quote));
}

}  // namespace nru
