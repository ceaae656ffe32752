// One table of an experiment's file, read strictly: the typed values of its keys, and errors that
// name file and line.
#pragma once

#include <fmt/format.h>
#include <toml++/toml.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/suggest.h"

namespace nru::experiments {

// The values an enumeration has in the file.
template <class Kind>
using Names = std::vector<std::pair<Kind, const char*>>;

// Every key that is asked for counts as known; no_other_keys() then complains about the rest.
class Section {
 public:
  // `title` stands for the table in errors: "[run]". The table must outlive the section.
  Section(const toml::table& table, std::string title, std::string file)
      : table_(table), title_(std::move(title)), file_(std::move(file)) {}

  const toml::table& table() const { return table_; }
  const std::string& file() const { return file_; }

  // Throws nru::Error "FILE:LINE: message"; the line of the table itself where `at` is null.
  [[noreturn]] void fail(const toml::node* at, const std::string& message) const;

  const toml::node* find(const std::string& key);  // null: not there
  std::string text(const std::string& key);        // "": not there
  std::string required_text(const std::string& key);
  std::vector<std::string> texts(const std::string& key);   // a list without repetitions
  std::vector<std::int64_t> seeds(const std::string& key);  // likewise, none below 0
  std::optional<double> number(const std::string& key);
  std::vector<Section> sections(const std::string& key);   // the tables of [[key]]
  std::optional<Section> section(const std::string& key);  // the table [key]

  template <class Kind>
  Kind kind(const std::string& key, const Names<Kind>& names) {
    const std::string value = required_text(key);
    std::vector<std::string> known;
    for (const auto& [kind, name] : names) {
      if (name == value) return kind;
      known.emplace_back(name);
    }
    fail(table_.get(key), fmt::format("unknown {} '{}'{}", key, value, did_you_mean(value, known)));
  }

  void no_other_keys() const;

 private:
  std::string text_of(const toml::node& node, const std::string& key) const;
  template <class Visit>
  void for_each(const std::string& key, Visit visit);

  const toml::table& table_;
  std::string title_;
  std::string file_;
  std::vector<std::string> known_;
};

}  // namespace nru::experiments
