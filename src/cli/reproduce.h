// `nru reproduce`: its arguments, and what it prints about experiments, plans and outcomes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/grid.h"
#include "experiments/scheduler.h"

namespace nru::cli {

struct ReproduceArguments {
  std::vector<std::string> names;
  std::string experiments, out, device;  // empty: the default
  bool quick = false, dry_run = false, json = false, list = false;
  bool worker = false;  // all runs in one process, also on the CPU
  std::vector<std::string> cells, variants;
  std::optional<std::int64_t> seeds, jobs, updates;
  double time_limit = 0;
  bool can_inspect = false, can_report = false;  // what else this program knows

  std::filesystem::path root() const;  // of the runs
  std::string command() const;         // that goes on where this one stops
};

int reproduce(const ReproduceArguments& arguments);

// The experiments with their titles and numbers of runs.
std::string experiments_text(const std::vector<experiments::Experiment>& experiments);
// The same as a JSON array, in text.
std::string experiments_json(const std::vector<experiments::Experiment>& experiments);

// What there is to do, run by run.
std::string plan_text(const std::vector<experiments::Job>& jobs);
std::string plan_json(const std::vector<experiments::Job>& jobs);

// What came of it.
std::string outcome_text(const std::vector<experiments::Job>& jobs,
                         const experiments::GridOutcome& outcome,
                         const ReproduceArguments& arguments);
std::string outcome_json(const std::vector<experiments::Job>& jobs,
                         const experiments::GridOutcome& outcome);

}  // namespace nru::cli
