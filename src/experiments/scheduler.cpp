#include "experiments/scheduler.h"

#include <fmt/format.h>
#include <nru/error.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "experiments/cores.h"
#include "support/clock.h"
#include "training/progress.h"
#include "training/signals.h"

namespace nru::experiments {
namespace {

using training::format_count;
using training::format_duration;
using State = JobOutcome::State;

// A run that ends is noticed this soon; progress and locks are looked at less often.
constexpr auto kTick = std::chrono::milliseconds(20);
constexpr double kLook = 0.25;

// Whether a run was told to stop, and did: by the signal itself, or with its exit code.
bool was_asked_to_stop(const Ended& ended) {
  return training::name_of_request(ended.signal) != nullptr ||
         training::name_of_request(ended.code - 128) != nullptr;
}

}  // namespace

const char* to_string(JobOutcome::State state) {
  switch (state) {
    case State::done:
      return "done";
    case State::diverged:
      return "diverged";
    case State::failed:
      return "failed";
    default:
      return "left";
  }
}

Totals GridOutcome::totals() const {
  Totals totals;
  totals.runs = jobs.size();
  for (const JobOutcome& job : jobs) {
    totals.done += job.state == State::done;
    totals.diverged += job.state == State::diverged;
    totals.failed += job.state == State::failed;
    totals.queued += job.state == State::left;
  }
  return totals;
}

// Room for one run: some cores, and the run that has them now.
struct Scheduler::Slot {
  std::vector<int> cores;
  std::optional<int> command;  // as the launcher knows it
  std::size_t job = 0;
  bool inspecting = false;
  double started = 0;
  std::int64_t first = 0;      // updates made when it started
  std::int64_t log_start = 0;  // bytes of its log that are older
  // Where the rate is measured from: the first progress seen, so that loading data does not count.
  std::optional<std::int64_t> seen_first;
  double seen_at = 0;
  std::optional<Progressed> seen;
};

Scheduler::Scheduler(std::vector<Job> jobs, const Settings& settings, Launcher& launcher,
                     Board& board)
    : jobs_(std::move(jobs)),
      settings_(settings),
      launcher_(launcher),
      board_(board),
      started_(steady_seconds()) {
  outcome_.jobs.resize(jobs_.size());
  made_.resize(jobs_.size());
  for (const Job& job : jobs_) check_fits(job);
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    const RunState state = look_at(jobs_[i]);
    made_[i] = state.updates;
    ended_speeds_.measured(jobs_[i].kind,
                           static_cast<double>(state.updates) * jobs_[i].cost_per_update,
                           state.seconds);
    if (state.training_over() && !state.inspection_missing) {
      outcome_.jobs[i].before = true;
      settle(i, state);
    } else {
      queue_.push_back(i);
    }
  }
  const std::size_t slots = std::min(settings_.slots, std::max<std::size_t>(queue_.size(), 1));
  for (const auto& cores : share_cores(allowed_cores(), slots)) {
    slots_.push_back(std::make_unique<Slot>());
    if (settings_.pin) slots_.back()->cores = cores;
  }
}

Scheduler::~Scheduler() = default;

GridOutcome Scheduler::run() {
  const training::SignalGuard signals;
  for (;;) {
    look_at_clock_and_signals();
    collect();
    const bool look = steady_seconds() - last_look_ >= kLook;
    if (look) look_at_progress();
    if (!stopping_) start_runs();
    const bool running = std::any_of(slots_.begin(), slots_.end(),
                                     [](const auto& slot) { return slot->command.has_value(); });
    if (!running && (stopping_ || (queue_.empty() && waiting_.empty()))) break;
    if (look) show();
    std::this_thread::sleep_for(kTick);
  }
  board_.finish();
  for (std::size_t i = 0; i < jobs_.size(); ++i) outcome_.jobs[i].updates = made_[i];
  return outcome_;
}

void Scheduler::look_at_clock_and_signals() {
  if (const int signal = training::SignalGuard::received(); signal != 0 && outcome_.signal == 0) {
    outcome_.signal = signal;
    stop_all(signal);
  } else if (settings_.time_limit > 0 && !stopping_ &&
             steady_seconds() - started_ >= settings_.time_limit) {
    outcome_.time_up = true;
    stop_all(SIGTERM);
  }
}

