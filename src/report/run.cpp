#include "report/run.h"

#include <nru/error.h>

#include <algorithm>
#include <limits>

#include "support/text_file.h"

namespace nru::report {
namespace {

namespace fs = std::filesystem;
using training::MetricsRow;
using training::RunStatus;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

RunState state_of(RunStatus status) {
  switch (status) {
    case RunStatus::finished:
      return RunState::finished;
    case RunStatus::solved:
      return RunState::solved;
    case RunStatus::diverged:
      return RunState::diverged;
    case RunStatus::interrupted:
      return RunState::interrupted;
    case RunStatus::failed:
      return RunState::failed;
  }
  return RunState::damaged;
}

void read_rows(Run& run, const fs::path& path) {
  // Kept from run to run: handing megabytes back and forth costs more than reading them.
  static thread_local Rows train, valid;
  train.clear();
  valid.clear();
  const auto keep = [&] {
    run.measures = measure(train, valid);
    run.train = thin_rows(train);
    run.valid = thin_rows(valid);
  };
  try {
    training::for_each_metrics_row(path, [&](const MetricsRow& row) {
      if (row.split == "train") train.push_back(row);
      if (row.split == "valid") valid.push_back(row);
    });
  } catch (const Error&) {
    keep();  // what came before the damage is still worth seeing
    throw;
  }
  keep();
}

// Runs `action`; what it complains about becomes the run's problem.
template <class Action>
void tolerate(Run& run, Action action) {
  try {
    action();
  } catch (const Error& error) {
    run.state = RunState::damaged;
    if (run.problem.empty()) run.problem = error.what();
  }
}

// Where a run lay says nothing to those who read of it elsewhere: `out` becomes the last two names
// of its path, under runs/.
std::string without_folder(const std::string& config) {
  const std::string key = "\nout = \"";
  const std::size_t begin = config.find(key), end = config.find('"', begin + key.size());
  if (begin == std::string::npos || end == std::string::npos) return config;
  const fs::path out(config.substr(begin + key.size(), end - begin - key.size()));
  const fs::path portable = fs::path("runs") / out.parent_path().filename() / out.filename();
  return config.substr(0, begin) + key + portable.string() + config.substr(end);
}

template <class T>
T setting(const training::GivenValues& settings, const std::string& key) {
  const auto found = settings.find(key);
  const T* value = found == settings.end() ? nullptr : std::get_if<T>(&found->second.value);
  return value == nullptr ? T{} : *value;
}

// How many updates an epoch has depends on the data: a run that was to make epochs has made its
// updates when its rows say that it is in the last one, or have no epochs.
std::int64_t updates_for(std::int64_t epochs, const Run& run) {
  std::int64_t made = 0;
  for (const Rows* rows : {&run.train, &run.valid}) {
    if (!rows->empty()) made = std::max(made, rows->back().epoch.value_or(0));
  }
  return made > 0 && made < epochs ? std::numeric_limits<std::int64_t>::max() : 0;
}

training::Goal goal_of(const Run& run) {
  const training::GivenValues settings = settings_of(run);
  const auto epochs = setting<std::int64_t>(settings, "epochs");
  training::Goal goal;
  goal.updates = epochs > 0 ? updates_for(epochs, run) : setting<std::int64_t>(settings, "updates");
  goal.stop_when_solved = setting<bool>(settings, "stop_when_solved");
  goal.stop_when_settled = setting<bool>(settings, "stop_when_settled");
  return goal;
}

// The trainer writes what is asked for now when it starts, and result.json at the end: until then
// that is about a shorter run, and what it did not solve says nothing.
void drop_outdated_result(Run& run) {
  if (!run.result || run.state == RunState::damaged) return;
  if (!training::is_outdated(*run.result, goal_of(run), run.measures.last_update)) return;
  run.result.reset();
  run.state = RunState::unfinished;
}

}  // namespace

const char* to_string(RunState state) {
  switch (state) {
    case RunState::missing:
      return "missing";
    case RunState::unfinished:
      return "unfinished";
    case RunState::damaged:
      return "damaged";
    case RunState::finished:
      return "finished";
    case RunState::solved:
      return "solved";
    case RunState::diverged:
      return "diverged";
    case RunState::interrupted:
      return "interrupted";
    case RunState::failed:
      return "failed";
  }
  return "?";
}

bool Run::counts() const {
  if (state == RunState::finished || state == RunState::solved || state == RunState::diverged) {
    return true;
  }
  return state == RunState::interrupted && solved();
}

training::GivenValues settings_of(const Run& run) {
  try {
    return training::read_flat_toml(run.config, "config.toml");
  } catch (const Error&) {
    return {};  // shown as it is
  }
}

void read_run(Run& run) {
  const training::RunPaths paths{run.directory};
  if (!is_there(paths.directory)) return;
  run.state = RunState::unfinished;
  tolerate(run, [&] {
    if (!is_there(paths.result())) return;
    run.result = training::read_result(paths.result());
    run.state = state_of(run.result->status);
  });
  tolerate(run, [&] {
    if (is_there(paths.config()))
      run.config = without_folder(read_text_file(paths.config(), "configuration"));
  });
  tolerate(run, [&] {
    if (is_there(paths.metrics())) read_rows(run, paths.metrics());
  });
  tolerate(run, [&] {
    const fs::path path = paths.directory / "measures.json";
    if (is_there(path)) {
      run.measures = parse_measures(read_text_file(path, "measures"), path.string());
    }
  });
  drop_outdated_result(run);
  if (run.result && run.result->baseline_loss) run.measures.baseline = run.result->baseline_loss;
}

}  // namespace nru::report
