// The other side of the worker launcher: a process that runs commands of this program in threads.
//
// It reads one command per line, {"id": 1, "arguments": ["train", ...], "log": FILE, "cores": [0]},
// and writes {"id": 1, "code": 0} when one has ended, in whatever order that happens.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/launcher.h"

namespace nru::experiments {

struct WorkerCommand {
  int id = 0;
  Launch launch;
};
struct WorkerAnswer {
  int id = 0;
  int code = 0;
};

// The lines, their ends included, and back. Throws nru::Error for a line that is none, and for
// names that are not UTF-8, which JSON cannot hold.
std::string to_line(const WorkerCommand& command);
std::string to_line(const WorkerAnswer& answer);
WorkerCommand read_command(std::string_view line);
WorkerAnswer read_answer(std::string_view line);

// Cuts what arrives in pieces of any size into lines.
class LineBuffer {
 public:
  void add(std::string_view piece) { text_ += piece; }
  bool next(std::string& line);  // without its end; false: no whole line is left

 private:
  std::string text_;
};

// Runs a command with its output going to `log`; gives the exit code and does not throw.
using RunCommand = std::function<int(const std::vector<std::string>& arguments, std::ostream& log)>;

// Until `requests` ends or SIGINT or SIGTERM comes, which the commands see as well
// (training::SignalGuard); returns when all of them have ended: 0, or 128 + the signal.
int serve(int requests, int answers, const RunCommand& run);

}  // namespace nru::experiments
