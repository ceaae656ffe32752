#include "report/collection.h"

#include <fmt/format.h>
#include <nru/error.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "support/words.h"
#include "training/run_directory.h"

namespace nru::report {
namespace {

namespace fs = std::filesystem;
using experiments::Experiment;
using experiments::PlannedRun;

std::vector<std::string> folders_in(const fs::path& path) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(path, ignored)) {
    if (entry.is_directory(ignored)) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool is_run(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(training::RunPaths{path}.config(), ignored);
}

// Files of a run, but not what it was about.
bool is_nameless(const fs::path& path) {
  const training::RunPaths paths{path};
  std::error_code ignored;
  return !is_run(path) &&
         (fs::exists(paths.result(), ignored) || fs::exists(paths.metrics(), ignored));
}

// "nru-m144-seed3" by the experiment's cells and variants; false when it is none of them.
bool parse_name(const std::string& name, const Experiment& experiment, Run& run) {
  const std::size_t at = name.rfind("-seed");
  if (at == std::string::npos) return false;
  const char *first = name.data() + at + 5, *last = name.data() + name.size();
  const auto number = std::from_chars(first, last, run.seed);
  if (number.ec != std::errc{} || number.ptr != last) return false;
  const std::string base = name.substr(0, at);
  for (const std::string& cell : experiment.cells) {
    for (const experiments::Variant& variant : experiment.variants) {
      if (base != cell + (variant.name.empty() ? "" : "-" + variant.name)) continue;
      run.cell = cell;
      run.variant = variant.name;
      return true;
    }
  }
  return false;
}

std::string text_of(const training::GivenValues& settings, const std::string& key) {
  const auto found = settings.find(key);
  if (found == settings.end()) return "";
  const auto* text = std::get_if<std::string>(&found->second.value);
  return text != nullptr ? *text : nru::to_string(found->second.value);
}

std::optional<double> number(const OptionValue& value) {
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(&value)) return *real;
  return std::nullopt;
}

// 1 and 1.0 are the same setting.
bool same(const OptionValue& a, const OptionValue& b) {
  return a == b || (number(a) && number(a) == number(b));
}

// What the run was given that the experiment says otherwise: a quick or a shortened run. How it was
// watched and where it ran makes no other run of it.
void find_deviations(Run& run, const OptionMap& planned) {
  static const std::set<std::string> free = {"cell",
                                             "seed",
                                             "out",
                                             "threads",
                                             "device",
                                             "evaluate_every",
                                             "log_every",
                                             "time_limit",
                                             "checkpoint_every",
                                             "stop_when_settled",
                                             "stop_when_solved",
                                             "task_options.data",
                                             "task_options.text"};
  const training::GivenValues given = settings_of(run);
  for (const auto& [key, value] : planned) {
    const auto own = given.find(key);
    if (free.contains(key) || own == given.end() || same(own->second.value, value)) continue;
    if (key != "updates" && key != "epochs") {
      run.comparable = false;
    } else if (number(own->second.value).value_or(0) < number(value).value_or(0)) {
      run.shortened = true;
    }
    if (key == "epochs" && same(own->second.value, std::int64_t{0})) {
      run.deviations.push_back(fmt::format("{} updates instead of {} epochs",
                                           text_of(given, "updates"), nru::to_string(value)));
    } else {
      run.deviations.push_back(fmt::format(
          "{} {} instead of {}", key, nru::to_string(own->second.value), nru::to_string(value)));
    }
  }
}

void read_experiment(Collection& collection, const Experiment& experiment) {
  std::map<std::string, Run> runs;  // by folder
  std::map<std::pair<std::string, std::string>, OptionMap> settings;
  for (const PlannedRun& planned : experiments::plan(experiment, {})) {
    Run run;
    run.cell = planned.cell;
    run.variant = planned.variant;
    run.seed = planned.seed;
    settings[{run.cell, run.variant}] = planned.settings;
    runs[planned.directory.filename().string()] = std::move(run);
  }
  for (const std::string& name : folders_in(collection.root / experiment.name)) {
    Run run;
    if (runs.contains(name) || name == kReportFolder) continue;
    if (parse_name(name, experiment, run)) {
      runs[name] = std::move(run);
    } else {
      collection.notes.push_back(
          fmt::format("{}/{} is no run of that experiment", experiment.name, name));
    }
  }
  for (auto& [name, run] : runs) {
    run.experiment = experiment.name;
    run.directory = collection.root / experiment.name / name;
    read_run(run);
    find_deviations(run, settings[{run.cell, run.variant}]);
    collection.runs.push_back(std::move(run));
  }
}

Experiment experiment_of(const std::string& name, const std::string& task, const std::string& lag) {
  Experiment experiment;
  experiment.name = name;
  experiment.title = lag.empty() || lag == "0" ? task : fmt::format("{}, T = {}", task, lag);
  experiment.note = "Runs outside the paper's experiments.";
  experiment.figure = experiments::FigureKind::curves;
  experiment.variants.emplace_back();
  return experiment;
}

// Run directories that lie in the folder itself, by task and lag.
void read_own(Collection& collection) {
  const auto leave_out = [&](const fs::path& directory, const char* why) {
    const bool root = directory == collection.root;
    const std::string name = (root ? directory : directory.filename()).string();
    collection.notes.push_back(fmt::format("{}: {}, left out", name, why));
  };
  std::vector<fs::path> directories;
  const auto consider = [&](const fs::path& directory) {
    if (is_run(directory)) {
      directories.push_back(directory);
    } else if (is_nameless(directory)) {
      leave_out(directory, "no config.toml");
    }
  };
  consider(collection.root);
  for (const std::string& name : folders_in(collection.root)) consider(collection.root / name);
  std::map<std::string, Experiment> own;
  for (const fs::path& directory : directories) {
    Run run;
    run.directory = directory;
    read_run(run);
    const training::GivenValues settings = settings_of(run);
    run.cell = text_of(settings, "cell.name");
    if (run.cell.empty()) run.cell = text_of(settings, "cell");
    const std::string task = text_of(settings, "task"), lag = text_of(settings, "lag");
    if (task.empty() || run.cell.empty()) {
      leave_out(directory, "its config.toml names no task and cell");
      continue;
    }
    const auto seed = settings.find("seed");
    if (seed != settings.end()) run.seed = std::llround(number(seed->second.value).value_or(0));
    if (run.result) run.seed = run.result->seed;
    run.experiment = fmt::format("own-{}{}", task, lag.empty() || lag == "0" ? "" : "-" + lag);
    Experiment& experiment =
        own.try_emplace(run.experiment, experiment_of(run.experiment, task, lag)).first->second;
    if (!run.measures.baseline && !run.valid.empty()) {
      experiment.figure = experiments::FigureKind::validation;
    }
    if (std::ranges::find(experiment.cells, run.cell) == experiment.cells.end()) {
      experiment.cells.push_back(run.cell);
    }
    collection.runs.push_back(std::move(run));
  }
  for (auto& [name, experiment] : own) collection.experiments.push_back(std::move(experiment));
}

// Given without its runs' common folder: "nru report runs/copy-100".
void find_out_whose_folder(Collection& collection) {
  const fs::path root = fs::absolute(collection.root / "").lexically_normal().parent_path();
  const auto named =
      std::ranges::find(collection.experiments, root.filename().string(), &Experiment::name);
  if (named == collection.experiments.end() || is_run(root)) return;
  const auto is_of_it = [&](const Run& run) {
    Run ignored;
    return run.state != RunState::missing &&
           run.directory == collection.root / run.directory.filename() &&
           parse_name(run.directory.filename().string(), *named, ignored);
  };
  if (std::ranges::any_of(collection.runs, is_of_it)) collection.folder_of = named->name;
}

std::string label_of(const std::string& cell, const experiments::Variant& variant,
                     bool many_cells) {
  const std::string name = style_of(cell).label;
  const std::string& label = variant.label.empty() ? variant.name : variant.label;
  if (label.empty()) return name;
  return many_cells ? fmt::format("{}, {}", name, label) : label;
}

void add_series(const Collection& collection, const Experiment& from,
                const std::vector<std::string>& cells, std::vector<Series>& all) {
  std::vector<std::string> sorted = cells;
  std::ranges::stable_sort(sorted, {}, [](const std::string& cell) { return place_of(cell); });
  std::size_t index = 0;
  for (const std::string& cell : sorted) {
    for (const experiments::Variant& variant : from.variants) {
      Series series;
      series.key = variant.name.empty() ? cell : cell + "/" + variant.name;
      series.experiment = from.name;
      series.cell = cell;
      series.variant = variant.name;
      series.label = label_of(cell, variant, sorted.size() > 1);
      series.style =
          from.variants.size() > 1 && sorted.size() == 1 ? style_at(index++) : style_of(cell);
      for (const Run& run : collection.runs) {
        if (run.experiment == from.name && run.cell == cell && run.variant == variant.name) {
          series.runs.push_back(&run);
        }
      }
      std::ranges::sort(series.runs, {}, &Run::seed);
      all.push_back(std::move(series));
    }
  }
}

// Variants beside the cell as it is, which keeps its look: where all is about one cell they take
// other ones, else their cell's colour with strokes of their own.
void tell_apart(std::vector<Series>& all) {
  const auto is_plain = [&](const std::string& cell) {
    return std::ranges::any_of(
        all, [&](const Series& one) { return one.cell == cell && one.variant.empty(); });
  };
  const bool one_cell =
      std::ranges::all_of(all, [&](const Series& one) { return one.cell == all.front().cell; });
  std::size_t next = 0;
  for (Series& one : all) {
    if (one.variant.empty() || !is_plain(one.cell)) continue;
    const Style cell = style_of(one.cell);
    Style other = style_at(next++);
    if (other.color == cell.color) other = style_at(next++);
    one.style = one_cell ? other : cell;
    if (!one_cell) one.style.dash = cell.dash.empty() ? std::vector{8, 4} : std::vector<int>{};
  }
}

}  // namespace

