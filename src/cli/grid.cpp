#include "cli/grid.h"

#include <fmt/format.h>
#include <nru/error.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>

#include "cells/model.h"
#include "cells/registry.h"
#include "support/suggest.h"
#include "tasks/registry.h"
#include "training/cuda_engine.h"
#include "training/trainer.h"

namespace nru::cli {
namespace {

namespace fs = std::filesystem;
using experiments::Experiment;
using experiments::FigureKind;
using experiments::Job;
using experiments::PlannedRun;

// What an update of a task takes, apart from the network.
struct TaskFacts {
  std::int64_t updates_per_epoch = 0;
  double positions = 0;  // steps times rows of a batch, on average; 0: the data is not there
  std::string problem;   // why it is not; empty: it is
};

// Tasks are made once per setting: some read all of their data for it.
class TaskTable {
 public:
  TaskFacts find(const training::RunConfig& config) {
    std::string key = fmt::format("{} {} {}", config.task, config.lag, config.batch_size);
    for (const auto& [name, value] : config.task_options)
      key += fmt::format(" {}={}", name, to_string(value));
    const auto found = known_.find(key);
    return found == known_.end() ? known_[key] = measure(config) : found->second;
  }

 private:
  static TaskFacts measure(const training::RunConfig& config) {
    constexpr int kBatches = 16;  // of unequal length on copy-variable
    TaskFacts facts;
    try {
      const auto task = tasks::find_task(config.task).make(task_settings(config));
      facts.updates_per_epoch = task->updates_per_epoch();
      tasks::Batch batch;
      for (std::uint64_t index = 0; index < kBatches; ++index) {
        task->make_batch(tasks::Split::train, index, batch);
        facts.positions += static_cast<double>(batch.steps) * batch.rows / kBatches;
      }
    } catch (const Error& error) {
      facts.problem = error.what();
    }
    return facts;
  }

  std::map<std::string, TaskFacts> known_;
};

training::RunConfig resolve(const PlannedRun& run, const GridRequest& request) {
  training::ConfigSources sources;
  for (const auto& [key, value] : run.settings)
    sources.sets.push_back(fmt::format("{}={}", key, nru::to_string(value)));
  sources.flags = {{"out", (request.out / run.directory).string()}};
  if (!request.device.empty()) sources.flags.emplace_back("device", request.device);
  try {
    return resolve_config(sources, training::cell_defaults);
  } catch (const Error& error) {
    throw Error(fmt::format("experiment {}, {}: {}", run.experiment,
                            run.directory.filename().string(), error.what()));
  }
}

std::int64_t parameters_of(const training::RunConfig& config) {
  const tasks::Widths widths = tasks::find_task(config.task).widths;
  return count_parameters({.cell = config.cell,
                           .cell_options = config.cell_options,
                           .input_size = widths.input,
                           .output_size = widths.output,
                           .embedding_size = widths.embedding});
}

Job make_job(const PlannedRun& run, const GridRequest& request, TaskTable& table) {
  Job job;
  job.run = run;
  if (!request.device.empty()) job.run.settings["device"] = request.device;
  job.config = resolve(job.run, request);
  job.kind = {job.config.task, job.config.cell};
  const TaskFacts facts = table.find(job.config);
  job.updates_per_epoch = facts.updates_per_epoch;
  job.problem = facts.problem;
  job.updates =
      job.config.epochs > 0 ? job.config.epochs * facts.updates_per_epoch : job.config.updates;
  if (request.most_updates && job.updates > *request.most_updates) {
    job.updates = *request.most_updates;
    job.run.settings.erase("epochs");
    job.run.settings["updates"] = job.updates;
    job.config = resolve(job.run, request);
  }
  job.cost_per_update = facts.positions * static_cast<double>(parameters_of(job.config));
  return job;
}

std::vector<const Experiment*> select(const std::vector<Experiment>& experiments,
                                      const std::vector<std::string>& names) {
  std::vector<const Experiment*> selected;
  for (const std::string& name : names) {
    if (name == "all") {
      for (const Experiment& experiment : experiments) selected.push_back(&experiment);
    } else {
      selected.push_back(&find_experiment(experiments, name));
    }
  }
  return selected;
}

bool is_wanted(const std::string& name, const std::vector<std::string>& wanted) {
  return wanted.empty() || std::find(wanted.begin(), wanted.end(), name) != wanted.end();
}

// Throws for a name that none of these experiments has.
void check_variants(const std::vector<const Experiment*>& experiments,
                    const std::vector<std::string>& names) {
  std::vector<std::string> known;
  for (const Experiment* experiment : experiments) {
    const std::vector<std::string> own = variant_names(*experiment);
    known.insert(known.end(), own.begin(), own.end());
  }
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw Error(fmt::format("unknown variant '{}'{}", name, did_you_mean(name, known)));
  }
}

// Throws unless `out` is a folder that can be written to, or can become one.
void check_can_hold_runs(const fs::path& out) {
  std::error_code ignored;
  fs::path there = fs::absolute(out);
  while (there.has_relative_path() &&
         fs::symlink_status(there, ignored).type() == fs::file_type::not_found)
    there = there.parent_path();
  if (!fs::is_directory(there, ignored))
    throw Error(fmt::format("{} is not a folder; choose another --out", there.string()));
  if (::access(there.c_str(), W_OK | X_OK) != 0)
    throw Error(fmt::format("cannot write to {}: {}; choose another --out", there.string(),
                            std::strerror(errno)));
}

}  // namespace

std::vector<Job> make_grid(const std::vector<Experiment>& experiments, const GridRequest& request) {
  std::vector<Job> jobs;
  std::map<std::string, std::size_t> by_name;
  TaskTable table;
  const std::vector<const Experiment*> selected = select(experiments, request.names);
  for (const std::string& cell : request.cells) find_cell(cell);  // throws for a slip
  check_variants(selected, request.variants);
  for (const Experiment* experiment : selected) {
    const bool looks_inside = experiment->figure == FigureKind::heatmap ||
                              experiment->figure == FigureKind::groups ||
                              experiment->figure == FigureKind::lags;
    for (const PlannedRun& run : plan_shown(experiments, *experiment, request.selection)) {
      if (!is_wanted(run.cell, request.cells) || !is_wanted(run.variant, request.variants))
        continue;
      const auto [found, is_new] = by_name.emplace(run.directory.string(), jobs.size());
      if (is_new) jobs.push_back(make_job(run, request, table));
      if (looks_inside && request.inspect) jobs[found->second].inspect = true;
    }
  }
  if (jobs.empty()) {
    std::vector<std::string> asked = request.cells;
    asked.insert(asked.end(), request.variants.begin(), request.variants.end());
    throw Error(
        fmt::format("there are no runs of {} in {}; nru reproduce --list --json shows the "
                    "cells and variants of each experiment",
                    fmt::join(asked, ", "), fmt::join(request.names, ", ")));
  }
  return jobs;
}

void check_surroundings(const std::vector<Job>& jobs, const fs::path& out) {
  std::string problem;
  bool any_left = false, any_can_run = false;
  for (const Job& job : jobs) {
    if (look_at(job).training_over()) continue;
    if (!any_left) check_can_hold_runs(out);
    any_left = true;
    training::require_device(job.config.device);
    if (job.problem.empty()) any_can_run = true;
    if (problem.empty()) problem = job.problem;
  }
  if (!any_can_run && !problem.empty()) throw Error(problem);
}

}  // namespace nru::cli
