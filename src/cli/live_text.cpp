#include "cli/live_text.h"

#include <unistd.h>

#include <ostream>

#include "cli/text.h"
#include "support/clock.h"

namespace nru::cli {
namespace {

constexpr double kRedraw = 0.1;  // seconds; also until the first line: what is quick needs none
constexpr char kWipe[] = "\r\033[K";

}  // namespace

LiveText::LiveText() : style_(detect_terminal(STDERR_FILENO)), drawn_(steady_seconds()) {}

LiveText::~LiveText() {
  if (visible_) errors() << kWipe << std::flush;
}

void LiveText::show(const std::string& text) {
  if (!style_.terminal || steady_seconds() - drawn_ < kRedraw) return;
  style_.measure();
  errors() << kWipe << style_.cut(text) << std::flush;
  drawn_ = steady_seconds();
  visible_ = true;
}

}  // namespace nru::cli
