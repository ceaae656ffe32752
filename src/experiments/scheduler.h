// Makes the runs of a grid, several side by side, until all are done or something says stop.
//
// Every run is a command `nru train --resume` of this same program, in a process of its own or as a
// thread of a worker (launcher.h), and needs nothing of the scheduler to go on from its checkpoint.
// What is done and how far a run has come is read from its directory (result.json, metrics.csv) and
// kept nowhere else, so the scheduler itself can be killed at any moment.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "experiments/board.h"
#include "experiments/job.h"
#include "experiments/launcher.h"
#include "experiments/schedule.h"

namespace nru::experiments {

// The end of a job, or where it stands when the scheduler ends.
struct JobOutcome {
  enum class State { done, diverged, failed, left };
  State state = State::left;
  std::int64_t updates = 0;
  std::optional<std::int64_t> solved_at;
  std::string reason;   // why it failed
  int code = 0;         // exit code of a failed one
  bool before = false;  // done before this call
};

const char* to_string(JobOutcome::State state);

struct GridOutcome {
  std::vector<JobOutcome> jobs;  // in the order given
  int signal = 0;                // SIGINT, SIGTERM or SIGHUP, where that stopped it
  bool time_up = false;

  Totals totals() const;
};

class Scheduler {
 public:
  struct Settings {
    std::size_t slots = 1;
    double time_limit = 0;  // seconds; 0: none
    bool pin = true;        // a run has cores of its own and a thread on each; else one thread
  };

  // Throws nru::Error when a run directory does not fit the plan: nothing was started then.
  Scheduler(std::vector<Job> jobs, const Settings& settings, Launcher& launcher, Board& board);
  ~Scheduler();

  // Until every job has ended, a signal (passed on to the runs, which save) or the time limit.
  GridOutcome run();

 private:
  struct Slot;

  void start_runs();
  void start(Slot& slot, std::size_t job);
  void collect();
  void look_at_progress();
  void after(Slot& slot, const Ended& ended);
  void settle(std::size_t job, const RunState& state);
  void fail(std::size_t job, const Ended& ended, const std::string& reason);
  void stop_all(int signal);
  void show();
  Totals totals() const;
  RunLine line_of(const Slot& slot) const;
  Speeds speeds() const;
  double cost_left(std::size_t job) const;
  void look_at_clock_and_signals();

  std::vector<Job> jobs_;
  std::vector<std::int64_t> made_;  // updates of each job, as far as known
  GridOutcome outcome_;
  Settings settings_;
  Launcher& launcher_;
  Board& board_;
  Speeds ended_speeds_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<std::size_t> queue_;    // jobs to start
  std::vector<std::size_t> waiting_;  // jobs whose directory some other process holds
  double started_ = 0, last_look_ = 0;
  bool stopping_ = false;
};

}  // namespace nru::experiments
