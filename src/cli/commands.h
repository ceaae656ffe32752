// The subcommands of the program, one file each.
//
// add_X() declares subcommand X with its options; when X is on the command line, parsing leaves
// what to do in Invocation::run. Parsing and running are apart, so that main() can tell a usage
// error from an error of the work itself.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace nru::cli {

struct Invocation {
  std::function<int()> run;  // gives the exit code; throws nru::Error, nru::Diverged
};

void add_train(CLI::App& app, Invocation& invocation);
void add_eval(CLI::App& app, Invocation& invocation);
void add_sample(CLI::App& app, Invocation& invocation);
void add_inspect(CLI::App& app, Invocation& invocation);
void add_bench(CLI::App& app, Invocation& invocation);
void add_reproduce(CLI::App& app, Invocation& invocation);
void add_report(CLI::App& app, Invocation& invocation);
void add_list(CLI::App& app, Invocation& invocation);
void add_data(CLI::App& app, Invocation& invocation);
void add_doctor(CLI::App& app, Invocation& invocation);
void add_worker(CLI::App& app, Invocation& invocation);

// The whole program: picks the subcommand, runs it, prints what went wrong, gives the exit code.
// May run in several threads at once.
int run_and_report(int argc, const char* const* argv);

}  // namespace nru::cli
