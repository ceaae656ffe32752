// The program nru: picks the subcommand and turns what happens into an exit code.
//
//   0 done; 1 internal error; 2 usage, configuration or data error; 3 training diverged;
//   130, 143 and 129 stopped by SIGINT, SIGTERM and SIGHUP after saving
#include <fcntl.h>
#include <fmt/format.h>
#include <nru/error.h>
#include <nru/version.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"
#include "cli/text.h"
#include "cli/torch_facts.h"
#include "support/suggest.h"
#include "training/signals.h"

namespace nru::cli {
namespace {

constexpr int kInternalError = 1;
constexpr int kUsageError = 2;
constexpr int kDiverged = 3;

constexpr char kOutOfMemory[] = "out of memory; choose smaller sizes or a smaller batch_size";

constexpr char kExamples[] =
    R"(Examples:
  nru train --task copy --cell nru                     one run with the paper's sizes
  nru train --task copy --cell lstm --lag 200 --seed 2
  nru train --resume --out runs/copy-100-nru-seed1     go on with an interrupted run
  nru eval runs/copy-100-nru-seed1                     loss and accuracy of its weights
  nru inspect runs/copy-100-nru-seed1                  what it does with its memory
  nru sample runs/char-lm-nru-seed1 --prompt "the "    text from a character model
  nru bench --task copy --cell nru                     ms per update beside torch's own layers
  nru reproduce copy-100 --quick                       an experiment of the paper, in short
  nru report runs/reproduce                            its figures and tables on one page
  nru list nru                                         a cell's options
  nru data get mnist                                   fetch a data set; nru data check verifies
  nru doctor                                           what this machine offers, what is missing

nru COMMAND --help (or nru help COMMAND) says more about each command.

Exit codes: 0 done; 1 internal error; 2 usage, configuration or data; 3 training diverged;
130, 143 and 129 stopped by SIGINT (Ctrl-C), SIGTERM and SIGHUP after saving.)";

std::string version_text() {
  return fmt::format("nru {} (commit {}, torch {})", version(), commit(), torch_version());
}

std::vector<std::string> command_names(const CLI::App& app, bool hidden_too) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (hidden_too || !command->get_group().empty()) names.push_back(command->get_name());
  }
  return names;
}

std::vector<std::string> flag_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// CLI11 would say that a subcommand is missing, or that all words after it were not expected.
void check_command(const CLI::App& app, int argc, const char* const* argv) {
  const CLI::App* command = &app;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::vector<std::string> names = command_names(*command, true);
    if (names.empty() || word.starts_with("-")) return;
    if (std::find(names.begin(), names.end(), word) == names.end()) {
      throw Error(fmt::format("unknown command '{}{}'{}",
                              command == &app ? "" : argv[1] + std::string(" "), word,
                              did_you_mean(word, command_names(*command, false))));
    }
    command = command->get_subcommand(word);
  }
}

struct Chosen {
  const CLI::App* command;
  std::string name;  // "nru data get"
};

// The innermost command that the parser came to.
Chosen chosen_command(const CLI::App& app) {
  Chosen chosen{&app, "nru"};
  for (auto commands = app.get_subcommands(); !commands.empty();
       commands = chosen.command->get_subcommands()) {
    chosen = {commands.front(), chosen.name + " " + commands.front()->get_name()};
  }
  return chosen;
}

// What the parser could not place, with the nearest flag of that command.
std::string unexpected_argument(const CLI::App& app) {
  const auto [command, name] = chosen_command(app);
  const std::vector<std::string> rest = command->remaining();
  if (rest.empty()) return "";
  const std::string& word = rest.front();
  if (!word.starts_with("-")) {
    return fmt::format("{} does not take '{}'; see {} --help", name, word, name);
  }
  const std::string flag = word.substr(0, word.find('='));
  return fmt::format("{} has no flag '{}'{}", name, flag, did_you_mean(flag, flag_names(*command)));
}

// False when there is nothing left to do: help and version were asked for and given.
bool parse(CLI::App& app, int argc, const char* const* argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    print(app.help());
    return false;
  } catch (const CLI::CallForVersion&) {
    print(version_text() + "\n");
    return false;
  } catch (const CLI::ExtrasError& error) {
    const std::string message = unexpected_argument(app);
    throw Error(message.empty() ? error.what() : message);
  } catch (const CLI::ParseError& error) {
    throw Error(fmt::format("{}; see {} --help", error.what(), chosen_command(app).name));
  }
  return true;
}

// `nru help COMMAND` is `nru COMMAND --help`.
std::vector<const char*> with_help_as_flag(int argc, const char* const* argv) {
  std::vector<const char*> words(argv, argv + argc);
  if (argc > 1 && std::string_view(argv[1]) == "help") {
    words.erase(words.begin() + 1);
    words.push_back("--help");
  }
  return words;
}

int run(int argc, const char* const* argv) {
  CLI::App app(
      "nru trains and compares the Non-saturating Recurrent Unit and the recurrent networks around "
      "it.",
      "nru");
  app.set_version_flag("--version", version_text(), "Show version, commit and torch version");
  app.footer(kExamples);
  app.require_subcommand(0, 1);
  Invocation invocation;
  add_train(app, invocation);
  add_eval(app, invocation);
  add_sample(app, invocation);
  add_inspect(app, invocation);
  add_bench(app, invocation);
  add_reproduce(app, invocation);
  add_report(app, invocation);
  add_list(app, invocation);
  add_data(app, invocation);
  add_doctor(app, invocation);
  add_worker(app, invocation);

  const std::vector<const char*> words = with_help_as_flag(argc, argv);
  const int count = static_cast<int>(words.size());
  check_command(app, count, words.data());
  if (!parse(app, count, words.data())) return 0;
  if (!invocation.run) {
    print(app.help());
    return 0;
  }
  return invocation.run();
}

int fail(int code, const std::string& message) {
  std::fflush(stdout);
  errors() << "nru: " << one_line(message) << std::endl;
  return code;
}

// torch appends a stack trace to its messages.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// Otherwise the next file that is opened gets the number of a standard stream, and messages go
// into a run. Reading or writing them fails as before: no output counts as written that nobody
// gets. open() takes the lowest number that is free.
void fill_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) < 0)
      ::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

}  // namespace

int run_and_report(int argc, const char* const* argv) {
  try {
    const int code = run(argc, argv);
    flush_output();
    return code;
  } catch (const Diverged& error) {
    return fail(kDiverged, error.what());
  } catch (const Error& error) {
    return fail(kUsageError, error.what());
  } catch (const std::invalid_argument& error) {
    return fail(kUsageError, error.what());
  } catch (const std::bad_alloc&) {
    return fail(kUsageError, kOutOfMemory);
  } catch (const std::exception& error) {
    const std::string what = first_line(error.what());
    if (what.find("can't allocate memory") != std::string::npos) {  // torch's bad_alloc
      return fail(kUsageError, kOutOfMemory);
    }
    return fail(kInternalError, "internal error: " + what);
  }
}

int main_program(int argc, const char* const* argv) {
  fill_closed_streams();
  training::survive_closed_pipes();
  return run_and_report(argc, argv);
}

}  // namespace nru::cli

int main(int argc, char** argv) { return nru::cli::main_program(argc, argv); }
