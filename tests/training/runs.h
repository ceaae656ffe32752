// What the tests of training share: small configurations and texts.
#pragma once

#include <csignal>
#include <cstdint>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "../support/test_files.h"
#include "training/signals.h"
#include "training/trainer.h"

namespace nru::training {

using Network = Setup;  // GoogleTest keeps the name Setup in fixtures for itself
using Flags = std::vector<std::pair<std::string, std::string>>;

inline RunConfig config_of(const Flags& flags, const std::vector<std::string>& sets = {}) {
  ConfigSources sources;
  sources.flags = flags;
  sources.sets = sets;
  return resolve_config(sources, cell_defaults);
}

inline RunConfig small_copy(const std::string& cell, const std::vector<std::string>& sets = {}) {
  return config_of({{"task", "copy"}, {"cell", cell}, {"lag", "5"}}, sets);
}

// A character model of `cell` on a text of 3,000 characters that it writes to `directory`; windows
// of 15, 4 lanes.
inline RunConfig small_text(const std::string& cell, const test::TempDir& directory,
                            const std::vector<std::string>& more = {}) {
  std::string text;
  for (int i = 0; text.size() < 3000; ++i) {
    text += i % 7 == 3 ? "the long way home\n" : i % 3 == 0 ? "a red fox " : "and so it goes ";
  }
  const std::filesystem::path file = directory / "text.txt";
  test::write_bytes(file, text);
  std::vector<std::string> sets{"task_options.text=" + file.string(), "task_options.window=15",
                                "task_options.embedding=6", "batch_size=4",

                                "cell.hidden_size=9"};
  if (cell == "nru") sets.insert(sets.end(), {"cell.memory_size=4", "cell.heads=1"});
  sets.insert(sets.end(), more.begin(), more.end());
  return config_of({{"task", "char-lm"}, {"cell", cell}}, sets);
}

inline tasks::Batch batch_of(const Network& network, std::uint64_t index, tasks::Split split) {
  tasks::Batch batch;
  network.task->make_batch(split, index, batch);
  return batch;
}

// A run to its end, in silence.
inline Trainer::Outcome finish(const RunConfig& config, bool resume = false) {
  std::ostringstream nowhere;
  Trainer trainer(config, resume);
  Progress progress("", trainer.state().update, trainer.total_updates(), {}, nowhere);
  return trainer.run(progress);
}

// A run that a signal stops where it next may, after some of its updates.
inline Trainer::Outcome interrupt(const RunConfig& config, int updates) {
  std::ostringstream nowhere;
  const SignalGuard guard;
  Trainer trainer(config, false);
  int looks = 0;  // the display asks for the time at every update
  Progress progress("", 0, trainer.total_updates(), {}, nowhere, [&] {
    if (++looks == updates) std::raise(SIGTERM);
    return 0.0;
  });
  return trainer.run(progress);
}

inline std::vector<float> values_of(const FlatParameters& parameters) {
  return {parameters.values(), parameters.values() + parameters.size()};
}

}  // namespace nru::training
