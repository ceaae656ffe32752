// Drawing the progress line.
#include "training/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "support/clock.h"

namespace nru::training {
namespace {

constexpr double kRedraw = 0.1;        // seconds between two drawings on a terminal
constexpr double kFirstMinute = 60;    // plain lines come every 10 s in it,
constexpr double kEarlyInterval = 10;  //
constexpr double kLateInterval = 60;   // and once a minute after it
constexpr double kMeasure = 0.5;       // seconds over which a rate is taken
constexpr double kSmoothing = 5;       // seconds until a change of speed shows
constexpr int kLongestBar = 30;
constexpr int kShortestBar = 5;

std::string rate_text(double rate) {
  if (rate >= 100) return format_count(std::llround(rate));
  return fmt::format("{:.3g}", rate);
}

std::string loss_text(double loss) { return fmt::format("loss {:.4g}", loss); }

std::string percent(double relative_loss) { return fmt::format("{:.3g} %", 100 * relative_loss); }

std::string repeat(const char* piece, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += piece;
  return text;
}

}  // namespace

Progress::Progress(std::string label, std::int64_t first, std::int64_t total, TerminalStyle style,
                   std::ostream& out, Clock clock)
    : label_(std::move(label)),
      total_(total),
      style_(style),
      out_(out),
      clock_(clock ? std::move(clock) : Clock(steady_seconds)),
      started_(clock_()),
      last_drawn_(style.terminal ? -std::numeric_limits<double>::infinity() : started_),
      rate_time_(started_),
      rate_update_(first) {}

void Progress::update(const ProgressState& state) {
  const double now = clock_();
  measure_rate(state.update, now);
  last_ = state;
  shown_ = false;
  if (due(now)) draw(state, now);
}

void Progress::message(const std::string& text) {
  if (line_open_) out_ << "\r\x1b[K";
  line_open_ = false;
  shown_ = false;
  out_ << text << '\n' << std::flush;
}

void Progress::finish() {
  if (last_ && !shown_) draw(*last_, clock_());
  if (line_open_) out_ << '\n' << std::flush;
  line_open_ = false;
}

bool Progress::due(double now) const {
  if (style_.terminal) return now - last_drawn_ >= kRedraw;
  const bool early = now - started_ <= kFirstMinute;
  return now - last_drawn_ >= (early ? kEarlyInterval : kLateInterval);
}

void Progress::measure_rate(std::int64_t update, double now) {
  const double elapsed = now - rate_time_;
  if (elapsed < kMeasure) return;
  const double current = static_cast<double>(update - rate_update_) / elapsed;
  const double weight = rate_ > 0 ? 1 - std::exp(-elapsed / kSmoothing) : 1;
  rate_ += weight * (current - rate_);
  rate_time_ = now;
  rate_update_ = update;
}

void Progress::draw(const ProgressState& state, double now) {
  if (style_.terminal) {
    style_.measure();
    out_ << '\r' << live_line(state, style_.color) << "\x1b[K" << std::flush;
    line_open_ = true;
  } else {
    out_ << plain_line(state) << '\n' << std::flush;
  }
  last_drawn_ = now;
  shown_ = true;
}

std::string Progress::line(const ProgressState& state) const {
  return style_.terminal ? live_line(state, false) : plain_line(state);
}

std::string Progress::remaining(const ProgressState& state) const {
  if (rate_ <= 0 || state.update >= total_) return "";
  return format_duration(static_cast<double>(total_ - state.update) / rate_);
}

std::string Progress::plain_line(const ProgressState& state) const {
  std::string text =
      fmt::format("{}: update {} of {}", label_, format_count(state.update), format_count(total_));
  if (rate_ > 0) text += fmt::format(", {} updates/s", rate_text(rate_));
  if (state.loss) {
    text += ", " + loss_text(*state.loss);
    if (state.relative_loss)
      text += fmt::format(" ({} of the baseline)", percent(*state.relative_loss));
  }
  if (const std::string left = remaining(state); !left.empty()) text += ", ETA " + left;
  return text;
}

// The bar takes what room the numbers leave; a terminal too narrow for a bar shows none, and one
// too narrow for the numbers shows those that matter: a line that wraps could not be rewritten.
std::string Progress::live_line(const ProgressState& state, bool color) const {
  std::vector<LineField> fields{
      {label_}, {fmt::format("  {}/{}", format_count(state.update), format_count(total_)), 4}};
  if (rate_ > 0) fields.push_back({fmt::format("  {}/s", rate_text(rate_)), 1});
  if (state.loss) {
    fields.push_back({"  " + loss_text(*state.loss), 3});
    if (state.relative_loss)
      fields.push_back({fmt::format(" ({})", percent(*state.relative_loss)), 2});
  }
  if (const std::string left = remaining(state); !left.empty())
    fields.push_back({"  ETA " + left, 5});
  const std::string line = style_.fit(std::move(fields));

  const int room = std::max(style_.columns - 1, 0);
  const int width = std::min(room - static_cast<int>(line.size()) - 2, kLongestBar);
  if (width < kShortestBar) return line;

  const std::string numbers = line.substr(label_.size());  // with the spaces before them
  const double done =
      total_ > 0 ? static_cast<double>(state.update) / static_cast<double>(total_) : 0;
  const int filled = static_cast<int>(std::clamp(done, 0.0, 1.0) * width);
  const std::string full = repeat(style_.utf8 ? "\u2501" : "#", filled);
  const std::string empty = repeat(style_.utf8 ? "\u2500" : "-", width - filled);
  if (!color) return fmt::format("{}  {}{}{}", label_, full, empty, numbers);
  return fmt::format("\x1b[1m{}\x1b[0m  \x1b[32m{}\x1b[0m\x1b[2m{}\x1b[0m{}", label_, full, empty,
                     numbers);
}

}  // namespace nru::training
