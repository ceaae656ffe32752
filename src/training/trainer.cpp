#include "training/trainer.h"

#include <fmt/format.h>
#include <nru/error.h>
#include <nru/version.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "cells/registry.h"
#include "support/clock.h"
#include "training/cuda_engine.h"
#include "training/signals.h"

namespace nru::training {
namespace {

constexpr int kMostSkipped = 20;  // non-finite updates in a row that end a run
// The largest magnitude that runs with `recover` carry on from batch to batch. Memories of trained
// NRUs stay around 100, and what is written to one stays there: without a limit a memory that the
// first updates filled spoils the epoch.
constexpr float kCarriedLimit = 1e3f;

ModelSettings model_settings(const RunConfig& config, const tasks::Task& task) {
  return {config.cell,
          config.cell_options,
          task.input_size(),
          task.output_size(),
          static_cast<std::uint64_t>(config.seed),
          task.embedding_size()};
}

std::unique_ptr<Engine> engine_of(const RunConfig& config, Model model,
                                  FlatParameters& parameters) {
  const bool fused = config.backend == "fused";
  const bool tf32 = config.precision == "tf32";
  if (config.device == "cpu") {
    if (tf32) throw Error("precision 'tf32' is for GPUs; use device=cuda or precision=float32");
    return make_engine(fused ? EngineKind::fused : EngineKind::reference, model, parameters,
                       static_cast<int>(config.threads));
  }
  if (!fused) {
    throw Error(fmt::format("backend '{}' trains on the CPU alone; use backend=fused or device=cpu",
                            config.backend));
  }
  return make_cuda_engine(model, parameters, config.device, tf32);
}

RunDirectory open_directory(const RunConfig& config, bool resume) {
  return resume && std::filesystem::exists(RunPaths{config.out}.config())
             ? RunDirectory::resume(config)
             : RunDirectory::create(config);
}

}  // namespace

CellDefaults cell_defaults(const std::string& name) {
  const CellInfo& info = find_cell(name);
  return {info.name, info.options, info.sizes, info.clip, info.chrono, info.presets};
}

Setup::Setup(const RunConfig& c)
    : config(c),
      task_info(&tasks::find_task(c.task)),
      task(task_info->make(task_settings(c))),
      model(model_settings(c, *task)),
      parameters(*model),
      engine(engine_of(c, model, parameters)) {
  if (c.recover) engine->set_state_limit(kCarriedLimit);
  engine->set_clip_state(c.clip_state);
}

std::int64_t Setup::total_updates() const {
  if (config.epochs == 0) return config.updates;
  if (task->updates_per_epoch() == 0) {
    throw Error(fmt::format("task {} makes its data without end and has no epochs; set updates=N",
                            config.task));
  }
  return config.epochs * task->updates_per_epoch();
}

kernels::AdamSettings Setup::adam() const {
  kernels::AdamSettings settings;
  settings.learning_rate = config.learning_rate;
  settings.beta2 = config.adam_beta2;
  settings.amsgrad = config.amsgrad;
  settings.average = config.average;
  settings.steps = total_updates();
  settings.annealed = std::llround(config.anneal * static_cast<double>(settings.steps));
  return settings;
}

Trainer::Trainer(const RunConfig& config, bool resume)
    : setup_(config),
      has_baseline_(setup_.task->baseline() > 0),
      total_updates_(setup_.total_updates()),
      directory_(open_directory(config, resume)),
      optimizer_(setup_.adam(), config.clip_norm, static_cast<int>(config.threads),
                 setup_.parameters),
      metrics_([&] {
        state_.data = setup_.task->metadata();
        if (config.recover) {
          state_.recovery.emplace(std::log(setup_.task->output_size()));
          state_.good = state_.window_start = optimizer_.snapshot();
        }
        if (std::filesystem::exists(paths().checkpoint())) {
          load_checkpoint(paths().checkpoint(), setup_.parameters, optimizer_, state_);
          setup_.engine->set_carried(state_.carried);
        }
        state_.trained_on = moved_to(state_.trained_on, state_.update, setup_.engine->device());
        if (state_.recovery) optimizer_.set_caution(state_.recovery->caution());
        return state_.update > 0 ? MetricsWriter::resume(paths().metrics(), state_.update)
                                 : MetricsWriter::create(paths().metrics());
      }()) {
  if (state_.update > total_updates_) {
    throw Error(fmt::format(
        "{} has made {} updates already, and is asked for {}; ask for more, or leave it out",
        config.out, format_count(state_.update), format_count(total_updates_)));
  }
  const std::int64_t per_epoch = setup_.task->updates_per_epoch();
  evaluate_every_ = config.evaluate_every > 0 ? config.evaluate_every
                    : per_epoch > 0           ? per_epoch
                                              : total_updates_;
  updater_ = setup_.engine->make_updater(*setup_.task, setup_.parameters, optimizer_);
  if (complete()) {
    directory_.record_places(config);
  } else {
    directory_.record(config);
  }
  started_ = steady_seconds();
  seconds_before_ = state_.seconds;
}

double Trainer::seconds() const { return seconds_before_ + steady_seconds() - started_; }

std::optional<std::int64_t> Trainer::epoch() const {
  const std::int64_t per_epoch = setup_.task->updates_per_epoch();
  if (per_epoch == 0) return std::nullopt;
  return (state_.update + per_epoch - 1) / per_epoch;  // counted from 1
}

void Trainer::log() {
  if (!state_.window.empty()) metrics_.append(state_.window.row(state_.update, epoch(), seconds()));
  state_.window.clear();
}

void Trainer::save() {
  metrics_.sync();
  updater_->fetch();
  state_.seconds = seconds();
  if (setup_.task->carries_state()) state_.carried = setup_.engine->carried();
  save_checkpoint(paths().checkpoint(), setup_.parameters, optimizer_, state_);
}

bool Trainer::better(const Metrics& valid) const {
  if (!state_.best.update) return true;
  if (setup_.task_info->select_by == tasks::SelectBy::accuracy) {
    return valid.accuracy.value_or(0) > state_.best.valid->accuracy.value_or(0);
  }
  // A loss that is not a number must not stay the best because nothing compares below it.
  const auto loss = [](const Metrics& metrics) {
    const double value = metrics.loss.value_or(INFINITY);
    return std::isnan(value) ? INFINITY : value;
  };
  return loss(valid) < loss(*state_.best.valid);
}

// On the host, exchanges the weights with their average; without one, does nothing.
void Trainer::swap_average() {
  std::vector<float>& average = optimizer_.average();
  std::swap_ranges(average.begin(), average.end(), setup_.parameters.values());
}

// An evaluation may take minutes, and is made to its end: a signal meanwhile gets an answer.
Evaluation Trainer::watched_evaluation(tasks::Split split) {
  return evaluate(*setup_.engine, *setup_.task, split, [&](std::int64_t done, std::int64_t all) {
    if (done == all || SignalGuard::received() == 0 || told_to_wait_) return;
    told_to_wait_ = true;
    progress_->message(fmt::format(
        "{} ({} of {} batches are done); the same signal again ends at once, back to the last "
        "checkpoint",
        ending_ || complete() ? "making the last evaluations" : "stopping after this evaluation",
        format_count(done), format_count(all)));
  });
}

// By the average of the weights where there is one: that is what it is kept for.
Evaluation Trainer::evaluate_split(tasks::Split split) {
  if (optimizer_.average().empty()) return watched_evaluation(split);
  updater_->fetch();
  swap_average();
  updater_->publish();
  const Evaluation evaluation = watched_evaluation(split);
  swap_average();
  updater_->publish();
  return evaluation;
}

// Keeps the weights, or their average, where `valid` is the best so far.
void Trainer::select(const Metrics& valid) {
  if (!better(valid)) return;
  updater_->fetch();
  state_.best = {state_.update, valid, std::nullopt};
  std::map<std::string, std::string> metadata = state_.data;
  metadata["task"] = setup_.config.task;
  metadata["cell"] = setup_.config.cell;
  metadata["update"] = fmt::format("{}", state_.update);
  if (setup_.config.average > 0) metadata["average"] = fmt::format("{}", setup_.config.average);
  swap_average();
  save_weights(paths().best(), setup_.parameters, metadata);
  swap_average();
}

void Trainer::evaluate_and_select() {
  const Evaluation valid = evaluate_split(tasks::Split::valid);
  metrics_.append(valid.row(state_.update, epoch(), tasks::Split::valid, seconds()));
  select(valid.metrics());
}

Trainer::Stop Trainer::skip_update(const UpdateOutcome& outcome) {
  state_.window.add_skipped(outcome.step.overflows);
  if (has_baseline_) state_.tracker.add(INFINITY);
  if (state_.recovery) state_.recovery->add(std::nullopt);
  if (++state_.skipped_in_a_row < kMostSkipped || state_.recovery) return Stop::none;
  message_ = fmt::format(
      "{} updates in a row had a non-finite loss or gradient, the last at update {} (loss {}, "
      "gradient norm {})",
      kMostSkipped, state_.update, outcome.step.loss, outcome.norm);
  return Stop::diverged;
}

// Takes one update into the run's records.
Trainer::Stop Trainer::absorb(const UpdateOutcome& outcome, Progress& progress) {
  ++state_.update;
  if (outcome.skipped) return skip_update(outcome);
  state_.skipped_in_a_row = 0;
  if (!outcome.bad_parameter.empty() && !state_.recovery) {
    message_ = fmt::format("parameter '{}' became non-finite at update {}", outcome.bad_parameter,
                           state_.update);
    return Stop::diverged;
  }
  const StepOutcome& step = outcome.step;
  std::optional<double> relative;
  if (outcome.baseline > 0) relative = step.loss / outcome.baseline;
  if (has_baseline_) {
    // A batch without one is easier than the task: it does not solve it.
    state_.tracker.add(relative.value_or(INFINITY));
    if (state_.tracker.solved_at() == state_.tracker.updates()) {
      progress.message(fmt::format("solved at update {}", format_count(state_.update)));
    }
  }
  state_.window.add(step.loss, relative, outcome.norm, step.max_memory, step.max_hidden,
                    step.overflows);
  if (state_.recovery) state_.recovery->add(step.loss);
  return Stop::none;
}

// Judges the window that has ended, and acts on it.
Trainer::Stop Trainer::recover(Progress& progress) {
  using Verdict = Recovery::Verdict;
  Recovery& recovery = *state_.recovery;
  const Verdict verdict = recovery.judge();
  const bool anew = verdict == Verdict::start_anew, back = anew || verdict == Verdict::go_back;
  if (verdict == Verdict::give_up) {
    message_ = fmt::format("going back to good weights {} times in a row did not help, update {}",
                           Recovery::most_failures, state_.update);
    return Stop::diverged;
  }
  updater_->fetch();
  if (verdict == Verdict::keep) state_.good = state_.window_start;
  if (anew) state_.good.shrink(Recovery::shrink);
  if (back) {
    optimizer_.restore(state_.good);
    setup_.engine->set_carried({});  // made by the weights that exploded
    state_.skipped_in_a_row = 0;
    progress.message(fmt::format("update {}: mean loss {:.3g}, back to {} weights",
                                 format_count(state_.update), recovery.last_mean(),
                                 anew ? "smaller initial" : "good"));
  }
  state_.window_start = optimizer_.snapshot();
  if (back || optimizer_.caution() != recovery.caution()) {
    optimizer_.set_caution(recovery.caution());
    updater_->publish();
  }
  return Stop::none;
}

bool Trainer::learned() const {
  const RunConfig& config = setup_.config;
  return (config.stop_when_solved && state_.tracker.solved_at()) ||
         (config.stop_when_settled && state_.tracker.settled());
}

Trainer::Stop Trainer::reason_to_stop() const {
  const double limit = setup_.config.time_limit;
  if (learned()) return Stop::solved;
  if (state_.update >= total_updates_) return Stop::finished;
  if (SignalGuard::received() != 0) return Stop::signal;
  if (limit > 0 && steady_seconds() - started_ >= limit) return Stop::time;
  return Stop::none;
}

// Evaluations and checkpoints look at the network, and so come after a multiple of some number of
// updates; so does the decision to stop, for runs to end at the same update every time.
std::int64_t Trainer::updates_until_next_look() const {
  std::int64_t count = total_updates_ - state_.update;
  for (const std::int64_t every :
       {updater_->most_at_once(), evaluate_every_, setup_.config.checkpoint_every,
        std::int64_t{state_.recovery ? Recovery::window : 0}}) {
    if (every > 0) count = std::min(count, every - state_.update % every);
  }
  return count;
}

// Makes the updates up to the next look and takes them into the records.
Trainer::Stop Trainer::make_updates(Progress& progress) {
  outcomes_.clear();
  updater_->run(state_.update, updates_until_next_look(), outcomes_);
  for (const UpdateOutcome& outcome : outcomes_) {
    const Stop stop = absorb(outcome, progress);
    if (stop != Stop::none) return stop;
    progress.update({state_.update, state_.window.mean_loss(), state_.window.mean_relative_loss()});
    if (state_.update % setup_.config.log_every == 0) log();
  }
  if (state_.recovery && state_.update % Recovery::window == 0) {
    const Stop stop = recover(progress);
    if (stop != Stop::none) return stop;
  }
  if (state_.update % evaluate_every_ == 0) evaluate_and_select();
  const std::int64_t checkpoint_every = setup_.config.checkpoint_every;
  if (checkpoint_every > 0 && state_.update % checkpoint_every == 0) save();
  return Stop::none;
}

Trainer::Outcome Trainer::run(Progress& progress) {
  const SignalGuard signals;
  progress_ = &progress;
  Stop stop = Stop::none;
  while (stop == Stop::none) {
    stop = reason_to_stop();
    if (stop != Stop::none) break;
    stop = make_updates(progress);
  }
  progress.finish();
  ending_ = true;
  Outcome outcome;
  outcome.message = message_;
  if (stop == Stop::signal) outcome.signal = SignalGuard::received();
  const RunStatus status =
      stop == Stop::diverged ? RunStatus::diverged
      : stop == Stop::solved ? RunStatus::solved
      : stop == Stop::finished
          ? (state_.tracker.solved_at() ? RunStatus::solved : RunStatus::finished)
          : RunStatus::interrupted;
  if (stop == Stop::diverged) {
    log();  // the last good checkpoint stays, but what happened since is on record
  } else {
    save();
  }
  outcome.result =
      finish(status, stop == Stop::solved || stop == Stop::finished || stop == Stop::time);
  write_result(paths().result(), outcome.result);
  return outcome;
}

// Nothing where a kill came between the best weights and a checkpoint that knows of them: the file
// is then that of a later update.
std::optional<Metrics> Trainer::test_of_best() {
  const SafetensorsFile best = SafetensorsFile::load(paths().best());
  const auto made = best.metadata().find("update");
  if (made == best.metadata().end() || made->second != fmt::format("{}", *state_.best.update))
    return std::nullopt;
  updater_->fetch();
  const std::vector<float> last(setup_.parameters.values(),
                                setup_.parameters.values() + setup_.parameters.size());
  load_weights(best, setup_.parameters);
  updater_->publish();
  const Metrics test = watched_evaluation(tasks::Split::test).metrics();
  std::copy(last.begin(), last.end(), setup_.parameters.values());
  updater_->publish();
  return test;
}

// The mean since the last line of metrics.csv, or that line's where none came after it.
std::optional<Metrics> Trainer::last_training_loss() const {
  if (const auto loss = state_.window.mean_loss()) return Metrics{loss, {}, {}};
  const std::vector<MetricsRow> rows = read_metrics(paths().metrics());
  for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
    if (row->split == "train" && row->loss) return Metrics{row->loss, {}, {}};
  }
  return std::nullopt;
}

