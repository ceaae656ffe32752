// What the place that output goes to can show: asked once, passed to everything that draws.
#pragma once

namespace nru {

struct TerminalStyle {
  bool terminal = false;  // a person watches: lines may be rewritten
  bool color = false;     // escape sequences for colour are welcome (a terminal, NO_COLOR not set)
  bool utf8 = false;      // the locale can show Unicode blocks and braille
  int columns = 80;
};

// Looks at file descriptor `fd` and the environment (NO_COLOR, TERM, LC_ALL, LC_CTYPE, LANG,
// COLUMNS).
TerminalStyle detect_terminal(int fd);

}  // namespace nru
