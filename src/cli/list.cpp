// `nru list`: what the tables of cells and tasks hold, with the sizes and the exact parameter
// counts that a run would have.
#include <fmt/format.h>
#include <nru/error.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "cells/model.h"
#include "cells/registry.h"
#include "cli/commands.h"
#include "cli/reproduce.h"
#include "cli/text.h"
#include "support/suggest.h"
#include "tasks/registry.h"
#include "training/progress.h"
#include "training/trainer.h"

namespace nru::cli {
namespace {

using Json = nlohmann::ordered_json;
using tasks::TaskInfo;
using training::format_count;

struct Given {
  std::string name;
  bool options = false;
  bool json = false;
};

training::RunConfig default_config(const TaskInfo& task, const CellInfo& cell) {
  training::ConfigSources sources;
  sources.flags = {{"task", task.name}, {"cell", cell.name}};
  return resolve_config(sources, training::cell_defaults);
}

// The loss of a predictor without memory, where the task defines one. Only tasks that make their
// data have a lag, so no file is read here.
std::optional<double> baseline_of(const TaskInfo& info) {
  if (!info.defaults.lag) return std::nullopt;
  const double baseline =
      info.make(task_settings(default_config(info, cells().front())))->baseline();
  return baseline > 0 ? std::optional(baseline) : std::nullopt;
}

std::int64_t parameters_on(const TaskInfo& info, const CellInfo& cell) {
  return count_parameters({.cell = cell.name,
                           .cell_options = default_config(info, cell).cell_options,
                           .input_size = info.widths.input,
                           .output_size = info.widths.output,
                           .embedding_size = info.widths.embedding});
}

// The sizes of a cell by the tasks' size classes, as a run gets them.
std::vector<std::pair<std::string, OptionMap>> sizes_of(const CellInfo& cell) {
  std::set<std::string> classes;
  for (const TaskInfo& task : tasks::tasks()) classes.insert(task.size_class);
  std::vector<std::pair<std::string, OptionMap>> sizes;
  for (const auto& [size_class, options] : cell.sizes) {
    if (classes.contains(size_class)) sizes.emplace_back(size_class, options);
  }
  return sizes;
}

Json json_of(const OptionValue& value) {
  return std::visit([](const auto& v) { return Json(v); }, value);
}

Json json_of(const OptionMap& options) {
  Json json = Json::object();
  for (const auto& [key, value] : options) json[key] = json_of(value);
  return json;
}

Json json_of(const std::vector<OptionSpec>& specs) {
  Json json = Json::array();
  for (const OptionSpec& spec : specs) {
    Json option = {
        {"key", spec.key}, {"default", json_of(spec.default_value)}, {"help", spec.help}};
    if (!spec.choices.empty()) option["choices"] = spec.choices;
    json.push_back(option);
  }
  return json;
}

Json json_of(const CellInfo& cell) {
  Json parameters = Json::object(), sizes = Json::object();
  for (const TaskInfo& info : tasks::tasks()) {
    parameters[info.name] = parameters_on(info, cell);
  }
  for (const auto& [size_class, options] : sizes_of(cell)) sizes[size_class] = json_of(options);
  return {{"name", cell.name},
          {"parameters", parameters},
          {"summary", cell.summary},
          {"sizes", sizes},
          {"options", json_of(cell.options)}};
}

Json json_of(const TaskInfo& info) {
  const auto& defaults = info.defaults;
  const auto baseline = baseline_of(info);
  return {{"name", info.name},
          {"summary", info.summary},
          {"size_class", info.size_class},
          {"input_size", info.widths.input},
          {"embedding_size", info.widths.embedding},
          {"output_size", info.widths.output},
          {"lag", defaults.lag ? Json(*defaults.lag) : Json(nullptr)},
          {"batch_size", defaults.batch_size},
          {"updates", defaults.updates},
          {"epochs", defaults.epochs},
          {"baseline_loss", baseline ? Json(*baseline) : Json(nullptr)},
          {"options", json_of(info.options)}};
}

// The paper's experiments; none where the program was moved away from them.
std::vector<experiments::Experiment> paper() {
  try {
    return experiments::load_experiments(experiments::find_experiments());
  } catch (const Error&) {
    return {};
  }
}

std::string json_text(bool options) {
  Json json = {{"cells", Json::array()}, {"tasks", Json::array()}, {"experiments", Json::array()}};
  for (const CellInfo& cell : cells()) json["cells"].push_back(json_of(cell));
  for (const TaskInfo& task : tasks::tasks()) json["tasks"].push_back(json_of(task));
  json["experiments"] = Json::parse(experiments_json(paper()));
  if (options) json["keys"] = json_of(training::run_keys());
  return json.dump(2) + "\n";
}

std::string settings_text(const OptionMap& settings) {
  std::vector<std::string> parts;
  for (const auto& [key, value] : settings) parts.push_back(key + "=" + to_string(value));
  return fmt::format("{}", fmt::join(parts, " "));
}

std::string length_text(const tasks::RunDefaults& defaults) {
  return defaults.epochs > 0 ? fmt::format("{} epochs", format_count(defaults.epochs))
                             : fmt::format("{} updates", format_count(defaults.updates));
}

std::string cells_text() {
  std::vector<std::string> header{"cell"};
  for (const TaskInfo& info : tasks::tasks()) header.push_back(info.name);
  std::vector<std::vector<std::string>> rows{header};
  std::vector<bool> right(header.size(), true);
  right.front() = false;
  for (const CellInfo& cell : cells()) {
    std::vector<std::string> row{cell.name};
    for (const TaskInfo& info : tasks::tasks())
      row.push_back(format_count(parameters_on(info, cell)));
    row.push_back(cell.summary);
    rows.push_back(row);
  }
  return "Cells, and their parameters on each task:\n" + align(rows, right, "  ");
}

std::string all_sizes_text() {
  std::vector<std::vector<std::string>> rows;
  for (const CellInfo& cell : cells()) {
    for (const auto& [size_class, options] : sizes_of(cell))
      rows.push_back({cell.name, size_class, settings_text(options)});
  }
  return "Sizes of the cells by the tasks' size class:\n" + align(rows, {}, "  ");
}

std::string tasks_text() {
  std::vector<std::vector<std::string>> rows;
  for (const TaskInfo& info : tasks::tasks()) {
    const auto& defaults = info.defaults;
    rows.push_back({info.name, "sizes " + info.size_class,
                    defaults.lag ? fmt::format("lag {}", *defaults.lag) : "",
                    fmt::format("batch {}", defaults.batch_size), length_text(defaults),
                    info.summary});
  }
  return "Tasks:\n" + align(rows, {}, "  ");
}

std::string options_text(const std::string& title, const std::string& prefix,
                         const std::vector<OptionSpec>& specs) {
  if (specs.empty()) return title + ": none\n";
  std::vector<std::vector<std::string>> rows;
  for (const OptionSpec& spec : specs) {
    std::string help = spec.help;
    if (!spec.choices.empty()) help += fmt::format(" ({})", fmt::join(spec.choices, ", "));
    rows.push_back({prefix + spec.key, to_string(spec.default_value), help});
  }
  return title + " (key, default, meaning):\n" + align(rows, {}, "  ");
}

std::string presets_text(const CellInfo& cell) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [preset, by_task] : cell.presets) {
    for (const auto& [task, settings] : by_task)
      rows.push_back({preset, "on " + task, settings_text(settings)});
  }
  return rows.empty() ? ""
                      : "Presets besides the paper's (--preset NAME):\n" + align(rows, {}, "  ");
}

