// What the place that output goes to can show: asked once, passed to everything that draws. Only
// the size of the window is asked for again, at each drawing: people change it, and a line that
// wraps or a block that scrolls could not be redrawn.
#pragma once

#include <string>
#include <vector>

namespace nru {

// A piece of a line, with the separator before it.
struct LineField {
  std::string text;
  int leaves = 0;  // 1: left out first where the line is too long, then 2, ...; 0: never
};

struct TerminalStyle {
  bool terminal = false;  // a person watches: lines may be rewritten
  bool color = false;     // escape sequences for colour are welcome (a terminal, NO_COLOR not set)
  bool utf8 = false;      // the locale can show Unicode blocks and braille
  int columns = 80, rows = 24;
  int fd = -1;  // where measure() asks; -1: the size stays as it is

  // Takes the size the window has now; what is not known stays.
  void measure();
  // What of `line` fits into one row and leaves the last column free, where the cursor would wrap.
  // A byte counts as a column.
  std::string cut(std::string line) const;
  // The fields as one line; on a terminal without those it has no room for, whole ones. What is
  // still too long then is cut.
  std::string fit(std::vector<LineField> fields) const;
};

// Looks at file descriptor `fd` and the environment (NO_COLOR, TERM, LC_ALL, LC_CTYPE, LANG;
// COLUMNS and LINES where `fd` does not know its size).
TerminalStyle detect_terminal(int fd);

}  // namespace nru
