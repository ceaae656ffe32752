// Reading experiments/NAME.toml. Strict: a key or name that nothing reads is an error with its
// place, because a slip in such a file would otherwise show as a wrong result weeks of computing
// later.
#include <fmt/format.h>
#include <nru/error.h>
#include <toml++/toml.h>

#include <algorithm>
#include <set>
#include <utility>

#include "experiments/definition.h"
#include "experiments/section.h"
#include "support/suggest.h"
#include "training/config.h"

namespace nru::experiments {
namespace {

const Names<FigureKind>& figure_kinds() {
  static const Names<FigureKind> names = {
      {FigureKind::curves, "curves"},       {FigureKind::validation, "validation"},
      {FigureKind::gradients, "gradients"}, {FigureKind::bars, "bars"},
      {FigureKind::heatmap, "heatmap"},     {FigureKind::memory, "memory"},
      {FigureKind::groups, "groups"},       {FigureKind::lags, "lags"},
      {FigureKind::ranking, "ranking"},     {FigureKind::table, "table"}};
  return names;
}

const Names<CheckKind>& check_kinds() {
  static const Names<CheckKind> names = {
      {CheckKind::first, "first"},       {CheckKind::solves, "solves"},
      {CheckKind::unsolved, "unsolved"}, {CheckKind::at_baseline, "at_baseline"},
      {CheckKind::ratio, "ratio"},       {CheckKind::best, "best"},
      {CheckKind::order, "order"},       {CheckKind::at_least, "at_least"},
      {CheckKind::at_most, "at_most"},   {CheckKind::finite, "finite"}};
  return names;
}

template <class Kind>
const char* name_of(Kind kind, const Names<Kind>& names) {
  return std::find_if(names.begin(), names.end(), [&](const auto& n) { return n.first == kind; })
      ->second;
}

// Keys that the plan itself sets, or the command line.
const std::set<std::string> kNotSettings = {"cell", "seed", "out", "threads", "time_limit"};

// Options of cells and tasks are for their tables to check; run keys are known here.
void check_key(const Section& section, const std::string& key, const toml::node& node) {
  if (key.starts_with("cell.") || key.starts_with("task_options.")) return;
  std::vector<std::string> known;
  for (const OptionSpec& spec : training::run_keys()) known.push_back(spec.key);
  if (std::find(known.begin(), known.end(), key) == known.end())
    section.fail(&node, fmt::format("unknown setting '{}'{}", key, did_you_mean(key, known)));
}

// One setting of a run, or the table `cell` or `task_options` of several.
void add_setting(const Section& section, const std::string& key, const toml::node& node,
                 OptionMap& settings) {
  if (const toml::table* table = node.as_table()) {
    if (key != "cell" && key != "task_options")
      section.fail(&node, fmt::format("'{}' must be a setting, not a table", key));
    for (const auto& [inner, value] : *table)
      add_setting(section, key + "." + std::string(inner.str()), value, settings);
    return;
  }
  if (kNotSettings.contains(key))
    section.fail(&node, fmt::format("'{}' is not for an experiment to set; remove it", key));
  check_key(section, key, node);
  OptionValue value;
  if (const auto* flag = node.as_boolean()) {
    value = flag->get();
  } else if (const auto* integer = node.as_integer()) {
    value = integer->get();
  } else if (const auto* real = node.as_floating_point()) {
    value = real->get();
  } else if (const auto* text = node.as_string()) {
    value = text->get();
  } else {
    section.fail(&node, fmt::format("'{}' must be true or false, a number or a string", key));
  }
  if (!settings.emplace(key, value).second)
    section.fail(&node, fmt::format("'{}' is set twice; remove one", key));
}

OptionMap settings_of(const Section& section, const std::set<std::string>& other_keys) {
  OptionMap settings;
  for (const auto& [key, node] : section.table()) {
    const std::string name(key.str());
    if (!other_keys.contains(name)) add_setting(section, name, node, settings);
  }
  return settings;
}

void known_name(const Section& section, const std::string& key, const std::string& name,
                const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    section.fail(section.table().get(key),
                 fmt::format("unknown {} '{}'{}", key, name, did_you_mean(name, known)));
  }
}

// "nru", or "nru/m144" where there are variants. Cells of other experiments cannot be checked here.
std::vector<std::string> run_names(const Experiment& experiment) {
  std::vector<std::string> names = experiment.cells;
  for (const std::string& cell : experiment.cells) {
    for (const Variant& variant : experiment.variants) {
      if (!variant.name.empty()) names.push_back(cell + "/" + variant.name);
    }
  }
  return names;
}

void read_run(Section& section, Experiment& experiment) {
  std::set<std::string> cells;
  for (const auto& [key, node] : section.table()) {
    const std::string name(key.str());
    if (!node.is_table() || name == "cell" || name == "task_options") continue;
    if (std::find(experiment.cells.begin(), experiment.cells.end(), name) ==
        experiment.cells.end()) {
      section.fail(&node, fmt::format("[run.{}] is for no cell of this experiment{}", name,
                                      did_you_mean(name, experiment.cells)));
    }
    cells.insert(name);
    Section inner(*node.as_table(), fmt::format("[run.{}]", name), section.file());
    experiment.run_by_cell[name] = settings_of(inner, {"seeds"});
    if (const toml::node* seeds = inner.find("seeds")) {
      experiment.seeds_by_cell[name] = inner.seeds("seeds");
      if (experiment.seeds_by_cell[name].empty())
        inner.fail(seeds, "there are no seeds; add some, or remove the line");
    }
  }
  experiment.run = settings_of(section, cells);
  if (!experiment.run.contains("task")) section.fail(nullptr, "[run] has no task; add one");
}

Variant read_variant(Section section) {
  Variant variant;
  variant.name = section.required_text("name");
  variant.label = section.text("label");
  if (variant.label.empty()) variant.label = variant.name;
  if (variant.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.") !=
      std::string::npos) {
    section.fail(section.find("name"),
                 fmt::format("the name '{}' becomes part of a directory; use a-z, 0-9, _ and .",
                             variant.name));
  }
  variant.settings = settings_of(section, {"name", "label"});
  return variant;
}

PaperValue read_paper_value(Section section, const Experiment& experiment) {
  PaperValue value;
  value.cell = section.required_text("cell");
  value.variant = section.text("variant");
  value.metric = section.required_text("metric");
  known_name(section, "metric", value.metric, metric_names());
  if (experiment.uses.empty()) {
    known_name(section, "cell", value.cell, experiment.cells);
    if (!value.variant.empty())
      known_name(section, "variant", value.cell + "/" + value.variant, run_names(experiment));
  }
  const auto number = section.number("value");
  if (!number) section.fail(nullptr, "[[paper_value]] has no value; add one");
  value.value = *number;
  section.no_other_keys();
  return value;
}

// What a check cannot do without, and what it would not look at.
struct Needs {
  bool among = false, metric = false, value = false, range = false;
  std::size_t cells = 1;  // at least
};

Needs needs_of(CheckKind kind) {
  Needs needs;
  needs.among = kind == CheckKind::first || kind == CheckKind::best;
  needs.metric = kind == CheckKind::ratio || kind == CheckKind::best || kind == CheckKind::order ||
                 kind == CheckKind::at_least || kind == CheckKind::at_most;
  needs.value =
      kind == CheckKind::at_baseline || kind == CheckKind::at_least || kind == CheckKind::at_most;
  needs.range = kind == CheckKind::ratio;
  if (kind == CheckKind::ratio || kind == CheckKind::order) needs.cells = 2;
  return needs;
}

void check_needs(const Section& section, const Claim& claim) {
  const Needs needs = needs_of(claim.check);
  const auto matches = [&](const char* key, bool needed, bool given) {
    if (needed == given) return;
    section.fail(section.table().get(key),
                 needed ? fmt::format("check '{}' needs '{}'; add it", to_string(claim.check), key)
                        : fmt::format("check '{}' does not look at '{}'; remove it",
                                      to_string(claim.check), key));
  };
  matches("among", needs.among, !claim.among.empty());
  matches("metric", needs.metric, !claim.metric.empty());
  matches("value", needs.value, claim.value.has_value());
  if (needs.range && !claim.low && !claim.high)
    section.fail(nullptr, "check 'ratio' needs 'low', 'high' or both; add them");
  matches("low", needs.range && claim.low, claim.low.has_value());
  matches("high", needs.range && claim.high, claim.high.has_value());
  if (claim.cells.size() < needs.cells) {
    section.fail(section.table().get("cells"),
                 fmt::format("check '{}' needs {} in 'cells'", to_string(claim.check),
                             needs.cells == 1 ? "at least one cell" : "at least two cells"));
  }
}

Claim read_claim(Section section, const Experiment& experiment) {
  Claim claim;
  claim.text = section.required_text("text");
  claim.check = section.kind("check", check_kinds());
  claim.cells = section.texts("cells");
  claim.among = section.texts("among");
  claim.metric = section.text("metric");
  claim.value = section.number("value");
  claim.low = section.number("low");
  claim.high = section.number("high");
  if (!claim.metric.empty()) known_name(section, "metric", claim.metric, metric_names());
  if (experiment.uses.empty()) {
    const std::vector<std::string> known = run_names(experiment);
    for (const std::string& cell : claim.cells) known_name(section, "cells", cell, known);
    for (const std::string& cell : claim.among) known_name(section, "among", cell, known);
  }
  check_needs(section, claim);
  section.no_other_keys();
  return claim;
}

void read_quick(Section& section, Experiment& experiment) {
  experiment.quick_cells = section.texts("cells");
  for (const std::string& cell : experiment.quick_cells)
    known_name(section, "cells", cell, experiment.cells);
  experiment.quick_seeds = section.seeds("seeds");
  experiment.quick_variants = section.texts("variants");
  std::vector<std::string> known;
  for (const Variant& variant : experiment.variants) known.push_back(variant.name);
  for (const std::string& variant : experiment.quick_variants)
    known_name(section, "variants", variant, known);
  experiment.quick = settings_of(section, {"cells", "seeds", "variants"});
}

void read_variants(Section& top, Experiment& experiment) {
  for (Section& section : top.sections("variant")) {
    Variant variant = read_variant(section);
    for (const Variant& other : experiment.variants) {
      if (other.name == variant.name)
        section.fail(nullptr, fmt::format("there are two variants '{}'; rename one", other.name));
    }
    experiment.variants.push_back(std::move(variant));
  }
  if (experiment.variants.empty()) experiment.variants.emplace_back();
}

void check_runs(const Section& top, const Experiment& experiment) {
  if (experiment.run.empty()) {
    if (experiment.uses.empty())
      top.fail(nullptr, "there is neither a [run] nor 'uses'; add what this experiment shows");
    return;
  }
  if (experiment.cells.empty()) top.fail(nullptr, "there are no cells; add cells = [...]");
  if (experiment.seeds.empty()) top.fail(nullptr, "there are no seeds; add seeds = [...]");
}

}  // namespace

