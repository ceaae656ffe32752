// The command line of `nru reproduce`, and the order of its work.
#include "cli/reproduce.h"

#include <fmt/format.h>
#include <nru/error.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "cli/text.h"
#include "experiments/cores.h"
#include "support/clock.h"
#include "support/words.h"

namespace nru::cli {
namespace {

using experiments::GridOutcome;
using experiments::Job;
using experiments::JobOutcome;

constexpr std::size_t kJobsOnGpu = 16;

std::size_t slots(const ReproduceArguments& arguments, bool on_gpu) {
  if (arguments.jobs) return static_cast<std::size_t>(*arguments.jobs);
  return on_gpu ? kJobsOnGpu : experiments::allowed_cores().size();
}

GridOutcome run(const std::vector<Job>& jobs, const ReproduceArguments& arguments) {
  const bool on_gpu = std::any_of(jobs.begin(), jobs.end(),
                                  [](const Job& job) { return job.config.device != "cpu"; });
  const auto launcher = on_gpu || arguments.worker
                            ? experiments::make_worker_launcher(arguments.root() / "worker.txt")
                            : experiments::make_process_launcher();
  experiments::Board board(detect_terminal(STDERR_FILENO), std::cerr, steady_seconds);
  const experiments::Scheduler::Settings settings = {
      .slots = slots(arguments, on_gpu), .time_limit = arguments.time_limit, .pin = !on_gpu};
  return experiments::Scheduler(jobs, settings, *launcher, board).run();
}

int exit_code(const GridOutcome& outcome) {
  if (outcome.signal != 0) return 128 + outcome.signal;
  for (const JobOutcome& job : outcome.jobs) {
    if (job.state == JobOutcome::State::failed) return job.code == 2 ? 2 : 1;
  }
  return 0;
}

GridRequest request_of(const ReproduceArguments& arguments) {
  if (arguments.names.empty()) {
    throw Error("no experiment was named; nru reproduce --list shows them, all means every one");
  }
  return {arguments.names,   {arguments.quick, arguments.seeds},
          arguments.root(),  arguments.device,
          arguments.cells,   arguments.variants,
          arguments.updates, arguments.can_inspect};
}

}  // namespace

std::filesystem::path ReproduceArguments::root() const {
  // Apart by default: a run of another length is another run.
  return !out.empty() ? out : quick ? "runs/quick" : "runs/reproduce";
}

std::string ReproduceArguments::command() const {
  std::string text = "nru reproduce";
  for (const std::string& name : names) text += " " + shell_word(name);
  if (quick) text += " --quick";
  if (seeds) text += fmt::format(" --seeds {}", *seeds);
  if (!cells.empty()) text += " --cells " + shell_word(fmt::format("{}", fmt::join(cells, ",")));
  if (!variants.empty())
    text += " --variants " + shell_word(fmt::format("{}", fmt::join(variants, ",")));
  if (updates) text += fmt::format(" --updates {}", *updates);
  if (jobs) text += fmt::format(" --jobs {}", *jobs);
  if (!out.empty()) text += " --out " + shell_word(out);
  if (!device.empty()) text += " --device " + shell_word(device);
  if (worker) text += " --worker";
  if (!experiments.empty()) text += " --experiments " + shell_word(experiments);
  return text;
}

int reproduce(const ReproduceArguments& arguments) {
  const auto all =
      experiments::load_experiments(experiments::find_experiments(arguments.experiments));
  if (arguments.list) {
    print(arguments.json ? experiments_json(all) : experiments_text(all));
    return 0;
  }
  const std::vector<Job> jobs = make_grid(all, request_of(arguments));
  if (arguments.dry_run) {
    print(arguments.json ? plan_json(jobs) : plan_text(jobs));
    return 0;
  }
  check_surroundings(jobs, arguments.root());
  const GridOutcome outcome = run(jobs, arguments);
  print(arguments.json ? outcome_json(jobs, outcome) : outcome_text(jobs, outcome, arguments));
  return exit_code(outcome);
}

void add_reproduce(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand(
      "reproduce", "Make the runs of the paper's experiments, or go on with them");
  const auto given = std::make_shared<ReproduceArguments>();
  const CLI::Validator value(not_a_flag, "");
  command->add_option("EXPERIMENT", given->names, "names (see --list), or all")->type_name("");
  command->add_flag("--quick", given->quick, "a short version of each, to see that all works");
  command->add_option("--seeds", given->seeds, "seeds 1 to N instead of the experiment's own")
      ->type_name("N")
      ->transform(CLI::Validator(
          whole_number("--seeds", 1, 1000, "one number N, 1 to 1000, for the seeds 1 to N"), ""));
  const auto add_names = [&](const char* flag, std::vector<std::string>& names, const char* help) {
    command->add_option(flag, names, help)
        ->type_name("NAME,...")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->check(value);
  };
  add_names("--cells", given->cells, "only runs of these cells");
  add_names("--variants", given->variants, "only these variants of the experiments");
  command
      ->add_option("--updates", given->updates,
                   "end longer runs after N updates; without it, or with more, they go on")
      ->type_name("N")
      ->transform(CLI::Validator(whole_number("--updates", 1, 1'000'000'000'000, "1 or more"), ""));
  command
      ->add_option("--jobs", given->jobs,
                   "runs side by side, each on its own cores (default: one per core, 16 on a GPU)")
      ->type_name("N")
      ->transform(CLI::Validator(whole_number("--jobs", 1, 1024, "1 to 1024"), ""));
  command->add_option("--out", given->out, "where runs go (default runs/reproduce, runs/quick)")
      ->type_name("DIR")
      ->check(value);
  command->add_option("--device", given->device, "cpu, cuda or cuda:N for all runs")
      ->type_name("NAME")
      ->check(value);
  command->add_flag("--worker", given->worker, "all runs in one process")->group("");
  command->add_option("--time-limit", given->time_limit, "seconds after which all save and stop")
      ->type_name("SECONDS")
      ->transform(
          CLI::Validator(any_number("--time-limit", 0, 1e12, "seconds, or 0 for no limit"), ""));
  command->add_option("--experiments", given->experiments, "folder of other experiments (*.toml)")
      ->type_name("DIR")
      ->check(value);
  command->add_flag("--dry-run", given->dry_run, "show what there is to do, and do nothing");
  command->add_flag("--list", given->list, "show the experiments");
  command->add_flag("--json", given->json, "print JSON");
  command->footer(
      R"(Runs go to OUT/EXPERIMENT/CELL[-VARIANT]-seedN. Those that are done are skipped, others go on from
their checkpoint: call it again after Ctrl-C, a kill or a time limit. Longest runs come first. A run
that fails or diverges does not stop the others; OUT/.../log.txt has its output.

Examples:
  nru reproduce --list
  nru reproduce copy-100 --quick
  nru reproduce copy-100 copy-variable-100 --seeds 1 --jobs 2
  nru reproduce copy-200 --cells nru,janet --updates 60000
  nru reproduce sensitivity --variants k1,base
  nru reproduce all --device cuda --time-limit 1500       as far as it gets in 25 minutes
  nru reproduce all --dry-run)");
  command->callback([&app, given, &invocation] {
    const auto knows = [&app](const std::string& name) {
      return !app.get_subcommands([&](const CLI::App* c) { return c->get_name() == name; }).empty();
    };
    given->can_inspect = knows("inspect");
    given->can_report = knows("report");
    invocation.run = [given] { return reproduce(*given); };
  });
}

}  // namespace nru::cli