// The result; with `evaluate_splits`, also the final metrics and those of the best weights, which
// are what is left of a run that diverged.
Result Trainer::finish(RunStatus status, bool evaluate_splits) {
  const RunConfig& config = setup_.config;
  Result result;
  result.task = config.task;
  result.cell = config.cell;
  result.seed = config.seed;
  result.parameters = setup_.parameters.size();
  result.updates = state_.update;
  result.status = status;
  if (setup_.task->baseline() > 0) result.baseline_loss = setup_.task->baseline();
  result.solved_at = state_.tracker.solved_at();
  result.solved_at_1pct = state_.tracker.solved_at_1pct();
  result.spikes = state_.tracker.spikes();
  if (state_.recovery) result.recoveries = state_.recovery->recoveries();
  result.preset = config.preset;
  result.average = config.average;
  result.device = state_.trained_on;
  result.commit = commit();
  result.versions = {{"nru", version()}, {"torch", TORCH_VERSION}};
  if (evaluate_splits) {
    const Metrics valid = evaluate_split(tasks::Split::valid).metrics();
    const Metrics test = evaluate_split(tasks::Split::test).metrics();
    result.final.valid = valid;
    result.final.test = test;
    // Only where a run ends, not where its time was up: going on must not know that it was.
    if (status != RunStatus::interrupted) {
      select(valid);
      save();
    }
    if (state_.best.update == state_.update) {
      state_.best.test = test;
    } else if (state_.best.update) {
      state_.best.test = test_of_best();
    }
  } else if (status == RunStatus::diverged && state_.best.update) {
    state_.best.test = test_of_best();
  }
  result.final.train = last_training_loss();
  result.best = state_.best;
  result.seconds = seconds();
  return result;
}

}  // namespace nru::training
