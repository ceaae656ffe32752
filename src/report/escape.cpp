#include "report/escape.h"

#include <nlohmann/json.hpp>

namespace nru::report {
namespace {

bool is_control(char c) {
  return (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
}

}  // namespace

std::string clean_text(std::string_view text) {
  using Json = nlohmann::json;
  // nlohmann knows UTF-8: writing replaces what is none, reading undoes the quoting.
  const std::string quoted = Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string clean = Json::parse(quoted).get<std::string>();
  for (char& c : clean) {
    if (is_control(c)) c = ' ';
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
