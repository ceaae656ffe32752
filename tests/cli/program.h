// Running the real program: to its end, or held in the hand to be signalled.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace nru::test {

using Arguments = std::vector<std::string>;

struct Finished {
  int code = 0;  // exit code, or minus the signal that killed it
  std::string out, err;
};

struct Surroundings {
  std::filesystem::path directory = {};                 // working directory; empty: the test's own
  std::map<std::string, std::string> environment = {};  // added to the test's own
  std::optional<std::size_t> largest_file = {};         // writes beyond it fail, as on a full disk
  bool full_output = false;                             // out is a full disk
  bool unread_output = false;                           // out is a pipe that nobody reads any more
  bool unread_errors = false;                           // so is err
  bool closed_streams = false;                          // standard input and err are closed
  bool closed_output = false;                           // out is closed
  bool terminal = false;  // out and err on one pseudo-terminal; both arrive in Finished::out
};

// A running nru. Killed at the end of the scope if it still runs.
class Program {
 public:
  explicit Program(const Arguments& arguments, const Surroundings& where = {});
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program();

  void signal(int number);
  bool running();
  // Fails the test and kills the program when it takes longer than five minutes.
  Finished wait();
  // Asks `condition` every millisecond; false when the program ended (or five minutes passed)
  // first.
  bool wait_until(const std::function<bool()>& condition);

 private:
  void read_terminal();
  void reap(int flags);

  pid_t pid_ = -1;
  std::optional<int> status_;
  int out_ = -1, err_ = -1;  // unlinked files that take the output
  int terminal_ = -1;        // our end of the pseudo-terminal
  std::string from_terminal_;
};

Finished nru(const Arguments& arguments, const Surroundings& where = {});

// `first` followed by `more`.
Arguments operator+(Arguments first, const Arguments& more);

// Counts line ends.
int lines_in(const std::string& text);

}  // namespace nru::test
