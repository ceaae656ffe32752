#include "experiments/section.h"

#include <nru/error.h>

#include <algorithm>

namespace nru::experiments {

void Section::fail(const toml::node* at, const std::string& message) const {
  const auto line = (at == nullptr ? table_ : *at).source().begin.line;
  throw Error(line == 0 ? fmt::format("{}: {}", file_, message)
                        : fmt::format("{}:{}: {}", file_, line, message));
}

const toml::node* Section::find(const std::string& key) {
  known_.push_back(key);
  return table_.get(key);
}

std::string Section::text_of(const toml::node& node, const std::string& key) const {
  const auto* value = node.as_string();
  if (value == nullptr) fail(&node, fmt::format("{} must be text in quotes", key));
  return value->get();
}

template <class Visit>
void Section::for_each(const std::string& key, Visit visit) {
  const toml::node* node = find(key);
  if (node == nullptr) return;
  const toml::array* array = node->as_array();
  if (array == nullptr) fail(node, fmt::format("{} must be a list: [...]", key));
  for (const toml::node& entry : *array) visit(entry);
}

std::string Section::text(const std::string& key) {
  const toml::node* node = find(key);
  return node == nullptr ? "" : text_of(*node, key);
}

std::string Section::required_text(const std::string& key) {
  const std::string value = text(key);
  if (value.empty()) fail(table_.get(key), fmt::format("{} has no {}; add one", title_, key));
  return value;
}

std::vector<std::string> Section::texts(const std::string& key) {
  std::vector<std::string> values;
  for_each(key, [&](const toml::node& node) {
    const std::string value = text_of(node, key);
    if (std::find(values.begin(), values.end(), value) != values.end())
      fail(&node, fmt::format("'{}' is in {} twice; remove one", value, key));
    values.push_back(value);
  });
  return values;
}

std::vector<std::int64_t> Section::seeds(const std::string& key) {
  std::vector<std::int64_t> values;
  for_each(key, [&](const toml::node& node) {
    const auto* value = node.as_integer();
    if (value == nullptr || value->get() < 0)
      fail(&node, fmt::format("{} must be whole numbers, 0 or more", key));
    if (std::find(values.begin(), values.end(), value->get()) != values.end())
      fail(&node, fmt::format("{} is in {} twice; remove one", value->get(), key));
    values.push_back(value->get());
  });
  return values;
}

std::optional<double> Section::number(const std::string& key) {
  const toml::node* node = find(key);
  if (node == nullptr) return std::nullopt;
  if (!node->is_number()) fail(node, fmt::format("{} must be a number", key));
  return node->value<double>();
}

std::vector<Section> Section::sections(const std::string& key) {
  std::vector<Section> result;
  const toml::node* node = find(key);
  if (node == nullptr) return result;
  const toml::array* array = node->as_array();
  if (array == nullptr || !array->is_array_of_tables())
    fail(node, fmt::format("write [[{0}]], once for each {0}", key));
  for (const toml::node& entry : *array)
    result.emplace_back(*entry.as_table(), fmt::format("[[{}]]", key), file_);
  return result;
}

std::optional<Section> Section::section(const std::string& key) {
  const toml::node* node = find(key);
  if (node == nullptr) return std::nullopt;
  if (!node->is_table()) fail(node, fmt::format("write [{}] as a table", key));
  return Section(*node->as_table(), fmt::format("[{}]", key), file_);
}

void Section::no_other_keys() const {
  for (const auto& [key, node] : table_) {
    const std::string name(key.str());
    if (std::find(known_.begin(), known_.end(), name) == known_.end())
      fail(&node,
           fmt::format("unknown key '{}' in {}{}", name, title_, did_you_mean(name, known_)));
  }
}

}  // namespace nru::experiments
