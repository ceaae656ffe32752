// What `nru train` does: resolve, train, say what came of it.
#include <fmt/format.h>
#include <nru/error.h>
#include <unistd.h>

#include <optional>
#include <ostream>

#include "cli/summary.h"
#include "cli/text.h"
#include "cli/train.h"
#include "support/terminal.h"
#include "training/signals.h"
#include "training/trainer.h"

namespace nru::cli {
namespace {

using training::format_count;
using training::Result;
using training::RunConfig;
using training::RunStatus;
using training::Trainer;

// Ends the live line also when training throws, so that the error does not share it.
class LiveLine {
 public:
  explicit LiveLine(training::Progress& progress) : progress_(progress) {}
  ~LiveLine() { progress_.finish(); }

 private:
  training::Progress& progress_;
};

// The result of a run that has nothing left to do.
std::optional<Result> finished_result(const Trainer& trainer) {
  if (!trainer.complete() || !std::filesystem::exists(trainer.paths().result()))
    return std::nullopt;
  const Result result = training::read_result(trainer.paths().result());
  const bool complete =
      (result.status == RunStatus::finished || result.status == RunStatus::solved) &&
      result.updates == trainer.state().update;
  return complete ? std::optional(result) : std::nullopt;
}

void say(const TrainArguments& arguments, const std::string& line) {
  if (!arguments.quiet) errors() << one_line(line) << std::endl;
}

void announce(const TrainArguments& arguments, const Trainer& trainer, const RunConfig& config) {
  const std::string total = format_count(trainer.total_updates());
  const std::int64_t made = trainer.state().update;
  say(arguments,
      made > 0 ? fmt::format("{}: going on at update {} of {} in {}", run_label(config),
                             format_count(made), total, config.out)
               : fmt::format("{}: {} updates, files in {}", run_label(config), total, config.out));
  if (const std::string& places = trainer.state().trained_on; places != trainer.engine().device())
    say(arguments, fmt::format("trained on {}: not the bits of a run on one device", places));
}

void report(const TrainArguments& arguments, const Trainer& trainer, const RunConfig& config,
            const Result& result) {
  if (arguments.json) {
    print(to_json(result));
  } else if (!arguments.quiet) {
    const TerminalStyle style = detect_terminal(STDOUT_FILENO);
    if (style.terminal) print(loss_curve(trainer.paths(), result, style));
    print(summary(config, result, style));
  }
}

std::string divergence(const Trainer& trainer, const RunConfig& config, const std::string& why) {
  std::string text = fmt::format("training diverged: {}; try ", why);
  const auto presets = training::cell_defaults(config.cell).presets;
  for (const auto& [preset, by_task] : presets) {
    const bool has_this = by_task.contains(config.task) ||
                          by_task.contains(fmt::format("{}@{}", config.task, config.lag));
    if (has_this && preset != config.preset) text += fmt::format("--preset {}, ", preset);
  }
  if (!config.recover) text += "--set recover=true, ";
  text += fmt::format("--set clip_norm={} or a smaller learning_rate than {}",
                      config.clip_norm > 0 ? config.clip_norm / 2 : 1.0, config.learning_rate);
  const auto checkpoint = trainer.paths().checkpoint();
  if (std::filesystem::exists(checkpoint))
    text += fmt::format("; the last good checkpoint is {}", checkpoint.string());
  return text;
}

int after_signal(int signal, const Result& result, const RunConfig& config) {
  errors() << one_line(fmt::format("nru: stopped by {} at update {}, saved; go on with: {}",
                                   training::name_of_request(signal), format_count(result.updates),
                                   resume_command(config.out)))
           << std::endl;
  return 128 + signal;
}

}  // namespace

int train(const TrainArguments& arguments) {
  const RunConfig config = resolve_config(arguments.sources, training::cell_defaults);
  Trainer trainer(config, arguments.resume);
  if (const auto result = finished_result(trainer)) {
    say(arguments,
        fmt::format("{} is {} already ({} updates); raise --updates to go on", config.out,
                    to_string(result->status), format_count(result->updates)));
    if (arguments.json) print(to_json(*result));
    return 0;
  }
  announce(arguments, trainer, config);

  std::ostream nowhere(nullptr);
  training::Progress progress(run_label(config), trainer.state().update, trainer.total_updates(),
                              detect_terminal(STDERR_FILENO), arguments.quiet ? nowhere : errors());
  const Trainer::Outcome outcome = [&] {
    const LiveLine line(progress);
    return trainer.run(progress);
  }();

  const Result& result = outcome.result;
  report(arguments, trainer, config, result);
  if (result.status == RunStatus::diverged)
    throw Diverged(divergence(trainer, config, outcome.message));
  if (outcome.signal != 0) return after_signal(outcome.signal, result, config);
  if (result.status == RunStatus::interrupted) {
    say(arguments, fmt::format("the time limit of {} s is up; go on with: {}", config.time_limit,
                               resume_command(config.out)));
  }
  return 0;
}

}  // namespace nru::cli