const char* to_string(FigureKind kind) { return name_of(kind, figure_kinds()); }
const char* to_string(CheckKind kind) { return name_of(kind, check_kinds()); }

Experiment parse_experiment(const std::string& text, const std::filesystem::path& file) {
  toml::table table;
  try {
    table = toml::parse(text);
  } catch (const toml::parse_error& error) {
    throw Error(
        fmt::format("{}:{}: {}", file.string(), error.source().begin.line, error.description()));
  }
  Section top(table, "the experiment", file.string());
  Experiment experiment;
  experiment.name = file.stem().string();
  experiment.title = top.required_text("title");
  experiment.paper = top.text("paper");
  experiment.note = top.text("note");
  experiment.figure = top.kind("figure", figure_kinds());
  experiment.cells = top.texts("cells");
  experiment.seeds = top.seeds("seeds");
  experiment.uses = top.texts("uses");
  read_variants(top, experiment);
  if (auto run = top.section("run")) read_run(*run, experiment);
  if (auto quick = top.section("quick")) read_quick(*quick, experiment);
  for (Section& section : top.sections("paper_value"))
    experiment.paper_values.push_back(read_paper_value(section, experiment));
  for (Section& section : top.sections("claim"))
    experiment.claims.push_back(read_claim(section, experiment));
  top.no_other_keys();
  check_runs(top, experiment);
  return experiment;
}

}  // namespace nru::experiments
