// What `nru reproduce` prints: for people, and as JSON.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "cli/reproduce.h"
#include "cli/text.h"
#include "support/json.h"
#include "support/words.h"
#include "training/progress.h"
#include "training/signals.h"

namespace nru::cli {
namespace {

using experiments::Experiment;
using experiments::GridOutcome;
using experiments::Job;
using experiments::JobOutcome;
using experiments::RunState;
using training::format_count;
using training::format_duration;
using Json = nlohmann::ordered_json;

std::size_t own_runs(const Experiment& experiment, bool quick) {
  return plan(experiment, {quick, std::nullopt}).size();
}

std::string stage_text(const RunState& state) {
  switch (state.stage) {
    case RunState::Stage::absent:
      return "new";
    case RunState::Stage::begun:
      return fmt::format("goes on at {}", format_count(state.updates));
    case RunState::Stage::diverged:
      return fmt::format("diverged at {}", format_count(state.updates));
    default:
      return state.inspection_missing ? "to be inspected" : "done";
  }
}

const char* stage_name(const RunState& state) {
  switch (state.stage) {
    case RunState::Stage::absent:
      return "new";
    case RunState::Stage::begun:
      return "begun";
    case RunState::Stage::diverged:
      return "diverged";
    default:
      return "done";
  }
}

// What is left of each job, and how long that takes as far as earlier runs tell.
struct Outlook {
  std::vector<RunState> states;
  std::vector<double> cost_left;
  experiments::Speeds speeds;
  double all = 0;
};

Outlook look_ahead(const std::vector<Job>& jobs) {
  Outlook outlook;
  for (const Job& job : jobs) {
    const RunState state = look_at(job);
    const double made = static_cast<double>(state.updates) * job.cost_per_update;
    const double whole = static_cast<double>(job.updates) * job.cost_per_update;
    outlook.speeds.measured(job.kind, made, state.seconds);
    outlook.states.push_back(state);
    outlook.cost_left.push_back(state.training_over() ? 0 : std::max(whole - made, 0.0));
    outlook.all += outlook.cost_left.back();
  }
  return outlook;
}

// Of `all`, in percent. A small one is not nothing.
std::string share_text(double cost, double all) {
  if (all <= 0 || cost <= 0) return "";
  const double percent = 100 * cost / all;
  return percent < 0.05 ? "< 0.1 % of all" : fmt::format("{:.1f} % of all", percent);
}

// How long all of it takes. What runs cost whose data are not here is not known.
std::string rest_text(const std::vector<Job>& jobs, const Outlook& outlook) {
  if (outlook.all <= 0) return "";
  double seconds = 0;
  bool all_known = true;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (outlook.states[i].training_over()) continue;
    all_known = all_known && jobs[i].updates > 0 && jobs[i].cost_per_update > 0;
    const auto one = outlook.speeds.seconds(jobs[i].kind, outlook.cost_left[i]);
    if (!one) return "how long the rest takes can be told once a run has ended\n";
    seconds += *one;
  }
  return fmt::format("the rest takes {} {}, one run after the other\n",
                     all_known ? "about" : "more than", format_duration(seconds));
}

Json json_of(const Job& job) {
  return {{"experiment", job.run.experiment},
          {"cell", job.run.cell},
          {"variant", job.run.variant},
          {"seed", job.run.seed},
          {"directory", job.config.out}};
}

}  // namespace

std::string experiments_text(const std::vector<Experiment>& experiments) {
  std::vector<std::vector<std::string>> rows{{"experiment", "runs", "quick", ""}};
  for (const Experiment& experiment : experiments) {
    const std::string shows = fmt::format(" (shows {})", fmt::join(experiment.uses, ", "));
    rows.push_back({experiment.name, fmt::format("{}", own_runs(experiment, false)),
                    fmt::format("{}", own_runs(experiment, true)),
                    experiment.title + (experiment.uses.empty() ? "" : shows)});
  }
  return "Experiments of the paper (nru reproduce NAME):\n" +
         align(rows, {false, true, true, false}, "  ");
}

std::string experiments_json(const std::vector<Experiment>& experiments) {
  Json json = Json::array();
  for (const Experiment& experiment : experiments) {
    json.push_back({{"name", experiment.name},
                    {"title", experiment.title},
                    {"paper", experiment.paper},
                    {"figure", to_string(experiment.figure)},
                    {"cells", experiment.cells},
                    {"variants", variant_names(experiment)},
                    {"seeds", experiment.seeds},
                    {"uses", experiment.uses},
                    {"runs", own_runs(experiment, false)},
                    {"quick_runs", own_runs(experiment, true)},
                    {"claims", experiment.claims.size()}});
  }
  return json.dump(2) + "\n";
}

