// The child process gets files that have no name any more instead of pipes: nothing can block, and
// nothing is left behind.
#include "report/gnuplot.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <nru/error.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>

#include "report/escape.h"
#include "report/figure.h"
#include "support/posix.h"

extern char** environ;

namespace nru::report {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

File unnamed_file() {
  File file(std::tmpfile());
  if (file == nullptr) {
    throw Error(fmt::format("cannot make a temporary file: {}; free some space in $TMPDIR",
                            std::strerror(errno)));
  }
  return file;
}

std::string content_of(std::FILE* file) {
  std::string text;
  std::rewind(file);
  char buffer[1 << 14];
  while (const std::size_t count = std::fread(buffer, 1, sizeof buffer, file)) {
    text.append(buffer, count);
  }
  return text;
}

// The exit status; 127 where the program does not exist.
int run(const char* program, std::FILE* in, std::FILE* out, std::FILE* err) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, fileno(in), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, fileno(out), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, fileno(err), STDERR_FILENO);
  // --default-settings: a ~/.gnuplot must not change a report.
  std::string name = program, settings = "--default-settings";
  char* arguments[] = {name.data(), settings.data(), nullptr};
  pid_t child = -1;
  const int failure = ::posix_spawnp(&child, program, &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) return 127;
  int status = 0;
  if (uninterrupted([&] { return ::waitpid(child, &status, 0); }) < 0) return 127;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string first_complaint(const std::string& text) {
  // gnuplot quotes the offending line first; what it says about it has "line N: ...".
  const std::size_t at = text.find("line ");
  const std::string_view rest = std::string_view(text).substr(at == std::string::npos ? 0 : at);
  return std::string(rest.substr(0, rest.find('\n')));
}

}  // namespace

std::string run_gnuplot(std::string_view script) {
  const File in = unnamed_file(), out = unnamed_file(), err = unnamed_file();
  if (std::fwrite(script.data(), 1, script.size(), in.get()) != script.size() ||
      std::fflush(in.get()) != 0) {
    throw Error(fmt::format("cannot write a temporary file: {}; free some space in $TMPDIR",
                            std::strerror(errno)));
  }
  std::rewind(in.get());
  const int status = run("gnuplot", in.get(), out.get(), err.get());
  if (status == 127) {
    throw Error("figures need gnuplot, which is not installed; apt-get install gnuplot-nox");
  }
  if (status != 0) {
    throw Error(fmt::format("gnuplot could not draw a figure (status {}): {}", status,
                            first_complaint(content_of(err.get()))));
  }
  return content_of(out.get());
}

std::string gnuplot_string(std::string_view text) {
  // Inside double quotes gnuplot still runs `commands` and expands @macros, unless the characters
  // are written as octal escapes.
  std::string quoted = "\"";
  for (const char c : clean_text(text)) {
    if (c == '\n' || c == '\t') {
      quoted += ' ';
    } else if (std::string_view("\"\\`@$'").find(c) != std::string_view::npos) {
      quoted += fmt::format("\\{:03o}", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

std::string gnuplot_number(double value) {
  return std::isfinite(value) ? fmt::format("{:.6g}", value) : "NaN";
}

bool has_gnuplot() {
  try {
    run_gnuplot("exit\n");
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace nru::report
