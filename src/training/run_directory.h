// The run directory: where a run's files lie, and the guard that keeps two runs from sharing them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "support/posix.h"
#include "training/config.h"

namespace nru::training {

struct RunPaths {
  std::filesystem::path directory;

  std::filesystem::path config() const { return directory / "config.toml"; }
  std::filesystem::path metrics() const { return directory / "metrics.csv"; }
  std::filesystem::path checkpoint() const { return directory / "checkpoint.safetensors"; }
  std::filesystem::path best() const { return directory / "best.safetensors"; }
  std::filesystem::path result() const { return directory / "result.json"; }
  std::filesystem::path lock() const { return directory / ".lock"; }
};

// What keeps the run in `stored` (the flat keys of its config.toml) from going on as `config`: one
// "key: X there, Y here" per setting. Free to change: how far to go and when to stop (updates,
// epochs, stop_when_solved, time_limit), what leaves every number as it is (threads,
// checkpoint_every), and where the directory (out) and the data lie now. All else, log_every too,
// would give a run that neither configuration describes; and so does another device, unless it
// may_move.
std::vector<std::string> config_differences(const GivenValues& stored, const RunConfig& config,
                                            bool may_move = false);

// Open for writing by this process alone: holds a lock, which the system drops when the process
// ends however it ends.
class RunDirectory {
 public:
  // A new run in config.out: makes the directory and writes config.toml. Throws nru::Error when a
  // run is there already (nothing is overwritten), when the directory is in use, or cannot be made
  // or written.
  static RunDirectory create(const RunConfig& config);
  // Goes on with the run in config.out, on another device if that says so. Throws nru::Error when
  // there is none, when it belongs to another configuration, or when it is in use. Writes nothing:
  // the checkpoint may yet turn out to be damaged.
  static RunDirectory resume(const RunConfig& config);
  // config.toml then says what the run is now.
  void record(const RunConfig& config);
  // Of a run that has nothing left to do, whose result would not be of another configuration: only
  // where it and its data lie. Where anything else has changed, nothing is written.
  void record_places(const RunConfig& config);

  const RunPaths& paths() const { return paths_; }

 private:
  explicit RunDirectory(RunPaths paths);  // makes the directory and takes the lock

  RunPaths paths_;
  Descriptor lock_;
};

}  // namespace nru::training
