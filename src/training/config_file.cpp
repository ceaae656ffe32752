// TOML in and out: the half of config.h that deals with text.
#include <fmt/format.h>
#include <nru/error.h>
#include <toml++/toml.h>

#include "support/toml_string.h"
#include "training/config.h"

namespace nru::training {
namespace {

std::string place(const std::string& name, const toml::source_region& source) {
  return fmt::format("{}:{}", name, source.begin.line);
}

OptionValue value_of(const toml::node& node, const std::string& key, const std::string& origin) {
  if (const auto* flag = node.as_boolean()) return flag->get();
  if (const auto* integer = node.as_integer()) return integer->get();
  if (const auto* real = node.as_floating_point()) return real->get();
  if (const auto* text = node.as_string()) return text->get();
  throw Error(fmt::format("{}: '{}' must be true or false, a number or a string", origin, key));
}

void collect(const toml::table& table, const std::string& prefix, const std::string& name,
             GivenValues& values) {
  for (const auto& [name_in_table, node] : table) {
    const std::string key = prefix + std::string(name_in_table.str());
    if (const toml::table* inner = node.as_table()) {
      collect(*inner, key + ".", name, values);
      continue;
    }
    const std::string origin = place(name, node.source());
    const bool is_new =
        values.emplace(key, GivenValue{value_of(node, key, origin), origin, ""}).second;
    if (!is_new) throw Error(fmt::format("{}: '{}' is set twice; remove one", origin, key));
  }
}

}  // namespace

GivenValues read_flat_toml(const std::string& text, const std::string& name) {
  GivenValues values;
  try {
    collect(toml::parse(text), "", name, values);
  } catch (const toml::parse_error& error) {
    std::string hint;
    if (error.description().find("'cell") != std::string_view::npos) {
      hint = "; a cell with options is a table: [cell], name = \"...\"";
    }
    throw Error(fmt::format("{}: {}{}", place(name, error.source()), error.description(), hint));
  }
  return values;
}

std::string to_toml(const RunConfig& config) {
  std::string text =
      "# The resolved configuration of one run; `nru train --config` with this file repeats it.\n";
  const OptionMap flat = flatten(config);
  for (const OptionSpec& spec : run_keys()) {
    if (spec.key == "cell") continue;  // the name stands in the table below
    text += fmt::format("{} = {}\n", spec.key, to_string(flat.at(spec.key)));
  }
  text += fmt::format("\n[cell]\nname = {}\n", quote_toml(config.cell));
  for (const auto& [key, value] : config.cell_options) {
    text += fmt::format("{} = {}\n", key, to_string(value));
  }
  text += "\n[task_options]\n";
  for (const auto& [key, value] : config.task_options) {
    text += fmt::format("{} = {}\n", key, to_string(value));
  }
  return text;
}

}  // namespace nru::training
