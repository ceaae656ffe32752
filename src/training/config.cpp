// From what the user gave and the tables say to one RunConfig: layering, defaults and checks.
#include "training/config.h"

#include <fmt/format.h>
#include <nru/error.h>

#include <algorithm>
#include <cfloat>
#include <string_view>

#include "support/suggest.h"
#include "support/text_file.h"
#include "support/utf8.h"
#include "tasks/registry.h"
#include "training/config_keys.h"

namespace nru::training {
namespace {

constexpr char kCellName[] = "cell.name";
constexpr char kChronoKey[] = "cell.chrono_t_max";

// Bounds of the numeric run keys. The upper ones are far beyond sense and only keep sizes from
// overflowing further down.
struct Range {
  double least;
  double most;
  const char* choose;
};
const std::map<std::string, Range> kRanges = {
    {"seed", {0, 9.3e18, "0 or more"}},
    {"updates", {0, 1e12, "0 or more (0: set epochs instead)"}},
    {"epochs", {0, 1e9, "0 or more (0: set updates instead)"}},
    {"batch_size", {1, 1e6, "1 to 1000000"}},
    {"lag", {0, 1e6, "1 to 1000000"}},
    {"threads", {0, 4096, "1 to 4096, or 0 for all cores"}},
    {"learning_rate", {DBL_MIN, 1e3, "a number above 0 and up to 1000, such as 0.001"}},
    {"clip_norm", {0, 1e30, "a number above 0 and up to 1e30, or 0 for no clipping"}},
    {"clip_state", {0, 1e30, "a number above 0 and up to 1e30, or 0 for no limit"}},
    {"adam_beta2", {0, 0.9999999, "0 to 0.9999999, such as 0.999"}},
    {"anneal", {0, 1, "0 for none, or up to 1, such as 0.5"}},
    {"average", {0, 0.999999, "0 for none, or up to 0.999999, such as 0.999"}},
    {"log_every", {1, 1e12, "1 or more"}},
    {"evaluate_every", {0, 1e12, "0 or more"}},
    {"checkpoint_every", {0, 1e12, "0 or more"}},
    {"time_limit", {0, 1e12, "seconds, or 0 for no limit"}},
};

// Runs `check` and puts the place of the value in front of whatever it complains about.
template <class Check>
auto located(const GivenValues& given, const std::string& key, Check check) {
  try {
    return check();
  } catch (const Error& error) {
    const auto found = given.find(key);
    if (found == given.end() || found->second.origin.empty()) throw;
    throw Error(fmt::format("{}: {}", found->second.origin, error.what()));
  }
}

const OptionSpec* find_spec(const std::vector<OptionSpec>& specs, std::string_view key) {
  const auto found = std::find_if(specs.begin(), specs.end(),
                                  [&](const OptionSpec& spec) { return spec.key == key; });
  return found == specs.end() ? nullptr : &*found;
}

// `cell` is a table in TOML; its name has a key of its own.
std::string canonical(const std::string& key) { return key == "cell" ? kCellName : key; }

GivenValues canonical_keys(const GivenValues& values) {
  GivenValues result;
  for (const auto& [key, value] : values) result[canonical(key)] = value;
  return result;
}

GivenValues parse_sets(const std::vector<std::string>& sets) {
  GivenValues values;
  for (const std::string& set : sets) {
    const std::string origin = "--set " + set;
    const std::size_t equals = set.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw Error(fmt::format("{}: write key=value, such as --set lag=200", origin));
    }
    const std::string key = canonical(set.substr(0, equals));
    GivenValue& given = values[key];
    given = {false, origin, set.substr(equals + 1)};
    given.value = located(values, key, [&] { return parse_option_value(given.text); });
  }
  return values;
}

GivenValues parse_flags(const std::vector<std::pair<std::string, std::string>>& flags) {
  GivenValues values;
  for (const auto& [name, text] : flags) {
    const OptionSpec* spec = find_spec(run_keys(), name);
    std::string shown = "--" + name;
    std::replace(shown.begin(), shown.end(), '_', '-');
    const std::string key = canonical(name);
    GivenValue& given = values[key];
    given = {text, shown, text};
    // A path or a name is what it is, quotes and all.
    const bool is_text =
        spec != nullptr && std::holds_alternative<std::string>(spec->default_value);
    if (!is_text) given.value = located(values, key, [&] { return parse_option_value(text); });
  }
  return values;
}

void erase_prefix(GivenValues& values, std::string_view prefix) {
  std::erase_if(values, [&](const auto& entry) { return entry.first.starts_with(prefix); });
}

bool is_positive(const GivenValues& values, const std::string& key) {
  const auto found = values.find(key);
  if (found == values.end()) return false;
  const auto* count = std::get_if<std::int64_t>(&found->second.value);
  return count != nullptr && *count > 0;
}

// Puts `over` on top of `base`; see config.h for what goes with a replaced cell, task or preset.
void overlay(GivenValues& base, const GivenValues& over) {
  const auto replaces = [&](const std::string& key) {
    return base.contains(key) && over.contains(key) && base.at(key).value != over.at(key).value;
  };
  if (replaces("task") || replaces("lag")) base.erase(kChronoKey);
  if (replaces(kCellName)) erase_prefix(base, kCellPrefix);
  if (replaces("task")) {
    erase_prefix(base, kTaskPrefix);
    base.erase("lag");
  }
  if (replaces("preset")) {
    for (const char* key : kPresetKeys) base.erase(key);
  }
  if (is_positive(over, "updates")) base.erase("epochs");
  if (is_positive(over, "epochs")) base.erase("updates");
  for (const auto& [key, value] : over) base[key] = value;
}

// The values under `prefix`, each checked against its spec at its own place.
OptionMap checked_part(const GivenValues& given, std::string_view prefix,
                       const std::vector<OptionSpec>& specs, const std::string& owner) {
  OptionMap part;
  for (const auto& [key, entry] : given) {
    if (!key.starts_with(prefix) || key == kCellName) continue;
    const std::string name = key.substr(prefix.size());
    OptionValue value = entry.value;
    const OptionSpec* spec = find_spec(specs, name);
    if (spec != nullptr && std::holds_alternative<std::string>(spec->default_value) &&
        !entry.text.empty() && !std::holds_alternative<std::string>(value)) {
      value = entry.text;
    }
    part[name] = located(given, key, [&] {
                   return resolve_options(specs, {{name, value}}, owner);
                 }).at(name);
  }
  return part;
}

// The run keys proper: those without a prefix.
OptionMap checked_run_keys(const GivenValues& given, const CellDefaults& cell,
                           const tasks::TaskInfo& task) {
  GivenValues plain;
  for (const auto& [key, entry] : given) {
    if (key.starts_with(kCellPrefix) || key.starts_with(kTaskPrefix)) continue;
    if (find_spec(run_keys(), key) == nullptr) {
      std::vector<std::string> known;
      for (const OptionSpec& spec : run_keys()) known.push_back(spec.key);
      std::string hint = did_you_mean(key, known);
      if (find_spec(cell.options, key)) hint = fmt::format("; did you mean 'cell.{}'?", key);
      if (find_spec(task.options, key))
        hint = fmt::format("; did you mean 'task_options.{}'?", key);
      throw Error(fmt::format("{}: unknown key '{}'{}", entry.origin, key, hint));
    }
    plain[key] = entry;
  }
  return checked_part(plain, "", run_keys(), "the run");
}

std::string required_name(const GivenValues& given, const std::string& key, const char* what) {
  const auto found = given.find(key);
  if (found == given.end()) {
    throw Error(fmt::format("no {0} was given; name one with --{0} or in the configuration", what));
  }
  if (const auto* name = std::get_if<std::string>(&found->second.value)) return *name;
  if (!found->second.text.empty()) return found->second.text;  // a name that looks like a number
  throw Error(fmt::format("{}: the {} must be a name, not {}", found->second.origin, what,
                          to_string(found->second.value)));
}

void overlay(OptionMap& base, const OptionMap& over) {
  for (const auto& [key, value] : over) base[key] = value;
}

OptionMap task_run_defaults(const tasks::RunDefaults& defaults) {
  return {{"updates", defaults.updates},
          {"epochs", defaults.epochs},
          {"batch_size", std::int64_t{defaults.batch_size}},
          {"lag", std::int64_t{defaults.lag.value_or(0)}},
          {"log_every", defaults.log_every},
          {"evaluate_every", defaults.evaluate_every},
          {"learning_rate", defaults.learning_rate},
          {"clip_norm", defaults.clip_norm},
          {"amsgrad", defaults.amsgrad}};
}

// The authors did nothing special in most of their runs; what nobody has tried cannot be
// recommended.
OptionMap preset_settings(const std::string& preset, std::int64_t lag, const CellDefaults& cell,
                          const tasks::TaskInfo& task) {
  if (const auto by_task = cell.presets.find(preset); by_task != cell.presets.end()) {
    for (const std::string& name : {fmt::format("{}@{}", task.name, lag), task.name}) {
      const auto found = by_task->second.find(name);
      if (found != by_task->second.end()) return found->second;
    }
  }
  if (preset == "recommended") {
    throw Error(fmt::format(
        "preset 'recommended' has no settings for cell {} on task {}; choose paper or authors",
        cell.name, task.name));
  }
  return {};
}

// Those under `prefix`, without it; with an empty prefix, the run keys.
OptionMap part_of(const OptionMap& settings, std::string_view prefix) {
  OptionMap part;
  for (const auto& [key, value] : settings) {
    const bool is_run_key = !key.starts_with(kCellPrefix) && !key.starts_with(kTaskPrefix);
    if (prefix.empty() ? is_run_key : key.starts_with(prefix))
      part[key.substr(prefix.size())] = value;
  }
  return part;
}

// Every run key, as long as nobody gives one.
OptionMap default_run_keys(const CellDefaults& cell, const tasks::TaskInfo& task) {
  OptionMap run = resolve_options(run_keys(), {}, "the run");
  overlay(run, task_run_defaults(task.defaults));
  if (!cell.clip) run["clip_norm"] = 0.0;
  return run;
}

// Every run key: the defaults, the preset and what was given, each on top of the one before.
OptionMap layered_run_keys(const OptionMap& given, const OptionMap& preset,
                           const CellDefaults& cell, const tasks::TaskInfo& task) {
  OptionMap run = default_run_keys(cell, task);
  overlay(run, part_of(preset, ""));
  const auto positive = [&](const char* key) {
    return given.contains(key) && get<std::int64_t>(given, key) > 0;
  };
  if (positive("updates")) run["epochs"] = std::int64_t{0};
  if (positive("epochs")) run["updates"] = std::int64_t{0};
  overlay(run, given);
  run["task"] = task.name;
  run["cell"] = cell.name;
  if (get<std::string>(run, "out").empty()) {
    const std::int64_t lag = get<std::int64_t>(run, "lag");
    const std::string preset = get<std::string>(run, "preset");
    run["out"] = fmt::format("runs/{}{}-{}{}-seed{}", task.name,
                             lag > 0 ? fmt::format("-{}", lag) : "", cell.name,
                             preset == "paper" ? "" : "-" + preset, get<std::int64_t>(run, "seed"));
  }
  return run;
}

void check_ranges(const OptionMap& run, const GivenValues& given) {
  for (const auto& [key, range] : kRanges) {
    const OptionValue& value = run.at(key);
    const double number = std::holds_alternative<double>(value)
                              ? std::get<double>(value)
                              : static_cast<double>(std::get<std::int64_t>(value));
    if (number >= range.least && number <= range.most) continue;  // false for NaN
    located(given, key, [&, key = key, range = range] {
      throw Error(
          fmt::format("{} {} is not possible; choose {}", key, to_string(value), range.choose));
    });
  }
}

void check_combinations(const RunConfig& config, const GivenValues& given,
                        const tasks::TaskInfo& task) {
  if ((config.updates > 0) == (config.epochs > 0)) {
    throw Error(config.updates > 0 ? "updates and epochs are both set; set one of them"
                                   : "updates and epochs are both 0; set one of them");
  }
  located(given, "epochs", [&] {
    if (config.epochs > 0 && task.defaults.epochs == 0) {
      throw Error(fmt::format("task {} makes its data as it goes and has no epochs; set updates",
                              task.name));
    }
  });
  located(given, "lag", [&] {
    if (!task.defaults.lag && config.lag != 0) {
      throw Error(fmt::format("task {} has no lag; remove the key", task.name));
    }
    if (task.defaults.lag && config.lag < 1) {
      throw Error(
          fmt::format("lag {} is not possible; choose {}", config.lag, kRanges.at("lag").choose));
    }
  });
  located(given, "device", [&] {
    const std::string_view device = config.device;
    const std::string_view number = device.starts_with("cuda:") ? device.substr(5) : "";
    const bool numbered = !number.empty() && number.size() <= 3 &&
                          number.find_first_not_of("0123456789") == std::string_view::npos;
    if (device != "cpu" && device != "cuda" && !numbered) {
      throw Error(fmt::format("device '{}' is not known; choose cpu, cuda or cuda:N", device));
    }
  });
}

// Where data lie must not depend on where a later command is called.
void make_paths_absolute(OptionMap& task_options, const tasks::TaskInfo& task) {
  for (const std::string& key : task.paths) {
    const auto path = get<std::string>(task_options, key);
    if (!path.empty()) task_options[key] = std::filesystem::absolute(path).string();
  }
}

// Such bytes could not be read back from config.toml.
void check_text(const RunConfig& config, const GivenValues& given) {
  for (const auto& [key, value] : flatten(config)) {
    const auto* text = std::get_if<std::string>(&value);
    if (text == nullptr || is_utf8(*text)) continue;
    located(given, key, [&, key = key] {
      throw Error(fmt::format("{} is not UTF-8; choose another name or value", key));
    });
  }
}

}  // namespace

