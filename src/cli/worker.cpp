// `nru worker`: runs commands that come in on standard input, each in a thread of its own. Not for
// people: nru reproduce starts it where runs share a GPU (experiments/launcher.h).
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "cli/commands.h"
#include "cli/text.h"
#include "experiments/worker.h"
#include "support/posix.h"

namespace nru::cli {
namespace {

int run_in_thread(const std::vector<std::string>& arguments, std::ostream& log) {
  const OutputTo here(log);
  std::vector<const char*> argv = {"nru"};
  for (const std::string& word : arguments) argv.push_back(word.c_str());
  return run_and_report(static_cast<int>(argv.size()), argv.data());
}

int work() {
  // Streams beyond this number share queues and wait for each other. CUDA reads it when it starts,
  // and takes 8 without it.
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0);
  // Answers go to standard output; whatever some library prints there must not mix with them.
  const Descriptor answers(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  return experiments::serve(STDIN_FILENO, answers.get(), run_in_thread);
}

}  // namespace

void add_worker(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("worker", "Run commands from standard input in threads");
  command->group("");  // in no list of commands
  command->callback([&invocation] { invocation.run = work; });
}

}  // namespace nru::cli
