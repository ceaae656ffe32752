#include "support/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <nru/error.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>
#include <thread>

#include "support/posix.h"

namespace nru {
namespace {

namespace fs = std::filesystem;

constexpr int kNotRun = 127;
constexpr auto kTick = std::chrono::milliseconds(100);
constexpr std::size_t kMostErrors = std::size_t{1} << 16;  // enough of any message

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

[[noreturn]] void fail(const std::string& program) {
  throw Error(fmt::format("cannot start {}: {}; end other programs or free some space", program,
                          std::strerror(errno)));
}

// In the new process, where only system calls are safe.
[[noreturn]] void become(char* const* words, const char* directory, int nothing, int errors) {
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(nothing, STDOUT_FILENO);
  ::dup2(errors, STDERR_FILENO);
  if (*directory == '\0' || ::chdir(directory) == 0) ::execvp(words[0], words);
  ::_exit(kNotRun);
}

int wait_for(pid_t process, const std::string& program, const std::function<void()>& tick) {
  for (;;) {
    int status = 0;
    const pid_t ended = uninterrupted([&] { return ::waitpid(process, &status, WNOHANG); });
    if (ended < 0) fail(program);
    if (ended > 0) return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    if (tick) tick();
    std::this_thread::sleep_for(kTick);
  }
}

}  // namespace

std::optional<fs::path> find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path candidate = fs::path(folder.empty() ? "." : folder) / name;
    std::error_code ignored;
    if (fs::is_regular_file(candidate, ignored) && ::access(candidate.c_str(), X_OK) == 0)
      return candidate;
  }
  return std::nullopt;
}

ProcessResult run_program(const std::vector<std::string>& words, const fs::path& directory,
                          const std::function<void()>& tick) {
  std::vector<char*> argv;  // execvp takes its words without const and does not write to them
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const File errors(std::tmpfile());
  const Descriptor nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!errors || nothing.get() < 0) fail(words[0]);

  const pid_t process = ::fork();
  if (process < 0) fail(words[0]);
  if (process == 0) become(argv.data(), directory.c_str(), nothing.get(), ::fileno(errors.get()));

  ProcessResult result;
  result.code = wait_for(process, words[0], tick);
  result.errors.resize(kMostErrors);
  std::rewind(errors.get());
  result.errors.resize(std::fread(result.errors.data(), 1, kMostErrors, errors.get()));
  return result;
}

}  // namespace nru
