#include "cli/summary.h"

#include <fmt/format.h>

#include <vector>

#include "cli/text.h"
#include "support/words.h"
#include "training/curve.h"
#include "training/metrics.h"
#include "training/progress.h"

namespace nru::cli {

using training::format_count;
using training::Metrics;
using training::Result;
using training::RunStatus;

namespace {

std::string status_text(RunStatus status, const TerminalStyle& style) {
  const std::string name = to_string(status);
  if (!style.color) return name;
  const int color = status == RunStatus::solved || status == RunStatus::finished ? 32
                    : status == RunStatus::interrupted                           ? 33
                                                                                 : 31;
  return fmt::format("\x1b[1;{}m{}\x1b[0m", color, name);
}

std::string speed_text(const Result& result) {
  const std::string duration = result.seconds < 10 ? fmt::format("{:.2g}s", result.seconds)
                                                   : training::format_duration(result.seconds);
  std::string text = fmt::format("{} in {}", format_count(result.updates), duration);
  if (result.seconds > 0 && result.updates > 0) {
    text +=
        fmt::format(" ({:.4g} updates/s)", static_cast<double>(result.updates) / result.seconds);
  }
  return text;
}

std::string solved_text(const Result& result) {
  std::string text = fmt::format("update {}", format_count(*result.solved_at));
  if (result.solved_at_1pct)
    text += fmt::format(", to 1 % at update {}", format_count(*result.solved_at_1pct));
  if (result.spikes > 0)
    text += fmt::format("; {} spike{} after it", result.spikes, result.spikes > 1 ? "s" : "");
  return text;
}

}  // namespace

std::string run_label(const training::RunConfig& config) {
  return fmt::format("{} {}{}", config.cell, config.task,
                     config.lag > 0 ? fmt::format("-{}", config.lag) : "");
}

std::string metrics_text(const Metrics& metrics, std::optional<double> baseline) {
  std::vector<std::string> parts;
  if (metrics.loss) {
    parts.push_back(fmt::format("loss {:.4g}", *metrics.loss));
    if (baseline && *baseline > 0)
      parts.back() += fmt::format(" ({:.3g} % of the baseline)", 100 * *metrics.loss / *baseline);
  }
  if (metrics.accuracy) parts.push_back(fmt::format("accuracy {:.2f} %", 100 * *metrics.accuracy));
  if (metrics.bpc) parts.push_back(fmt::format("{:.4f} bpc", *metrics.bpc));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string summary(const training::RunConfig& config, const Result& result,
                    const TerminalStyle& style) {
  std::vector<std::vector<std::string>> rows;
  rows.push_back({"updates", speed_text(result)});
  if (result.solved_at) rows.push_back({"solved at", solved_text(result)});
  const auto add = [&](const std::string& name, const std::optional<Metrics>& metrics) {
    if (metrics) rows.push_back({name, metrics_text(*metrics, result.baseline_loss)});
  };
  add("train", result.final.train);
  add("valid", result.final.valid);
  add("test", result.final.test);
  if (result.best.update) {
    const std::optional<Metrics>& shown = result.best.test ? result.best.test : result.best.valid;
    rows.push_back(
        {"best", fmt::format("update {}, {} {}", format_count(*result.best.update),
                             result.best.test ? "test" : "valid",
                             metrics_text(shown.value_or(Metrics{}), result.baseline_loss))});
  }
  rows.push_back({"files", config.out});
  return fmt::format("{}  {}, seed {}, {} parameters\n{}", status_text(result.status, style),
                     run_label(config), result.seed, format_count(result.parameters),
                     align(rows, {}, "  "));
}

std::string loss_curve(const training::RunPaths& paths, const Result& result,
                       const TerminalStyle& style) {
  training::CurveSeries loss{"training loss", {}, {}};
  for (const training::MetricsRow& row : training::read_metrics(paths.metrics())) {
    if (row.split != "train" || !row.loss) continue;
    loss.x.push_back(static_cast<double>(row.update));
    loss.y.push_back(*row.loss);
  }
  training::CurveOptions options;
  options.width = std::max(20, std::min(options.width, style.columns - 12));
  options.reference = result.baseline_loss;
  return render_curve({loss}, options, style);
}

std::string resume_command(const std::string& directory) {
  return "nru train --resume --out " + shell_word(directory);
}

}  // namespace nru::cli
