// Names of an experiment's kinds, where the files lie, and the runs that follow from them.
#include "experiments/definition.h"

#include <fmt/format.h>
#include <nru/error.h>

#include <algorithm>
#include <set>

#include "support/suggest.h"
#include "support/text_file.h"

namespace nru::experiments {
namespace {

namespace fs = std::filesystem;

bool has_runs(const Experiment& experiment) { return !experiment.run.empty(); }

// `updates` and `epochs` are two ways to say the same thing: the later one counts.
void overlay(OptionMap& base, const OptionMap& over) {
  if (over.contains("updates")) base.erase("epochs");
  if (over.contains("epochs")) base.erase("updates");
  for (const auto& [key, value] : over) base[key] = value;
}

OptionMap settings_of(const Experiment& experiment, const std::string& cell, const Variant& variant,
                      std::int64_t seed, bool quick) {
  OptionMap settings = experiment.run;
  if (const auto own = experiment.run_by_cell.find(cell); own != experiment.run_by_cell.end())
    overlay(settings, own->second);
  overlay(settings, variant.settings);
  if (quick) overlay(settings, experiment.quick);
  settings["cell"] = cell;
  settings["seed"] = seed;
  return settings;
}

bool left_out(const Experiment& experiment, const Variant& variant, const Selection& selection) {
  const auto& wanted = experiment.quick_variants;
  return selection.quick && !wanted.empty() &&
         std::find(wanted.begin(), wanted.end(), variant.name) == wanted.end();
}

std::vector<std::int64_t> seeds_of(const Experiment& experiment, const std::string& cell,
                                   const Selection& selection) {
  const auto own = experiment.seeds_by_cell.find(cell);
  std::vector<std::int64_t> seeds =
      own == experiment.seeds_by_cell.end() ? experiment.seeds : own->second;
  if (selection.seeds) {
    seeds.clear();
    for (std::int64_t seed = 1; seed <= *selection.seeds; ++seed) seeds.push_back(seed);
  } else if (selection.quick) {
    seeds = experiment.quick_seeds.empty() ? std::vector{seeds.front()} : experiment.quick_seeds;
  }
  return seeds;
}

}  // namespace

const std::vector<std::string>& metric_names() {
  static const std::vector<std::string> names = {
      "solved_at",       "solved_at_1pct", "best_loss",     "final_loss",  "baseline_ratio",
      "spikes",          "bursts",         "valid_drop",    "blank_share", "far_accuracy",
      "early_grad_norm", "valid_accuracy", "test_accuracy", "valid_bpc",   "test_bpc",
      "seconds",         "parameters",     "top1",          "top2"};
  return names;
}

std::vector<Experiment> load_experiments(const fs::path& folder) {
  std::error_code failure;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder, failure)) {
    if (entry.path().extension() == ".toml") files.push_back(entry.path());
  }
  if (failure) {
    throw Error(fmt::format("cannot read the experiments in {}: {}; check --experiments",
                            folder.string(), failure.message()));
  }
  if (files.empty()) {
    throw Error(fmt::format("there are no experiments (*.toml) in {}; check --experiments",
                            folder.string()));
  }
  std::sort(files.begin(), files.end());
  std::vector<Experiment> experiments;
  std::vector<std::string> names;
  for (const fs::path& file : files) {
    experiments.push_back(parse_experiment(read_text_file(file, "experiment"), file));
    names.push_back(experiments.back().name);
  }
  std::stable_partition(experiments.begin(), experiments.end(),
                        [](const Experiment& e) { return !e.paper.empty(); });
  for (const Experiment& experiment : experiments) {
    for (const std::string& used : experiment.uses) {
      if (std::find(names.begin(), names.end(), used) == names.end()) {
        throw Error(fmt::format("{}: 'uses' names the unknown experiment '{}'{}",
                                (folder / (experiment.name + ".toml")).string(), used,
                                did_you_mean(used, names)));
      }
    }
  }
  return experiments;
}

fs::path find_experiments(const fs::path& given) {
  std::error_code ignored;
  if (!given.empty()) {
    if (fs::is_directory(given, ignored)) return given;
    throw Error(fmt::format(
        "{} is not a folder; --experiments names the folder of the *.toml files", given.string()));
  }
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  const fs::path installed = program.parent_path().parent_path() / "share/nru/experiments";
  for (const fs::path& folder : {installed, fs::path(NRU_EXPERIMENTS_DIR)}) {
    if (fs::is_directory(folder, ignored)) return folder;
  }
  throw Error(
      fmt::format("the paper's experiments are neither in {} nor in {}; name their folder "
                  "with --experiments",
                  installed.string(), NRU_EXPERIMENTS_DIR));
}

std::vector<std::string> variant_names(const Experiment& experiment) {
  std::vector<std::string> names;
  for (const Variant& variant : experiment.variants)
    if (!variant.name.empty()) names.push_back(variant.name);
  return names;
}

const Experiment& find_experiment(const std::vector<Experiment>& experiments,
                                  const std::string& name) {
  std::vector<std::string> names;
  for (const Experiment& experiment : experiments) {
    if (experiment.name == name) return experiment;
    names.push_back(experiment.name);
  }
  throw Error(fmt::format("unknown experiment '{}'{}", name, did_you_mean(name, names)));
}

std::vector<PlannedRun> plan(const Experiment& experiment, const Selection& selection) {
  std::vector<PlannedRun> runs;
  if (!has_runs(experiment)) return runs;
  const auto& cells = selection.quick && !experiment.quick_cells.empty() ? experiment.quick_cells
                                                                         : experiment.cells;
  for (const std::string& cell : cells) {
    for (const Variant& variant : experiment.variants) {
      if (left_out(experiment, variant, selection)) continue;
      for (const std::int64_t seed : seeds_of(experiment, cell, selection)) {
        PlannedRun run;
        run.experiment = experiment.name;
        run.cell = cell;
        run.variant = variant.name;
        run.seed = seed;
        run.settings = settings_of(experiment, cell, variant, seed, selection.quick);
        run.directory =
            fs::path(experiment.name) /
            fmt::format("{}{}{}-seed{}", cell, variant.name.empty() ? "" : "-", variant.name, seed);
        runs.push_back(std::move(run));
      }
    }
  }
  return runs;
}

std::vector<PlannedRun> plan_shown(const std::vector<Experiment>& experiments,
                                   const Experiment& experiment, const Selection& selection) {
  std::vector<PlannedRun> runs = plan(experiment, selection);
  const std::set<std::string> cells(experiment.cells.begin(), experiment.cells.end());
  for (const std::string& name : experiment.uses) {
    for (PlannedRun& run : plan(find_experiment(experiments, name), selection)) {
      if (cells.empty() || cells.contains(run.cell)) runs.push_back(std::move(run));
    }
  }
  return runs;
}

}  // namespace nru::experiments
