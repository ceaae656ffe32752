// The configuration of one run: from TOML files, `--set key=value` and flags to a RunConfig in
// which every value is known, and back to the config.toml that repeats the run.
//
// The first of these that has a value for a key wins: flags, `--set` (the last of a key), the file,
// the preset's settings for this cell and task (any key), the cell's own (its sizes for the task's
// class), the task's, the general defaults. Which keys exist comes from the tables of tasks and
// cells; the latter is passed in as plain data (CellLookup), so that nothing here needs torch.
//
// Options belong to what they were written for: where a flag or `--set` names another cell (task,
// preset) than the file, the file's cell.* (task_options.* and lag; kPresetKeys) are dropped with
// it, and cell.chrono_t_max with the lag it follows. `updates` and `epochs` replace each other in
// the same way.
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
      sizes_by_class;   // TaskInfo::size_class -> cell options that differ from the specs
  bool clip = true;     // false: no gradient clipping unless asked for
  bool chrono = false;  // true: chrono_t_max defaults to the task's longest dependency
  // Settings by preset, then by "TASK@LAG" or "TASK": the authors' of a cell differ between the
  // lags of one task. Keys as in `nru train --set`, all of them of kPresetKeys.
  std::map<std::string, std::map<std::string, OptionMap>> presets;
};

// Every key that some preset sets: what goes when another preset is named.
inline constexpr const char* kPresetKeys[] = {
    "learning_rate", "clip_norm",        "clip_state",          "amsgrad", "anneal", "average",
    "cell.overflow", "cell.write_limit", "task_options.dropout"};

// Gives the cell of that name, or throws nru::Error with the nearest name.
using CellLookup = std::function<CellDefaults(const std::string& name)>;

struct RunConfig {
  std::string task;
  std::string cell;
  std::string preset = "paper";  // paper | authors | recommended
  std::int64_t seed = 1;
  std::int64_t updates = 0;  // exactly one of updates and epochs is positive
  std::int64_t epochs = 0;
  std::int64_t batch_size = 0;
  std::int64_t lag = 0;               // T; 0 for tasks without one
  std::string device = "cpu";         // cpu | cuda | cuda:N
  std::int64_t threads = 0;           // 0: all cores
  std::string backend = "fused";      // fused | reference
  std::string precision = "float32";  // of large products on a GPU: float32 | tf32
  double learning_rate = 1e-3;
  double clip_norm = 1.0;  // 0: no clipping
  double clip_state = 0;   // largest norm of a row's gradient for its state, at any step; 0: any
  bool amsgrad = false;
  double adam_beta2 = 0.999;  // decay of the second moments
  double anneal = 0;     // share of the run, at its end, over which the step size falls to zero
  double average = 0;    // decay of the weights' moving average, for evaluation; 0: none
  bool recover = false;  // go back to good weights where training explodes (recovery.h)
  std::int64_t log_every = 10;
  std::int64_t evaluate_every =
      0;  // updates; 0: after each epoch, or only at the end where there are none
  std::int64_t checkpoint_every = 1000;  // updates; 0: only at the end and on signals
  bool stop_when_solved = false;
  bool stop_when_settled = false;
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
  std::string text;  // as typed, for `--set` and flags: "123" may be meant as a string
};
using GivenValues = std::map<std::string, GivenValue>;

struct ConfigSources {
  std::optional<std::filesystem::path> file;
  std::vector<std::string> sets;  // "key=value", in the order given
  std::vector<std::pair<std::string, std::string>>
      flags;  // key, text: {"lag", "100"} for `--lag 100`
};

// Everything the sources say and the tables leave open, checked as far as the tables can tell; what
// only a made task or cell can know (an impossible combination of sizes) it says itself, so make
// both before the run directory. Throws nru::Error for unknown keys
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
