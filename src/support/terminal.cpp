// The terminal as the environment describes it.
#include "support/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace nru {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The first of these that is set decides, as in setlocale(); the program itself may stay in "C".
bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    std::string value = environment(name);
    if (value.empty()) continue;
    for (char& c : value) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return value.find("utf-8") != std::string::npos || value.find("utf8") != std::string::npos;
  }
  return false;
}

int columns_of(int fd) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const int asked = std::atoi(environment("COLUMNS").c_str());
  return asked > 0 ? asked : 80;
}

}  // namespace

TerminalStyle detect_terminal(int fd) {
  TerminalStyle style;
  const std::string term = environment("TERM");
  style.terminal = ::isatty(fd) != 0 && !term.empty() && term != "dumb";
  style.color = style.terminal && environment("NO_COLOR").empty();
  style.utf8 = locale_is_utf8();
  style.columns = columns_of(fd);
  return style;
}

}  // namespace nru
