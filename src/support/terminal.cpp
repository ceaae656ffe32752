// The terminal as the environment describes it.
#include "support/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
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

int environment_size(const char* name, int otherwise) {
  const int asked = std::atoi(environment(name).c_str());
  return asked > 0 ? asked : otherwise;
}

}  // namespace

void TerminalStyle::measure() {
  winsize size{};
  if (fd < 0 || ::ioctl(fd, TIOCGWINSZ, &size) != 0) return;
  if (size.ws_col > 0) columns = size.ws_col;
  if (size.ws_row > 0) rows = size.ws_row;
}

std::string TerminalStyle::cut(std::string line) const {
  std::size_t room = static_cast<std::size_t>(std::max(columns - 1, 0));
  if (line.size() <= room) return line;
  // Not between the bytes of a character.
  while (room > 0 && (static_cast<unsigned char>(line[room]) & 0xC0) == 0x80) --room;
  line.resize(room);
  return line;
}

std::string TerminalStyle::fit(std::vector<LineField> fields) const {
  const auto line = [&] {
    std::string text;
    for (const LineField& field : fields) text += field.text;
    return text;
  };
  if (!terminal) return line();
  while (static_cast<int>(line().size()) > std::max(columns - 1, 0)) {
    auto next = fields.end();
    for (auto field = fields.begin(); field != fields.end(); ++field) {
      if (field->leaves > 0 && (next == fields.end() || field->leaves < next->leaves)) next = field;
    }
    if (next == fields.end()) return cut(line());
    fields.erase(next);
  }
  return line();
}

TerminalStyle detect_terminal(int fd) {
  TerminalStyle style;
  const std::string term = environment("TERM");
  style.terminal = ::isatty(fd) != 0 && !term.empty() && term != "dumb";
  style.color = style.terminal && environment("NO_COLOR").empty();
  style.utf8 = locale_is_utf8();
  style.columns = environment_size("COLUMNS", style.columns);
  style.rows = environment_size("LINES", style.rows);
  style.fd = fd;
  style.measure();
  return style;
}

}  // namespace nru
