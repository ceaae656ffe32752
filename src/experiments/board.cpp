#include "experiments/board.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "training/progress.h"

namespace nru::experiments {
namespace {

using training::format_count;
using training::format_duration;

constexpr double kRedraw = 0.25, kEarly = 10, kLate = 60, kFirstMinute = 60;
constexpr int kOtherRows = 3;  // "and 5 more", the totals, and the cursor's

std::string run_text(const RunLine& run, std::size_t name_width) {
  std::string text = fmt::format("{:<{}}", run.name, name_width);
  if (run.step != "training") return text + "  " + run.step;
  text += "  " + format_count(run.update);
  if (run.total > 0) {
    text += fmt::format("/{} ({:.0f} %)", format_count(run.total),
                        100.0 * static_cast<double>(run.update) / static_cast<double>(run.total));
  }
  if (run.rate) text += fmt::format("  {:.{}f}/s", *run.rate, *run.rate < 10 ? 1 : 0);
  if (run.loss) text += fmt::format("  loss {:.4g}", *run.loss);
  if (run.relative_loss) text += fmt::format(" ({:.1f} %)", 100 * *run.relative_loss);
  if (run.seconds_left) text += "  ETA " + format_duration(*run.seconds_left);
  return text;
}

}  // namespace

std::string totals_text(const Totals& totals) {
  std::string text = fmt::format("{} of {} runs done", totals.done + totals.diverged, totals.runs);
  if (totals.diverged > 0) text += fmt::format(" ({} diverged)", totals.diverged);
  const auto add = [&](std::size_t count, const char* what) {
    if (count > 0) text += fmt::format(", {} {}", count, what);
  };
  add(totals.running, "running");
  add(totals.queued, "queued");
  add(totals.waiting, "in use elsewhere");
  add(totals.failed, "failed");
  if (totals.seconds_left) text += ", ETA " + format_duration(*totals.seconds_left);
  return text;
}

Board::Board(TerminalStyle style, std::ostream& out, Clock clock)
    : style_(style),
      out_(out),
      clock_(std::move(clock)),
      started_(clock_()),
      last_drawn_(style.terminal ? -std::numeric_limits<double>::infinity() : started_) {}

bool Board::due(double now) const {
  if (style_.terminal) return now - last_drawn_ >= kRedraw;
  return now - last_drawn_ >= (now - started_ <= kFirstMinute ? kEarly : kLate);
}

void Board::erase() {
  if (drawn_ > 0) out_ << fmt::format("\x1b[{}A\r\x1b[J", drawn_);
  drawn_ = 0;
}

void Board::message(const std::string& text) {
  erase();
  last_drawn_ = style_.terminal ? -std::numeric_limits<double>::infinity() : last_drawn_;
  out_ << text << '\n' << std::flush;
}

std::vector<std::string> Board::lines(const std::vector<RunLine>& runs,
                                      const Totals& totals) const {
  std::size_t width = 0;
  for (const RunLine& run : runs) width = std::max(width, run.name.size());
  std::vector<std::string> lines;
  // A taller block would scroll and could not be redrawn.
  const auto rows = static_cast<std::size_t>(std::max(style_.rows - kOtherRows, 0));
  const std::size_t shown = style_.terminal ? std::min(runs.size(), rows) : runs.size();
  for (std::size_t i = 0; i < shown; ++i) lines.push_back("  " + run_text(runs[i], width));
  if (shown < runs.size()) lines.push_back(fmt::format("  and {} more", runs.size() - shown));
  lines.push_back(totals_text(totals));
  if (style_.terminal) {  // a line that wraps could not be redrawn
    for (std::string& line : lines) line = style_.cut(std::move(line));
  }
  return lines;
}

void Board::update(const std::vector<RunLine>& runs, const Totals& totals) {
  const double now = clock_();
  if (!due(now)) return;
  style_.measure();
  erase();
  const std::vector<std::string> text = lines(runs, totals);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool bold = style_.color && i + 1 == text.size();
    out_ << (bold ? "\x1b[1m" : "") << text[i] << (bold ? "\x1b[0m" : "") << '\n';
  }
  out_ << std::flush;
  drawn_ = style_.terminal ? text.size() : 0;
  last_drawn_ = now;
}

void Board::finish() {
  erase();
  out_ << std::flush;
}

}  // namespace nru::experiments
