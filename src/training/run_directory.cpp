// Making, locking and recognising run directories.
#include "training/run_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <nru/error.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <set>
#include <string_view>

#include "support/atomic_file.h"
#include "support/text_file.h"
#include "tasks/registry.h"
#include "training/config_keys.h"

namespace nru::training {
namespace {

namespace fs = std::filesystem;

// Data may be moved: what they are is for the task to compare (Task::metadata).
bool says_where_data_lie(const std::string& key, const RunConfig& config) {
  const std::vector<std::string>& paths = tasks::find_task(config.task).paths;
  return key.starts_with(kTaskPrefix) &&
         std::find(paths.begin(), paths.end(), key.substr(kTaskPrefix.size())) != paths.end();
}

bool free_to_change(const std::string& key, const RunConfig& config) {
  static const std::set<std::string> free = {
      "stop_when_solved", "stop_when_settled", "time_limit", "threads", "out", "checkpoint_every"};
  static const std::set<std::string> length = {"updates", "epochs"};  // what anneal goes by
  return free.contains(key) || (config.anneal == 0 && length.contains(key)) ||
         says_where_data_lie(key, config);
}

// Keys of runs and cells that are younger than some runs, and what those went by.
const OptionMap kBefore = {
    {"adam_beta2", 0.999},     {"anneal", 0.0},     {"average", 0.0},  {"cell.write_limit", 0.0},
    {"cell.write_scale", 1.0}, {"clip_state", 0.0}, {"recover", false}};

// Whether a run that does not name the key went by `value`. A task's new option leaves batches as
// they were by default.
bool is_as_before(const std::string& key, const OptionValue& value, const RunConfig& config) {
  if (key.starts_with(kTaskPrefix)) {
    const std::string option = key.substr(kTaskPrefix.size());
    for (const OptionSpec& spec : tasks::find_task(config.task).options)
      if (spec.key == option) return spec.default_value == value;
  }
  const auto found = kBefore.find(key);
  return found != kBefore.end() && found->second == value;
}

// Whether the run went by another value of a key than this. As text: nan equals nan.
bool differs(const GivenValues& stored, const std::string& key, const OptionValue& value,
             const RunConfig& config) {
  const auto found = stored.find(key);
  if (found == stored.end()) return !is_as_before(key, value, config);
  return to_string(found->second.value) != to_string(value);
}

// A time limit is this process's, and no part of the run.
std::string text_of(RunConfig config) {
  config.time_limit = 0;
  return to_toml(config);
}

// The first file of a run that lies in the directory, or an empty path.
fs::path trace_of_a_run(const RunPaths& paths) {
  std::error_code ignored;
  for (const fs::path& path :
       {paths.config(), paths.metrics(), paths.checkpoint(), paths.best(), paths.result()}) {
    if (fs::exists(path, ignored)) return path;
  }
  return {};
}

void make_directory(const fs::path& directory) {
  std::error_code failure;
  fs::create_directories(directory, failure);
  if (!failure && !fs::is_directory(directory))
    failure = std::make_error_code(std::errc::not_a_directory);
  if (failure) {
    throw Error(fmt::format("cannot make the run directory {}: {}; choose another --out",
                            directory.string(), failure.message()));
  }
}

// The process that holds the lock left its number there; only for the message.
std::string owner_of(int lock) {
  std::array<char, 32> text{};
  const ssize_t got = ::pread(lock, text.data(), text.size() - 1, 0);
  const std::string_view number(text.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  const std::string_view digits = number.substr(0, number.find_first_not_of("0123456789"));
  return digits.empty() ? "another process" : fmt::format("process {}", digits);
}

int open_and_lock(const RunPaths& paths) {
  make_directory(paths.directory);
  const fs::path path = paths.lock();
  const int lock =
      uninterrupted([&] { return ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666); });
  if (lock < 0) {
    throw Error(fmt::format("cannot write to the run directory {}: {}; choose another --out",
                            paths.directory.string(), std::strerror(errno)));
  }
  if (uninterrupted([&] { return ::flock(lock, LOCK_EX | LOCK_NB); }) < 0) {
    const int code = errno;
    const std::string owner = owner_of(lock);
    ::close(lock);
    if (code == EWOULDBLOCK) {
      throw Error(
          fmt::format("the run directory {} is in use by {}; wait for it or choose another --out",
                      paths.directory.string(), owner));
    }
    throw Error(fmt::format("cannot lock the run directory {}: {}; choose a --out on a local disk",
                            paths.directory.string(), std::strerror(code)));
  }
  // Informative only, so a full disk may lose it; the next write will say so properly.
  const std::string number = fmt::format("{}\n", ::getpid());
  if (::ftruncate(lock, 0) == 0) {
    [[maybe_unused]] const ssize_t written = ::pwrite(lock, number.data(), number.size(), 0);
  }
  return lock;
}

}  // namespace

std::vector<std::string> config_differences(const GivenValues& stored, const RunConfig& config,
                                            bool may_move) {
  std::vector<std::string> differences;
  const OptionMap wanted = flatten(config);
  for (const auto& [key, value] : wanted) {
    if (free_to_change(key, config) || (may_move && key == "device")) continue;
    if (!differs(stored, key, value, config)) continue;
    const auto found = stored.find(key);
    differences.push_back(fmt::format(
        "{}: {}, {} here", key,
        found == stored.end() ? "not set there" : to_string(found->second.value) + " there",
        to_string(value)));
  }
  for (const auto& [key, entry] : stored) {
    if (!wanted.contains(key)) {
      differences.push_back(fmt::format("{}: {} there, unknown here", key, to_string(entry.value)));
    }
  }
  return differences;
}

RunDirectory::RunDirectory(RunPaths paths)
    : paths_(std::move(paths)), lock_(open_and_lock(paths_)) {}

RunDirectory RunDirectory::create(const RunConfig& config) {
  RunDirectory run(RunPaths{config.out});
  if (const fs::path trace = trace_of_a_run(run.paths_); !trace.empty()) {
    throw Error(
        fmt::format("{} holds a run already ({}); go on with --resume or choose another --out",
                    config.out, trace.filename().string()));
  }
  write_file_atomically(run.paths_.config(), text_of(config));
  return run;
}

RunDirectory RunDirectory::resume(const RunConfig& config) {
  const RunPaths paths{config.out};
  std::error_code ignored;
  if (!fs::exists(paths.config(), ignored)) {  // before anything is made: the name may be a slip
    throw Error(fmt::format(
        "there is no run to go on with in {}; check --out or start without --resume", config.out));
  }
  RunDirectory run(paths);
  const std::string text = read_text_file(paths.config(), "configuration");
  const GivenValues stored = read_flat_toml(text, paths.config().string());
  const std::vector<std::string> differences = config_differences(stored, config, true);
  if (!differences.empty()) {
    throw Error(fmt::format(
        "{} belongs to another configuration ({}{}); resume with its own settings or choose "
        "another --out",
        config.out, differences.front(),
        differences.size() > 1 ? fmt::format("; {} more", differences.size() - 1) : ""));
  }
  return run;
}

void RunDirectory::record_places(const RunConfig& config) {
  const GivenValues stored =
      read_flat_toml(read_text_file(paths_.config(), "configuration"), paths_.config().string());
  for (const auto& [key, value] : flatten(config)) {
    if (key == "out" || key == "time_limit" || says_where_data_lie(key, config)) continue;
    if (differs(stored, key, value, config)) return;
  }
  record(config);
}

void RunDirectory::record(const RunConfig& config) {
  const std::string now = text_of(config);
  if (now != read_text_file(paths_.config(), "configuration"))
    write_file_atomically(paths_.config(), now);
}

}  // namespace nru::training
