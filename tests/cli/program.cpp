#include "program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <thread>

namespace nru::test {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPatience = std::chrono::minutes(5);

std::string content(int file) {
  std::string text;
  char block[4096];
  ::lseek(file, 0, SEEK_SET);
  for (ssize_t got; (got = ::read(file, block, sizeof block)) > 0;)
    text.append(block, static_cast<std::size_t>(got));
  return text;
}

int open_terminal() {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (terminal < 0 || ::grantpt(terminal) < 0 || ::unlockpt(terminal) < 0)
    throw std::runtime_error("no pseudo-terminal");
  return terminal;
}

// The end to write to of a pipe whose other end is closed.
int unread_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  ::close(ends[0]);
  return ends[1];
}

// After fork(): only system calls.
void become(const Surroundings& where, int out, int err) {
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  if (where.closed_streams) {
    ::close(STDIN_FILENO);
    ::close(STDERR_FILENO);
  }
  if (where.closed_output) ::close(STDOUT_FILENO);
  if (where.largest_file) {
    const rlimit limit{*where.largest_file, *where.largest_file};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::signal(SIGXFSZ, SIG_IGN);  // so that write() fails instead
  }
  if (!where.directory.empty() && ::chdir(where.directory.c_str()) != 0) ::_exit(127);
}

}  // namespace

Program::Program(const Arguments& arguments, const Surroundings& where) {
  std::vector<std::string> words{NRU_BINARY};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  std::vector<std::string> settings;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string setting = *entry;
    const std::string name = setting.substr(0, setting.find('='));
    if (name != "NO_COLOR" && !where.environment.contains(name)) settings.push_back(setting);
  }
  for (const auto& [name, value] : where.environment) settings.push_back(name + "=" + value);
  std::vector<char*> environment;
  for (std::string& setting : settings) environment.push_back(setting.data());
  environment.push_back(nullptr);

  int out = -1, err = -1;
  if (where.terminal) {
    terminal_ = open_terminal();
    out = err = ::open(::ptsname(terminal_), O_RDWR | O_NOCTTY | O_CLOEXEC);
  } else {
    out = out_ = where.full_output     ? ::open("/dev/full", O_WRONLY | O_CLOEXEC)
                 : where.unread_output ? unread_pipe()
                                       : ::memfd_create("stdout", MFD_CLOEXEC);
    err = err_ = where.unread_errors ? unread_pipe() : ::memfd_create("stderr", MFD_CLOEXEC);
  }
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error("cannot start a process");
  if (pid_ == 0) {
    become(where, out, err);
    ::execve(argv[0], argv.data(), environment.data());
    ::_exit(127);
  }
  if (where.terminal) ::close(out);
}

Program::~Program() {
  if (running()) {
    signal(SIGKILL);
    reap(0);
  }
  for (const int file : {out_, err_, terminal_}) {
    if (file >= 0) ::close(file);
  }
}

void Program::signal(int number) {
  if (!status_) ::kill(pid_, number);
}

void Program::reap(int flags) {
  int status = 0;
  if (!status_ && ::waitpid(pid_, &status, flags) == pid_) status_ = status;
}

bool Program::running() {
  reap(WNOHANG);
  return !status_;
}

// The program would block on a full terminal.
void Program::read_terminal() {
  if (terminal_ < 0) return;
  char block[4096];
  pollfd ready{terminal_, POLLIN, 0};
  while (::poll(&ready, 1, 0) > 0) {
    const ssize_t got = ::read(terminal_, block, sizeof block);
    if (got <= 0) return;
    from_terminal_.append(block, static_cast<std::size_t>(got));
  }
}

bool Program::wait_until(const std::function<bool()>& condition) {
  const auto deadline = Clock::now() + kPatience;
  while (Clock::now() < deadline) {
    if (condition()) return true;
    read_terminal();
    if (!running()) return condition();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

Finished Program::wait() {
  wait_until([] { return false; });
  if (running()) {
    ADD_FAILURE() << "nru did not end";
    signal(SIGKILL);
    reap(0);
  }
  read_terminal();
  Finished finished;
  finished.code = WIFEXITED(*status_) ? WEXITSTATUS(*status_) : -WTERMSIG(*status_);
  finished.out = terminal_ >= 0 ? from_terminal_ : content(out_);
  if (terminal_ < 0) finished.err = content(err_);
  return finished;
}

Finished nru(const Arguments& arguments, const Surroundings& where) {
  return Program(arguments, where).wait();
}

Arguments operator+(Arguments first, const Arguments& more) {
  first.insert(first.end(), more.begin(), more.end());
  return first;
}

int lines_in(const std::string& text) {
  return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace nru::test
