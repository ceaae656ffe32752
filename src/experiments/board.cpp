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

// The time left is what people look for: it goes last of all but the name.
std::vector<LineField> run_fields(const RunLine& run, std::size_t name_width) {
  std::vector<LineField> fields{{fmt::format("  {:<{}}", run.name, name_width)}};
  if (run.step != "training") {
    fields.push_back({"  " + run.step});
    return fields;
  }
  const std::string of = run.total > 0 ? "/" + format_count(run.total) : "";
  fields.push_back({"  " + format_count(run.update) + of, 5});
  if (run.total > 0) {
    const double done = static_cast<double>(run.update) / static_cast<double>(run.total);
    fields.push_back({fmt::format(" ({:.0f} %)", 100 * done), 2});
  }
  if (run.rate)
    fields.push_back({fmt::format("  {:.{}f}/s", *run.rate, *run.rate < 10 ? 1 : 0), 1});
  if (run.loss) {
    fields.push_back({fmt::format("  loss {:.4g}", *run.loss), 4});
    if (run.relative_loss)
      fields.push_back({fmt::format(" ({:.1f} %)", 100 * *run.relative_loss), 3});
  }
  if (run.seconds_left) fields.push_back({"  ETA " + format_duration(*run.seconds_left), 6});
  return fields;
}

std::vector<LineField> totals_fields(const Totals& totals) {
  std::vector<LineField> fields{
      {fmt::format("{} of {} runs done", totals.done + totals.diverged, totals.runs)}};
  if (totals.diverged > 0) fields.push_back({fmt::format(" ({} diverged)", totals.diverged), 3});
  const auto add = [&](std::size_t count, const char* what, int leaves) {
    if (count > 0) fields.push_back({fmt::format(", {} {}", count, what), leaves});
  };
  add(totals.running, "running", 4);
  add(totals.queued, "queued", 2);
  add(totals.waiting, "in use elsewhere", 1);
  add(totals.failed, "failed", 5);
  if (totals.seconds_left) fields.push_back({", ETA " + format_duration(*totals.seconds_left), 6});
  return fields;
}

}  // namespace

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
  // Nor could a line that wraps.
  for (std::size_t i = 0; i < shown; ++i) lines.push_back(style_.fit(run_fields(runs[i], width)));
  if (shown < runs.size())
    lines.push_back(style_.fit({{fmt::format("  and {} more", runs.size() - shown)}}));
  lines.push_back(style_.fit(totals_fields(totals)));
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
