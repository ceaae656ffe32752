// Where the runs of a grid are made: in processes of their own, or together in one.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "experiments/child.h"

namespace nru::experiments {

// A command of this program and its surroundings.
struct Launch {
  std::vector<std::string> arguments;
  std::filesystem::path log;  // its output is appended there
  std::vector<int> cores;     // the only ones it may use; none: no restriction
};

class Launcher {
 public:
  // Commands that still run are told to stop, and waited for.
  virtual ~Launcher() = default;

  // A number for the command, which runs from now on. Throws nru::Error when it cannot.
  virtual int start(const Launch& launch) = 0;
  // Empty while the command runs; asked no more after it ended.
  virtual std::optional<Ended> ended(int command) = 0;
  // Passes a signal on to all that run. To be called once: a second one would cut saving short.
  virtual void stop(int signal) = 0;
};

// Every command is a process: a crash, a leak or a full memory takes one run with it.
std::unique_ptr<Launcher> make_process_launcher();

// Every command is a thread of one process, `nru worker`. Processes that share a GPU take turns on
// it; threads, with a stream each, work on it together. What kills the worker ends all commands in
// it, each as if it had been killed itself. After that, and after an internal error (exit code 1),
// the next command gets another worker. `log`: for what is not the output of any one command.
std::unique_ptr<Launcher> make_worker_launcher(std::filesystem::path log);

}  // namespace nru::experiments
