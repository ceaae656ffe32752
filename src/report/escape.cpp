#include "report/escape.h"

#include "support/utf8.h"

namespace nru::report {
namespace {

bool is_control(char32_t code) {
  return (code < 0x20 && code != '\n' && code != '\t') || (code >= 0x7f && code < 0xa0) ||
         code == 0xfffe || code == 0xffff;
}

}  // namespace

std::string clean_text(std::string_view text) {
  std::string clean;
  for (std::size_t at = 0; at < text.size();) {
    const std::optional<CodePoint> code = decode_utf8(text, at);
    const std::size_t bytes = code ? code->bytes : 1;
    if (!code) {
      append_utf8(clean, 0xfffd);
    } else if (is_control(code->value)) {
      clean += ' ';
    } else {
      clean += text.substr(at, bytes);
    }
    at += bytes;
  }
  return clean;
}

std::string html(std::string_view text) {
  std::string escaped;
  for (const char c : clean_text(text)) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string markdown(std::string_view text) {
  std::string escaped;
  for (const char c : clean_text(text)) {
    if (c == '\n' || c == '\t') {
      escaped += ' ';
      continue;
    }
    if (std::string_view("\\`*_[]<>|").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

}  // namespace nru::report