std::string cell_text(const CellInfo& cell) {
  std::string text = fmt::format("{}: {}\n", cell.name, cell.summary);
  std::vector<std::vector<std::string>> rows;
  for (const TaskInfo& info : tasks::tasks()) {
    const auto sizes = cell.sizes.find(info.size_class);
    rows.push_back({"on " + info.name, format_count(parameters_on(info, cell)) + " parameters",
                    sizes == cell.sizes.end() ? "" : settings_text(sizes->second)});
  }
  text += align(rows, {}, "  ");
  return text + presets_text(cell) +
         options_text("Options of cell " + cell.name, "cell.", cell.options);
}

// What json_of() has, by the same names.
std::string task_text(const TaskInfo& info) {
  const auto& defaults = info.defaults;
  std::vector<std::vector<std::string>> rows;
  const auto row = [&](const char* name, std::int64_t value) {
    rows.push_back({name, format_count(value)});
  };
  if (defaults.lag) row("lag", *defaults.lag);
  row("batch_size", defaults.batch_size);
  if (defaults.epochs > 0) {
    row("epochs", defaults.epochs);
  } else {
    row("updates", defaults.updates);
  }
  row("input_size", info.widths.input);
  if (info.widths.embedding > 0) row("embedding_size", info.widths.embedding);
  row("output_size", info.widths.output);
  rows.push_back({"size_class", info.size_class});
  if (const auto baseline = baseline_of(info))
    rows.push_back({"baseline_loss", fmt::format("{:.4f}, without memory", *baseline)});
  return fmt::format("{}: {}\n", info.name, info.summary) + align(rows, {}, "  ") +
         options_text("Options of task " + info.name, "task_options.", info.options);
}