void Scheduler::stop_all(int signal) {
  if (stopping_) return;  // they are saving: a second signal would cut that short
  stopping_ = true;
  launcher_.stop(signal);
  const auto running = std::count_if(slots_.begin(), slots_.end(),
                                     [](const auto& slot) { return slot->command.has_value(); });
  if (running > 0) board_.message(fmt::format("stopping: {} running, they save first", running));
}

void Scheduler::start_runs() {
  for (const auto& slot : slots_) {
    while (!slot->command && !queue_.empty()) {
      std::vector<Work> work;
      for (const std::size_t job : queue_) work.push_back({jobs_[job].kind, cost_left(job)});
      const auto next = queue_.begin() + static_cast<std::ptrdiff_t>(longest(work, speeds()));
      const std::size_t job = *next;
      queue_.erase(next);
      if (in_use(jobs_[job].directory())) {
        waiting_.push_back(job);
      } else {
        start(*slot, job);
      }
    }
  }
}

// Unless there turns out to be nothing to do, or the run cannot be started: the job has then ended.
void Scheduler::start(Slot& slot, std::size_t index) {
  const Job& job = jobs_[index];
  const RunState state = look_at(job);
  made_[index] = state.updates;
  if (state.training_over() && !state.inspection_missing) {  // by whoever had the directory
    return settle(index, state);
  }
  slot.inspecting = state.training_over();
  slot.job = index;
  slot.started = steady_seconds();
  slot.first = state.updates;
  slot.log_start = log_size(job.log());
  slot.seen_first.reset();
  slot.seen.reset();
  const std::size_t threads = std::max<std::size_t>(slot.cores.size(), 1);
  try {
    slot.command =
        launcher_.start({slot.inspecting ? inspect_command(job) : train_command(job, threads),
                         job.log(), slot.cores});
  } catch (const Error& error) {
    fail(index, {2, 0}, error.what());
  }
}

void Scheduler::collect() {
  for (const auto& slot : slots_) {
    if (!slot->command) continue;
    if (const auto ended = launcher_.ended(*slot->command)) {
      slot->command.reset();
      after(*slot, *ended);
    }
  }
}

