// The data sets that tasks read: which files they are, how to know them, and where they lie.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nru::tasks {

struct DataFile {
  std::string name;                      // as `nru data get` names it
  std::vector<std::string> other_names;  // as it is found elsewhere
  std::uint64_t bytes;                   // of the content, unpacked
  std::string sha256;                    // of the same
};

struct DataSet {
  std::string name;  // also of its folder in the data directory
  std::string title;
  std::vector<DataFile> files;
};

// mnist: train images, train labels, test images, test labels. ptb: train, valid, test.
const std::vector<DataSet>& data_sets();
// Throws nru::Error with the nearest name when there is no such data set.
const DataSet& find_data_set(std::string_view name);

// Where data sets lie: $NRU_DATA, else nru/ in the XDG data directory.
std::filesystem::path data_directory();

// The file in this folder under any of its names, plain or with ".gz".
std::optional<std::filesystem::path> find_data_file(const DataFile& file,
                                                    const std::filesystem::path& folder);

// The folder of a data set in `directory` (empty: the data directory): directory/NAME, or
// `directory` itself where the set's files lie in it.
std::filesystem::path data_folder(const DataSet& set, const std::filesystem::path& directory);

// Whether all files of a set are there, right or wrong.
bool has_data_set(const DataSet& set, const std::filesystem::path& directory);

// All files of a set, in their order. Throws nru::Error that names the missing one and the command
// that gets it.
std::vector<std::filesystem::path> locate_data_set(const DataSet& set,
                                                   const std::filesystem::path& directory);

// Unpacked `content` in the form that the checksums are of: word files of the Penn Treebank are
// spelt out, everything else is itself already. `name` stands for it in errors.
std::string published_form(const DataSet& set, std::string content, const std::string& name);

enum class DataState { ok, missing, wrong };

struct CheckedFile {
  DataState state = DataState::missing;
  std::filesystem::path path;  // empty: missing
  std::string reason;          // why it is wrong
};

// Reads and verifies one file.
CheckedFile check_data_file(const DataSet& set, const DataFile& file,
                            const std::filesystem::path& folder);

}  // namespace nru::tasks
