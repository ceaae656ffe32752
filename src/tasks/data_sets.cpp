#include "tasks/data_sets.h"

#include <fmt/format.h>
#include <nru/error.h>

#include <algorithm>
#include <cstdlib>

#include "support/data_file.h"
#include "support/sha256.h"
#include "support/suggest.h"
#include "support/words.h"
#include "tasks/text.h"

namespace nru::tasks {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

DataSet mnist() {
  return {"mnist",
          "MNIST, handwritten digits (LeCun, Cortes, Burges)",
          {{"train-images-idx3-ubyte",
            {"train-images.idx3-ubyte"},
            47'040'016,
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"},
           {"train-labels-idx1-ubyte",
            {"train-labels.idx1-ubyte"},
            60'008,
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"},
           {"t10k-images-idx3-ubyte",
            {"t10k-images.idx3-ubyte"},
            7'840'016,
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"},
           {"t10k-labels-idx1-ubyte",
            {"t10k-labels.idx1-ubyte"},
            10'008,
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"}}};
}

DataSet ptb() {
  return {"ptb",
          "Penn Treebank, characters (Mikolov's split)",
          {{"ptb.char.train.txt",
            {"ptb.train.txt"},
            10'034'964,
            "e313d91425e06c4f0a8fb6e881dcce0c291f2a0e9f4dda54833069b122f91da9"},
           {"ptb.char.valid.txt",
            {"ptb.valid.txt"},
            786'084,
            "21661f63ec355085879458b6524644d4add5573541b4be14fb52ab2e2e995eb8"},
           {"ptb.char.test.txt",
            {"ptb.test.txt"},
            884'846,
            "1ef5607ac3c463b16e38bfe7900dd3bfc91de5a96e0f21e7eab5188b465b8ebe"}}};
}

bool has_any_file(const DataSet& set, const fs::path& folder) {
  return std::any_of(set.files.begin(), set.files.end(),
                     [&](const DataFile& file) { return find_data_file(file, folder); });
}

}  // namespace

const std::vector<DataSet>& data_sets() {
  static const std::vector<DataSet> all = {mnist(), ptb()};
  return all;
}

const DataSet& find_data_set(std::string_view name) {
  std::vector<std::string> names;
  for (const DataSet& set : data_sets()) {
    if (set.name == name) return set;
    names.push_back(set.name);
  }
  throw Error(fmt::format("unknown data set '{}'{}", name, did_you_mean(name, names)));
}

fs::path data_directory() {
  if (const std::string own = environment("NRU_DATA"); !own.empty()) return own;
  // XDG: relative paths in the variable are invalid and ignored.
  if (const fs::path xdg = environment("XDG_DATA_HOME"); xdg.is_absolute()) return xdg / "nru";
  return fs::path(environment("HOME")) / ".local" / "share" / "nru";
}

std::optional<fs::path> find_data_file(const DataFile& file, const fs::path& folder) {
  std::vector<std::string> names = {file.name};
  names.insert(names.end(), file.other_names.begin(), file.other_names.end());
  for (const std::string& name : names) {
    for (const char* ending : {"", ".gz"}) {
      std::error_code ignored;
      const fs::path candidate = folder / (name + ending);
      if (fs::is_regular_file(candidate, ignored)) return candidate;
    }
  }
  return std::nullopt;
}

fs::path data_folder(const DataSet& set, const fs::path& directory) {
  const fs::path base = directory.empty() ? data_directory() : directory;
  const fs::path own = base / set.name;
  std::error_code ignored;
  return !fs::is_directory(own, ignored) && has_any_file(set, base) ? base : own;
}

bool has_data_set(const DataSet& set, const fs::path& directory) {
  const fs::path folder = data_folder(set, directory);
  return std::all_of(set.files.begin(), set.files.end(),
                     [&](const DataFile& file) { return find_data_file(file, folder); });
}

std::vector<fs::path> locate_data_set(const DataSet& set, const fs::path& directory) {
  const fs::path folder = data_folder(set, directory);
  std::vector<fs::path> paths;
  for (const DataFile& file : set.files) {
    const auto path = find_data_file(file, folder);
    if (!path) {
      throw Error(fmt::format("no {} in {}; get it with: nru data get {}{}", file.name,
                              folder.string(), set.name,
                              directory.empty() ? "" : " --dir " + shell_word(directory.string())));
    }
    paths.push_back(*path);
  }
  return paths;
}

std::string published_form(const DataSet& set, std::string content, const std::string& name) {
  if (set.name != "ptb" || form_of_sentences(content) != TextForm::words) return content;
  return spell(content, name);
}

CheckedFile check_data_file(const DataSet& set, const DataFile& file, const fs::path& folder) {
  const auto path = find_data_file(file, folder);
  if (!path) return {};
  try {
    const std::string content =
        published_form(set, read_data_file(*path, "data file"), path->string());
    if (sha256_hex(content) == file.sha256) return {DataState::ok, *path, ""};
    return {DataState::wrong, *path,
            content.size() == file.bytes
                ? "the content is not the published one"
                : fmt::format("{} bytes instead of {}", content.size(), file.bytes)};
  } catch (const Error& error) {
    return {DataState::wrong, *path, error.what()};
  }
}

}  // namespace nru::tasks