std::string experiment_text(const experiments::Experiment& experiment) {
  std::string text = fmt::format("{}: {}\n", experiment.name, experiment.title);
  if (!experiment.note.empty()) text += experiment.note + "\n";
  std::vector<std::vector<std::string>> rows;
  const auto row = [&](const char* name, const std::string& value) {
    if (!value.empty()) rows.push_back({name, value});
  };
  row("in the paper", experiment.paper);
  row("cells", fmt::format("{}", fmt::join(experiment.cells, ", ")));
  row("seeds", fmt::format("{}", fmt::join(experiment.seeds, ", ")));
  row("settings", settings_text(experiment.run));
  for (const auto& [cell, settings] : experiment.run_by_cell)
    row(cell.c_str(), settings_text(settings));
  for (const experiments::Variant& variant : experiment.variants)
    if (!variant.name.empty()) row(variant.name.c_str(), settings_text(variant.settings));
  row("shows also", fmt::format("{}", fmt::join(experiment.uses, ", ")));
  for (const experiments::Claim& claim : experiment.claims) row("claim", claim.text);
  return text + align(rows, {}, "  ") +
         fmt::format("Make its runs: nru reproduce {}\n", experiment.name);
}

// A task may have an experiment of its name; then both are shown.
std::string named_text(const std::string& name, bool json) {
  std::vector<std::string> known, texts;
  Json found = Json::object();  // by kind
  const auto meets = [&](const std::string& candidate) {
    known.push_back(candidate);
    return candidate == name;
  };
  for (const CellInfo& cell : cells()) {
    if (!meets(cell.name)) continue;
    found["cell"] = json_of(cell);
    texts.push_back("Cell " + cell_text(cell));
  }
  for (const TaskInfo& task : tasks::tasks()) {
    if (!meets(task.name)) continue;
    found["task"] = json_of(task);
    texts.push_back("Task " + task_text(task));
  }
  for (const experiments::Experiment& experiment : paper()) {
    if (!meets(experiment.name)) continue;
    found["experiment"] = Json::parse(experiments_json({experiment})).at(0);
    texts.push_back("Experiment " + experiment_text(experiment));
  }
  if (texts.empty()) {
    throw Error(fmt::format("no cell, task or experiment is called '{}'{}", name,
                            did_you_mean(name, known)));
  }
  if (json) return (found.size() == 1 ? found.front() : found).dump(2) + "\n";
  return fmt::format("{}", fmt::join(texts, "\n"));
}

std::string every_option_text() {
  std::string text = options_text("Keys of every run", "", training::run_keys());
  for (const TaskInfo& task : tasks::tasks())
    text += "\n" + options_text("Options of task " + task.name, "task_options.", task.options);
  for (const CellInfo& cell : cells())
    text += "\n" + options_text("Options of cell " + cell.name, "cell.", cell.options);
  return text;
}

int list(const Given& given) {
  if (!given.name.empty()) {
    print(named_text(given.name, given.json));
  } else if (given.json) {
    print(json_text(given.options));
  } else if (given.options) {
    print(every_option_text());
  } else {
    print(cells_text() + "\n" + all_sizes_text() + "\n" + tasks_text() + "\n" +
          experiments_text(paper()) +
          "\nnru list NAME shows one of them, nru list --options all keys.\n");
  }
  return 0;
}

}  // namespace

void add_list(CLI::App& app, Invocation& invocation) {
  CLI::App* command =
      app.add_subcommand("list", "Show cells, tasks and experiments, sizes and options");
  const auto given = std::make_shared<Given>();
  command->add_option("NAME", given->name, "a cell, task or experiment: show what it has")
      ->type_name("");
  command->add_flag("--options", given->options, "every key of a configuration");
  command->add_flag("--json", given->json, "print JSON");
  command->footer(R"(Examples:
  nru list
  nru list nru
  nru list copy-100
  nru list --options
  nru list --json)");
  command->callback([given, &invocation] { invocation.run = [given] { return list(*given); }; });
}

}  // namespace nru::cli
