// The live display of a run: one line rewritten in place on a terminal, now and then a plain line
// elsewhere.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <string>

#include "support/terminal.h"
#include "support/words.h"

namespace nru::training {

struct ProgressState {
  std::int64_t update = 0;
  std::optional<double> loss;           // mean since the last log entry
  std::optional<double> relative_loss;  // over the baseline; shown in percent
};

class Progress {
 public:
  using Clock = std::function<double()>;  // seconds from any start, never going back

  // `label` ("nru copy-100") starts every line. `total` updates make the run; `first` were made
  // before (resume) and do not count in the rate.
  Progress(std::string label, std::int64_t first, std::int64_t total, TerminalStyle style,
           std::ostream& out, Clock clock = {});

  // Call at every update: draws at most 10 times a second on a terminal, elsewhere every 10 s and
  // after the first minute once a minute.
  void update(const ProgressState& state);
  // A line of its own that stays ("solved at update 12,300"); the live line goes on below it.
  void message(const std::string& text);
  // Draws the last state once more and ends the line. Also wanted before an error is printed.
  void finish();

  // The line for `state`, without colour and cursor codes; never wider than the terminal.
  std::string line(const ProgressState& state) const;

 private:
  std::string plain_line(const ProgressState& state) const;
  std::string live_line(const ProgressState& state, bool color) const;
  std::string remaining(const ProgressState& state) const;  // "" while unknown
  void draw(const ProgressState& state, double now);
  bool due(double now) const;
  void measure_rate(std::int64_t update, double now);

  std::string label_;
  std::int64_t total_;
  TerminalStyle style_;
  std::ostream& out_;
  Clock clock_;
  double started_;
  double last_drawn_;
  double rate_ = 0;  // updates per second, smoothed; 0: not known yet
  double rate_time_;
  std::int64_t rate_update_;
  std::optional<ProgressState> last_;
  bool shown_ = true;       // last_ is on the screen
  bool line_open_ = false;  // the cursor stands in a live line
};

using nru::format_count;
using nru::format_duration;

}  // namespace nru::training
