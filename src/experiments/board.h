// The live state of a grid: on a terminal one line per run at work and one for the whole, redrawn
// in place; elsewhere plain lines now and then. What ended stays as a line above.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "support/terminal.h"

namespace nru::experiments {

struct RunLine {
  std::string name;
  std::string step;  // "training", "inspecting", "starting"
  std::int64_t update = 0;
  std::int64_t total = 0;  // 0: not known
  std::optional<double> loss, relative_loss;
  std::optional<double> rate;          // updates per second
  std::optional<double> seconds_left;  // of this run
};

struct Totals {
  std::size_t runs = 0, done = 0, diverged = 0, failed = 0, running = 0, queued = 0, waiting = 0;
  std::optional<double> seconds_left;
};

class Board {
 public:
  using Clock = std::function<double()>;

  Board(TerminalStyle style, std::ostream& out, Clock clock);

  // A line that stays.
  void message(const std::string& text);
  // Call as often as you like: draws four times a second on a terminal, elsewhere every 10 s and
  // after the first minute once a minute.
  void update(const std::vector<RunLine>& runs, const Totals& totals);
  // Removes what would be redrawn. Also wanted before an error is printed.
  void finish();

  // The lines without cursor codes. On a terminal they fit into it with the cursor's line below:
  // none is wider, what matters least is left out, and runs that have no row are counted.
  std::vector<std::string> lines(const std::vector<RunLine>& runs, const Totals& totals) const;

 private:
  bool due(double now) const;
  void erase();

  TerminalStyle style_;
  std::ostream& out_;
  Clock clock_;
  double started_;
  double last_drawn_;
  std::size_t drawn_ = 0;  // lines that stand there to be redrawn
};

}  // namespace nru::experiments
