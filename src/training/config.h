// The configuration of one run: from TOML files, `--set key=value` and flags to a RunConfig in
// which every value is known, and back to the config.toml that repeats the run.
//
// Values are found in this order, the first that has one wins: flags, `--set` (the last one of a
// key), the file, the preset's settings for this cell and task, the cell's settings (its sizes for
// the task's class; no clipping), the task's defaults, the general defaults. Who may set what comes
// from the tables of tasks and cells; the latter is passed in as plain data (CellLookup), so that
// nothing here needs torch.
//
// In TOML a name cannot be both a string and a table. `cell = "nru"` stands alone; with options it
// is
//   [cell]
//   name = "nru"
//   hidden_size = 80
// `--set` takes `cell=nru` and `cell.hidden_size=80`.
#pragma once

#include <nru/options.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tasks/task.h"

namespace nru::training {

// What a configuration needs to know about a cell.
struct CellDefaults {
  std::string name;
  std::vector<OptionSpec> options;  // keys under cell.
  std::map<std::string, OptionMap>
      sizes_by_class;  // TaskInfo::size_class -> cell options that differ from the specs
  bool clip = true;    // false: no gradient clipping unless asked for
  // Run keys (clip_norm, amsgrad, ...) of preset "authors". Looked up as "TASK@LAG", "TASK", then
  // size class: the authors' settings of a cell differ between the lags of one task.
  std::map<std::string, OptionMap> authors_preset;
};

// Gives the cell of that name, or throws nru::Error with the nearest name.
using CellLookup = std::function<CellDefaults(const std::string& name)>;

struct RunConfig {
  std::string task;
  std::string cell;
  std::string preset = "paper";  // paper | authors
  std::int64_t seed = 1;
  std::int64_t updates = 0;  // exactly one of updates and epochs is positive
  std::int64_t epochs = 0;
  std::int64_t batch_size = 0;
  std::int64_t lag = 0;           // T; 0 for tasks without one
  std::string device = "cpu";     // cpu | cuda | cuda:N
  std::int64_t threads = 0;       // 0: all cores
  std::string backend = "fused";  // fused | reference
  double learning_rate = 0;
  double clip_norm = 0;  // 0: no clipping
  bool amsgrad = false;
  std::int64_t log_every = 10;
  std::int64_t evaluate_every =
      0;  // updates; 0: after each epoch, or only at the end where there are none
  std::int64_t checkpoint_every = 0;  // updates; 0: only at the end and on signals
  bool stop_when_solved = false;
  double time_limit = 0;  // seconds of this process; 0: none
  std::string out;
  OptionMap cell_options;  // cell.*, every key present
  OptionMap task_options;  // task_options.*, every key present

  bool operator==(const RunConfig&) const = default;
};

// A value given for a key, and where: "run.toml:3", "--set", "--lag".
struct GivenValue {
  OptionValue value;
  std::string origin;
};
using GivenValues = std::map<std::string, GivenValue>;

struct ConfigSources {
  std::optional<std::filesystem::path> file;
  std::vector<std::string> sets;  // "key=value", in the order given
  std::vector<std::pair<std::string, std::string>>
      flags;  // key, text: {"lag", "100"} for `--lag 100`
};

// Everything the sources say and the tables leave open, checked. Throws nru::Error for unknown keys
// (with the nearest one and the place), wrong types, values out of range and unreadable files.
RunConfig resolve_config(const ConfigSources& sources, const CellLookup& find_cell);

// The keys of a TOML text, flat ("cell.hidden_size"), unchecked; `name` stands for the file in
// origins and errors.
GivenValues read_flat_toml(const std::string& text, const std::string& name);

// All settings under their flat keys. "cell.name" and not "cell" holds the cell's name, as in the
// file.
OptionMap flatten(const RunConfig& config);

// config.toml: every key explicit; resolve_config reads it back to an equal RunConfig.
std::string to_toml(const RunConfig& config);

// What the task is made from.
tasks::TaskSettings task_settings(const RunConfig& config);

// The run keys with their types, general defaults and help: for `nru train --help` and the
// documentation.
const std::vector<OptionSpec>& run_keys();

}  // namespace nru::training
