// A line on standard error that is rewritten while something takes its time, where a person
// watches.
#pragma once

#include <string>

#include "support/terminal.h"

namespace nru::cli {

// Wiped at the end of the scope, so that what is printed next stands alone.
class LiveText {
 public:
  LiveText();
  LiveText(const LiveText&) = delete;
  LiveText& operator=(const LiveText&) = delete;
  ~LiveText();

  bool watched() const { return style_.terminal; }
  // At most ten times a second, so that it may be called as often as one likes.
  void show(const std::string& text);

 private:
  TerminalStyle style_;
  double drawn_;  // clock
  bool visible_ = false;
};

}  // namespace nru::cli