RunConfig resolve_config(const ConfigSources& sources, const CellLookup& find_cell) {
  GivenValues given;
  if (sources.file) {
    const std::string text = read_text_file(*sources.file, "configuration");
    given = canonical_keys(read_flat_toml(text, sources.file->string()));
  }
  overlay(given, parse_sets(sources.sets));
  overlay(given, parse_flags(sources.flags));

  const std::string task_name = required_name(given, "task", "task");
  const tasks::TaskInfo& task =
      *located(given, "task", [&] { return &tasks::find_task(task_name); });
  const std::string cell_name = required_name(given, kCellName, "cell");
  const CellDefaults cell = located(given, kCellName, [&] { return find_cell(cell_name); });

  const OptionMap run_given = checked_run_keys(given, cell, task);
  OptionMap known = default_run_keys(cell, task);  // but for what the preset will say
  overlay(known, run_given);
  const OptionMap preset = located(given, "preset", [&] {
    return preset_settings(get<std::string>(known, "preset"), get<std::int64_t>(known, "lag"), cell,
                           task);
  });
  const OptionMap run = layered_run_keys(run_given, preset, cell, task);
  check_ranges(run, given);
  RunConfig config = from_run_keys(run);

  check_combinations(config, given, task);

  const std::string task_owner = "task " + task.name;
  config.task_options = part_of(preset, kTaskPrefix);
  overlay(config.task_options, checked_part(given, kTaskPrefix, task.options, task_owner));
  config.task_options = resolve_options(task.options, config.task_options, task_owner);
  make_paths_absolute(config.task_options, task);

  const std::string cell_owner = "cell " + cell.name;
  const auto sizes = cell.sizes_by_class.find(task.size_class);
  if (sizes != cell.sizes_by_class.end()) config.cell_options = sizes->second;
  if (cell.chrono) {
    config.cell_options["chrono_t_max"] = std::int64_t{task.chrono_t_max(task_settings(config))};
  }
  overlay(config.cell_options, part_of(preset, kCellPrefix));
  overlay(config.cell_options, checked_part(given, kCellPrefix, cell.options, cell_owner));
  config.cell_options = resolve_options(cell.options, config.cell_options, cell_owner);
  check_text(config, given);
  return config;
}

}  // namespace nru::training
