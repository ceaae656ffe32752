#include "experiments/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <nru/error.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "support/posix.h"

namespace nru::experiments {
namespace {

namespace fs = std::filesystem;

// A mask of any size: a fixed cpu_set_t ends at 1024 cores.
class CoreMask {
 public:
  explicit CoreMask(int cores) : cores_(cores), set_(CPU_ALLOC(cores)) {
    CPU_ZERO_S(bytes(), set_);
  }
  CoreMask(const CoreMask&) = delete;
  CoreMask& operator=(const CoreMask&) = delete;
  ~CoreMask() { CPU_FREE(set_); }
  std::size_t bytes() const { return CPU_ALLOC_SIZE(cores_); }
  cpu_set_t* get() { return set_; }
  int size() const { return cores_; }

 private:
  int cores_;
  cpu_set_t* set_;
};

constexpr int kMostCores = 8192;

int open_log(const fs::path& log) {
  std::error_code failure;
  fs::create_directories(log.parent_path(), failure);
  const int file = uninterrupted(
      [&] { return ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666); });
  if (file < 0) {
    throw Error(fmt::format("cannot write {}: {}; choose another --out", log.string(),
                            std::strerror(errno)));
  }
  return file;
}

// Between fork and exec: system calls only.
[[noreturn]] void become(char* const* argv, int log, CoreMask& cores, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(128 + SIGTERM);  // died before the line above
  ::setpgid(0, 0);
  ::sched_setaffinity(0, cores.bytes(), cores.get());  // best effort: only speed depends on it
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  ::execv("/proc/self/exe", argv);
  constexpr char kMessage[] = "nru: cannot start the program again\n";
  [[maybe_unused]] const ssize_t written = ::write(log, kMessage, sizeof kMessage - 1);
  ::_exit(127);
}

}  // namespace

Child::Child(const std::vector<std::string>& arguments, const fs::path& log,
             const std::vector<int>& cores) {
  std::vector<std::string> words = {"nru"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  CoreMask mask(kMostCores);
  for (const int core : cores) CPU_SET_S(static_cast<std::size_t>(core), mask.bytes(), mask.get());
  const Descriptor file(open_log(log));
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0)
    throw Error(
        fmt::format("cannot start another process: {}; use fewer --jobs", std::strerror(errno)));
  if (pid_ == 0) become(argv.data(), file.get(), mask, parent);
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

std::vector<int> allowed_cores() {
  CoreMask mask(kMostCores);
  std::vector<int> cores;
  if (::sched_getaffinity(0, mask.bytes(), mask.get()) == 0) {
    for (int core = 0; core < mask.size(); ++core) {
      if (CPU_ISSET_S(static_cast<std::size_t>(core), mask.bytes(), mask.get()))
        cores.push_back(core);
    }
  }
  if (cores.empty()) cores.push_back(0);
  return cores;
}

}  // namespace nru::experiments
