// The command line of `nru train`: flags become configuration sources, unchecked. Whether a value
// makes sense is for the configuration to say, with the same words for flags, --set and files.
#include "cli/train.h"

#include <fmt/format.h>
#include <nru/error.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>

#include "cli/commands.h"
#include "cli/text.h"
#include "training/run_directory.h"

namespace nru::cli {
namespace {

using training::ConfigSources;

// Run keys that have a flag of their own; the others go through --set.
struct Flag {
  const char* key;
  const char* value;
};
constexpr Flag kFlags[] = {
    {"task", "NAME"},   {"cell", "NAME"},          {"lag", "T"},
    {"seed", "N"},      {"updates", "N"},          {"preset", "NAME"},
    {"device", "NAME"}, {"threads", "N"},          {"backend", "NAME"},
    {"out", "DIR"},     {"time_limit", "SECONDS"},
};

struct Given {
  std::map<std::string, std::string> flags;  // by key; declared ones that were not given are empty
  std::string config;
  std::vector<std::string> sets;
  bool stop_when_solved = false, resume = false, json = false, quiet = false;
};

std::string help_of(const std::string& key) {
  const auto& keys = training::run_keys();
  const auto found =
      std::find_if(keys.begin(), keys.end(), [&](const OptionSpec& s) { return s.key == key; });
  std::string help = found->help;
  if (!found->choices.empty()) help += fmt::format(" ({})", fmt::join(found->choices, ", "));
  return help;
}

std::string flag_of(std::string key) {
  std::replace(key.begin(), key.end(), '_', '-');
  return "--" + key;
}

void declare(CLI::App& command, Given& given) {
  for (const Flag& flag : kFlags) {
    command.add_option(flag_of(flag.key), given.flags[flag.key], help_of(flag.key))
        ->type_name(flag.value)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
        ->check(CLI::Validator(not_a_flag, ""));
  }
  command.add_option("--config", given.config, "TOML file; flags and --set come before it")
      ->type_name("FILE")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->check(CLI::Validator(not_a_flag, ""));
  command
      .add_option("--set", given.sets,
                  "any key of the configuration, such as cell.hidden_size=40; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command.add_flag("--resume", given.resume, "go on with the run in --out");
  command.add_flag("--stop-when-solved", given.stop_when_solved, help_of("stop_when_solved"));
  command.add_flag("--json", given.json, "print result.json instead of a summary");
  command.add_flag("--quiet", given.quiet, "no progress and no summary");
}

bool names_a_run(const ConfigSources& sources) {
  const auto named = [](const std::string& key) { return key == "task" || key == "cell"; };
  return sources.file ||
         std::any_of(sources.flags.begin(), sources.flags.end(),
                     [&](const auto& flag) { return named(flag.first); }) ||
         std::any_of(sources.sets.begin(), sources.sets.end(),
                     [&](const std::string& set) { return named(set.substr(0, set.find('='))); });
}

// A run's own configuration is all it takes to go on with it.
std::filesystem::path config_of_run(const std::string& directory) {
  if (directory.empty()) {
    throw Error("--resume needs the run to go on with; add --out DIR, or --task and --cell");
  }
  const std::filesystem::path config = training::RunPaths{directory}.config();
  if (!std::filesystem::exists(config)) {
    throw Error(fmt::format(
        "there is no run to go on with in {} (no config.toml); check --out, or name --task and "
        "--cell to start one",
        directory));
  }
  return config;
}

TrainArguments arguments_of(const CLI::App& command, const Given& given) {
  TrainArguments arguments;
  ConfigSources& sources = arguments.sources;
  sources.sets = given.sets;
  for (const Flag& flag : kFlags) {
    if (command.count(flag_of(flag.key)) > 0)
      sources.flags.emplace_back(flag.key, given.flags.at(flag.key));
  }
  if (given.stop_when_solved) sources.flags.emplace_back("stop_when_solved", "true");
  if (command.count("--config") > 0) sources.file = given.config;
  if (given.resume && !names_a_run(sources)) sources.file = config_of_run(given.flags.at("out"));
  arguments.resume = given.resume;
  arguments.json = given.json;
  arguments.quiet = given.quiet;
  return arguments;
}

}  // namespace

void add_train(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("train", "Train a network on a task");
  const auto given = std::make_shared<Given>();
  declare(*command, *given);
  command->footer(R"(Files go to --out, or else to runs/TASK-LAG-CELL-seedN:
  config.toml, metrics.csv, checkpoint.safetensors, best.safetensors, result.json

Examples:
  nru train --task copy --cell nru
  nru train --task copy --cell nru --preset recommended   what did best here, not the paper's
  nru train --task copy --cell nru --preset authors --stop-when-solved
  nru train --task copy --cell nru --set cell.memory_size=100 --set clip_norm=0.5 --out runs/m100
  nru train --resume --out runs/m100                      go on where it stopped
  nru train --resume --out runs/m100 --updates 400000     and further
  nru train --resume --out runs/m100 --device cuda        on another device, with other rounding
  nru train --config runs/m100/config.toml --out runs/again   repeats it bit for bit

nru list NAME shows the options of a cell or task, nru list --options all keys.)");
  command->callback([command, given, &invocation] {
    invocation.run = [command, given] { return train(arguments_of(*command, *given)); };
  });
}

}  // namespace nru::cli