void Scheduler::look_at_progress() {
  last_look_ = steady_seconds();
  for (const auto& slot : slots_) {
    if (!slot->command || slot->inspecting) continue;
    const auto seen = last_progress(jobs_[slot->job].directory());
    // A line from before the start is not progress, nor is one that the run is about to repeat.
    if (!seen || (!slot->seen && seen->update == slot->first)) continue;
    if (!slot->seen_first || seen->update < *slot->seen_first) {
      slot->seen_first = seen->update;
      slot->seen_at = last_look_;
    }
    slot->seen = seen;
    made_[slot->job] = seen->update;
  }
  // Directories that came free.
  for (std::size_t i = waiting_.size(); i-- > 0;) {
    if (in_use(jobs_[waiting_[i]].directory())) continue;
    queue_.push_back(waiting_[i]);
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void Scheduler::after(Slot& slot, const Ended& ended) {
  const std::size_t index = slot.job;
  const Job& job = jobs_[index];
  const RunState state = look_at(job);
  made_[index] = state.updates;
  if (!slot.inspecting) {
    ended_speeds_.measured(job.kind,
                           static_cast<double>(state.updates - slot.first) * job.cost_per_update,
                           steady_seconds() - slot.started);
  }
  if (state.training_over()) {
    if (!state.inspection_missing) return settle(index, state);
    if (!slot.inspecting) {
      queue_.push_back(index);  // its inspection comes next
      return;
    }
  }
  if (stopping_ && was_asked_to_stop(ended)) return;  // left for the next time
  const std::string words = last_words(job.log(), slot.log_start);
  if (ended.code == 2 && words.find("is in use by") != std::string::npos) {
    waiting_.push_back(index);  // someone was faster
    return;
  }
  fail(index, ended, words);
}

void Scheduler::settle(std::size_t index, const RunState& state) {
  JobOutcome& outcome = outcome_.jobs[index];
  outcome.state = state.stage == RunState::Stage::diverged ? State::diverged : State::done;
  outcome.solved_at = state.solved_at;
  if (outcome.before) return;
  std::string text = fmt::format("{}: {} after {} updates", jobs_[index].name(),
                                 outcome.state == State::diverged ? "diverged" : "done",
                                 format_count(state.updates));
  if (state.solved_at) text += fmt::format(", solved at {}", format_count(*state.solved_at));
  if (state.seconds > 0) text += fmt::format(" ({})", format_duration(state.seconds));
  if (outcome.state == State::diverged) {
    outcome.reason = last_words(jobs_[index].log());
    text += fmt::format("; see {}", jobs_[index].log().string());
  }
  board_.message(text);
}

void Scheduler::fail(std::size_t index, const Ended& ended, const std::string& reason) {
  JobOutcome& outcome = outcome_.jobs[index];
  outcome.state = State::failed;
  outcome.code = ended.signal == 0 ? ended.code : 1;
  if (ended.signal == SIGKILL) {
    outcome.reason = "killed by SIGKILL, perhaps for want of memory";
  } else if (ended.signal != 0) {
    outcome.reason =
        fmt::format("killed by signal {} ({})", ended.signal, ::strsignal(ended.signal));
  } else {
    outcome.reason = reason.empty() ? fmt::format("exit code {}", ended.code) : reason;
  }
  board_.message(fmt::format("{}: failed: {}; see {}", jobs_[index].name(), outcome.reason,
                             jobs_[index].log().string()));
}

// Of the runs that ended, and of those at work as far as they have come.
Speeds Scheduler::speeds() const {
  Speeds speeds = ended_speeds_;
  for (const auto& slot : slots_) {
    if (!slot->command || !slot->seen) continue;
    const Job& job = jobs_[slot->job];
    speeds.measured(
        job.kind, static_cast<double>(slot->seen->update - *slot->seen_first) * job.cost_per_update,
        last_look_ - slot->seen_at);
  }
  return speeds;
}

double Scheduler::cost_left(std::size_t job) const {
  const std::int64_t left = std::max<std::int64_t>(jobs_[job].updates - made_[job], 0);
  return static_cast<double>(left) * jobs_[job].cost_per_update;
}

RunLine Scheduler::line_of(const Slot& slot) const {
  const Job& job = jobs_[slot.job];
  RunLine line;
  line.name = job.name();
  line.step = slot.inspecting ? "inspecting" : slot.seen ? "training" : "starting";
  line.update = made_[slot.job];
  line.total = job.updates;
  if (slot.seen) {
    line.loss = slot.seen->loss;
    line.relative_loss = slot.seen->relative_loss;
    const double seconds = last_look_ - slot.seen_at;
    const auto made = static_cast<double>(slot.seen->update - *slot.seen_first);
    if (made > 0 && seconds > 0) line.rate = made / seconds;
  }
  const double left = static_cast<double>(std::max<std::int64_t>(job.updates - line.update, 0));
  if (slot.inspecting || job.updates == 0) return line;
  line.seconds_left = line.rate ? std::optional(left / *line.rate)
                                : speeds().seconds(job.kind, cost_left(slot.job));
  return line;
}

Totals Scheduler::totals() const {
  Totals totals = outcome_.totals();
  std::vector<double> running, queued;
  bool known = true;
  for (const auto& slot : slots_) {
    if (!slot->command) continue;
    ++totals.running;
    const auto left = line_of(*slot).seconds_left;
    known = known && (left || slot->inspecting);
    running.push_back(left.value_or(0));
  }
  const Speeds current = speeds();
  for (const std::size_t job : queue_) {
    const auto left = current.seconds(jobs_[job].kind, cost_left(job));
    known = known && left;
    queued.push_back(left.value_or(0));
  }
  totals.waiting = waiting_.size();
  totals.queued = queue_.size();
  if (known && !stopping_ && totals.running > 0)
    totals.seconds_left = time_left(std::move(running), std::move(queued), slots_.size());
  return totals;
}

void Scheduler::show() {
  std::vector<RunLine> lines;
  for (const auto& slot : slots_) {
    if (slot->command) lines.push_back(line_of(*slot));
  }
  board_.update(lines, totals());
}

}  // namespace nru::experiments
