#include "experiments/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <nru/error.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "experiments/cores.h"

namespace nru::experiments {
namespace {

namespace fs = std::filesystem;

// Between fork and exec: system calls only.
[[noreturn]] void become(char* const* argv, int log, const CoreSet& cores, pid_t parent,
                         std::optional<int> talk) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(128 + SIGTERM);  // died before the line above
  ::setpgid(0, 0);
  cores.pin_this_thread();
  ::dup2(talk ? *talk : ::open("/dev/null", O_RDONLY), STDIN_FILENO);
  ::dup2(talk.value_or(log), STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  ::execv("/proc/self/exe", argv);
  constexpr char kMessage[] = "nru: cannot start the program again\n";
  [[maybe_unused]] const ssize_t written = ::write(log, kMessage, sizeof kMessage - 1);
  ::_exit(127);
}

}  // namespace

Child::Child(const std::vector<std::string>& arguments, const fs::path& log,
             const std::vector<int>& cores, std::optional<int> talk) {
  std::vector<std::string> words = {"nru"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const CoreSet set(cores);
  const Descriptor file = open_log(log);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0)
    throw Error(
        fmt::format("cannot start another process: {}; use fewer --jobs", std::strerror(errno)));
  if (pid_ == 0) become(argv.data(), file.get(), set, parent, talk);
}

Child& Child::operator=(Child&& other) noexcept {
  std::swap(pid_, other.pid_);
  return *this;
}

Child::~Child() {
  if (pid_ < 0) return;
  signal(SIGTERM);
  uninterrupted([&] { return ::waitpid(pid_, nullptr, 0); });
}

void Child::signal(int number) const {
  if (pid_ > 0) ::kill(pid_, number);
}

std::optional<Ended> Child::ended() {
  int status = 0;
  if (pid_ < 0 || uninterrupted([&] { return ::waitpid(pid_, &status, WNOHANG); }) == 0)
    return std::nullopt;
  pid_ = -1;
  if (WIFSIGNALED(status)) return Ended{0, WTERMSIG(status)};
  return Ended{WEXITSTATUS(status), 0};
}

Descriptor open_log(const fs::path& log) {
  std::error_code failure;
  fs::create_directories(log.parent_path(), failure);
  Descriptor file(uninterrupted(
      [&] { return ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666); }));
  if (file.get() < 0) {
    throw Error(fmt::format("cannot write {}: {}; choose another --out", log.string(),
                            std::strerror(errno)));
  }
  return file;
}

}  // namespace nru::experiments