std::vector<const Run*> Series::counted() const {
  std::vector<const Run*> found;
  std::ranges::copy_if(runs, std::back_inserter(found), &Run::counts);
  return found;
}

Series Series::comparable() const {
  Series same = *this;
  std::erase_if(same.runs, [](const Run* run) { return !run->comparable; });
  return same;
}

Collection read_collection(const fs::path& root, std::vector<Experiment> experiments) {
  std::error_code failure;
  if (!fs::is_directory(root, failure)) {
    throw Error(
        fmt::format("{} is not a folder of runs; give the --out of nru reproduce", root.string()));
  }
  Collection collection;
  collection.root = root;
  collection.experiments = std::move(experiments);
  for (const Experiment& experiment : collection.experiments) {
    if (!is_run(root / experiment.name)) read_experiment(collection, experiment);
  }
  read_own(collection);
  const auto there = [](const Run& run) { return run.state != RunState::missing; };
  if (std::ranges::none_of(collection.runs, there)) {
    const std::string notes =
        collection.notes.empty() ? "" : fmt::format(" ({})", fmt::join(collection.notes, "; "));
    throw Error(fmt::format("there are no runs in {}{}; make some with nru reproduce --out {}",
                            root.string(), notes, shell_word(root.string())));
  }
  find_out_whose_folder(collection);
  return collection;
}

std::vector<Series> series_of(const Collection& collection, const Experiment& experiment) {
  std::vector<Series> all;
  const bool own = std::ranges::any_of(
      collection.runs, [&](const Run& run) { return run.experiment == experiment.name; });
  if (own) add_series(collection, experiment, experiment.cells, all);
  for (const std::string& name : experiment.uses) {
    const Experiment& used = experiments::find_experiment(collection.experiments, name);
    std::vector<std::string> cells;
    std::ranges::copy_if(used.cells, std::back_inserter(cells), [&](const std::string& cell) {
      return experiment.cells.empty() ||
             std::ranges::find(experiment.cells, cell) != experiment.cells.end();
    });
    add_series(collection, used, cells, all);
  }
  tell_apart(all);
  return all;
}

}  // namespace nru::report