std::string plan_text(const std::vector<Job>& jobs) {
  const Outlook outlook = look_ahead(jobs);
  std::vector<std::vector<std::string>> rows{{"run", "updates", "state", "takes"}};
  std::size_t over = 0;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const double cost = outlook.cost_left[i];
    const auto seconds = outlook.speeds.seconds(jobs[i].kind, cost);
    const bool done = outlook.states[i].training_over();
    over += done;
    rows.push_back({jobs[i].name(), jobs[i].updates > 0 ? format_count(jobs[i].updates) : "?",
                    stage_text(outlook.states[i]),
                    done || cost <= 0 ? ""
                    : seconds         ? "about " + format_duration(*seconds)
                                      : share_text(cost, outlook.all)});
  }
  return align(rows, {false, true, false, false}) +
         fmt::format("{} of {} runs done\n", over, jobs.size()) + rest_text(jobs, outlook);
}

std::string plan_json(const std::vector<Job>& jobs) {
  const Outlook outlook = look_ahead(jobs);
  Json json = Json::array();
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    Json run = json_of(jobs[i]);
    run["state"] = stage_name(outlook.states[i]);
    run["updates"] = outlook.states[i].updates;
    run["total_updates"] = jobs[i].updates;
    run["cost_left"] = outlook.cost_left[i];
    run["seconds_left"] = or_null(outlook.speeds.seconds(jobs[i].kind, outlook.cost_left[i]));
    Json settings = Json::object();
    for (const auto& [key, value] : jobs[i].run.settings)
      settings[key] = std::visit([](const auto& v) { return Json(v); }, value);
    run["settings"] = settings;
    json.push_back(run);
  }
  return Json{{"runs", json}}.dump(2) + "\n";
}

std::string outcome_text(const std::vector<Job>& jobs, const GridOutcome& outcome,
                         const ReproduceArguments& arguments) {
  const experiments::Totals totals = outcome.totals();
  std::string text = fmt::format("{} of {} runs done in {}", totals.done + totals.diverged,
                                 totals.runs, arguments.root().string());
  if (totals.diverged > 0) text += fmt::format(", {} of them diverged", totals.diverged);
  if (totals.failed > 0) text += fmt::format(", {} failed", totals.failed);
  if (totals.queued > 0) text += fmt::format(", {} left", totals.queued);
  text += "\n";
  std::size_t not_started = 0;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const JobOutcome& job = outcome.jobs[i];
    if (job.state == JobOutcome::State::failed) {
      text += fmt::format("  failed: {}: {} (log: {})\n", jobs[i].name(), one_line(job.reason),
                          jobs[i].log().string());
    } else if (job.state == JobOutcome::State::left && job.updates == 0) {
      ++not_started;
    } else if (job.state == JobOutcome::State::left) {
      text += fmt::format("  left: {}: at {}{}\n", jobs[i].name(), format_count(job.updates),
                          jobs[i].updates > 0 ? " of " + format_count(jobs[i].updates) : "");
    }
  }
  if (totals.queued > 0) {
    text += fmt::format(
        "{}; go on with: {}\n",
        outcome.signal != 0 ? "stopped by a signal, all saved" : "the time limit is up, all saved",
        arguments.command());
  } else if (totals.failed > 0) {
    text += fmt::format("try the failed again with: {}\n", arguments.command());
  } else if (arguments.can_report) {
    text += fmt::format("see them beside the paper's: nru report {}\n",
                        shell_word(arguments.root().string()));
  }
  return text;
}

std::string outcome_json(const std::vector<Job>& jobs, const GridOutcome& outcome) {
  Json runs = Json::array();
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const JobOutcome& job = outcome.jobs[i];
    Json run = json_of(jobs[i]);
    run["state"] = to_string(job.state);
    run["updates"] = job.updates;
    run["total_updates"] = jobs[i].updates;
    run["solved_at"] = or_null(job.solved_at);
    run["reason"] = job.reason.empty() ? Json(nullptr) : Json(one_line(job.reason));
    run["log"] = jobs[i].log().string();
    runs.push_back(run);
  }
  const experiments::Totals totals = outcome.totals();
  return Json{{"done", totals.done},
              {"diverged", totals.diverged},
              {"failed", totals.failed},
              {"left", totals.queued},
              {"stopped_by", outcome.signal != 0 ? Json(training::name_of_request(outcome.signal))
                             : outcome.time_up   ? Json("time limit")
                                                 : Json(nullptr)},
              {"runs", runs}}
             .dump(2) +
         "\n";
}

}  // namespace nru::cli
