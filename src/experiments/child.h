// This same program as a child process, made so that many of them get along: its own cores, its
// output in a file, no signals from the terminal, and an end of its own when the parent dies.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "support/posix.h"

namespace nru::experiments {

// How a process ended: with `code`, or killed by `signal`.
struct Ended {
  int code = 0;
  int signal = 0;
};

class Child {
 public:
  // Runs the program this process is (the very file, even if it was replaced since) with
  // `arguments`. Output is appended to `log`, whose directory is made. `cores`: the only ones it
  // may use; none: no restriction. Throws nru::Error when log or process cannot be made.
  //
  // With `talk` (a descriptor, still the caller's to close) the child reads its standard input
  // from there and writes its standard output to it; else it reads nothing.
  //
  // The child is in a process group of its own: Ctrl-C reaches the parent alone, which decides what
  // to tell its children; two signals would make a run give up saving. It gets SIGTERM when the
  // parent dies in whatever way, and then saves and ends.
  Child(const std::vector<std::string>& arguments, const std::filesystem::path& log,
        const std::vector<int>& cores, std::optional<int> talk = std::nullopt);
  Child(Child&& other) noexcept : pid_(other.pid_) { other.pid_ = -1; }
  Child& operator=(Child&& other) noexcept;
  // A child that still runs is told to stop, and waited for.
  ~Child();

  void signal(int number) const;
  // Empty while it runs.
  std::optional<Ended> ended();

 private:
  pid_t pid_ = -1;  // -1: has ended
};

// For appending. Makes its directory. Throws nru::Error.
Descriptor open_log(const std::filesystem::path& log);

}  // namespace nru::experiments
