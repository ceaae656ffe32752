// The runs in results/ are as old as the features they lack: what reads run directories must still
// take them for what they are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "cells/registry.h"
#include "support/text_file.h"
#include "training/run_directory.h"
#include "training/trainer.h"

namespace nru::training {
namespace {

// A new option must not shut out runs that went by its default; kBefore in run_directory.cpp is
// where such keys of runs and cells go.
TEST(PublishedRuns, AreOfTheirOwnConfiguration) {
  int runs = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(NRU_SOURCE_DIR "/results")) {
    if (entry.path().filename() != "config.toml") continue;
    ConfigSources sources;
    sources.file = entry.path();
    const GivenValues stored =
        read_flat_toml(read_text_file(entry.path(), "configuration"), entry.path());
    const RunConfig config = resolve_config(sources, cell_defaults);
    EXPECT_THAT(config_differences(stored, config), testing::IsEmpty()) << entry.path();
    ++runs;
  }
  EXPECT_GT(runs, 300);
}

// What the configuration of a run in results/ has otherwise than the preset's.
std::vector<std::string> unlike_recommended(const std::string& run, const std::string& task,
                                            const std::string& lag) {
  const std::string path = NRU_SOURCE_DIR "/results/" + run + "/config.toml";
  GivenValues stored = read_flat_toml(read_text_file(path, "configuration"), path);
  ConfigSources sources;
  sources.flags = {{"task", task}, {"cell", "nru"}, {"preset", "recommended"}};
  if (!lag.empty()) sources.flags.emplace_back("lag", lag);
  const RunConfig config = resolve_config(sources, cell_defaults);
  stored["preset"].value = config.preset;  // it had none
  return config_differences(stored, config, /*may_move=*/true);
}

// The README's promises for it are theirs.
TEST(PublishedRuns, HadWhatIsRecommended) {
  using testing::IsEmpty;
  EXPECT_THAT(unlike_recommended("beyond-calm/nru-copy100-seed1", "copy", "100"), IsEmpty());
  EXPECT_THAT(unlike_recommended("beyond-calm/nru-copy200-seed1", "copy", "200"), IsEmpty());
  EXPECT_THAT(unlike_recommended("beyond-calm/nru-variable100-seed1", "copy-variable", "100"),
              IsEmpty());
  EXPECT_THAT(unlike_recommended("beyond-calm/nru-variable200-seed1", "copy-variable", "200"),
              IsEmpty());
  EXPECT_THAT(unlike_recommended("beyond-psmnist/nru-dropout-seed1", "psmnist", ""), IsEmpty());
  EXPECT_THAT(unlike_recommended("beyond-char-ptb/nru-both-seed1", "char-lm", ""), IsEmpty());
}

TEST(Presets, EveryKeyGoesWithItsPreset) {
  for (const CellInfo& cell : cells()) {
    for (const auto& [preset, by_task] : cell.presets) {
      for (const auto& [task, settings] : by_task) {
        for (const auto& [key, value] : settings)
          EXPECT_THAT(kPresetKeys, testing::Contains(key)) << cell.name << ", " << preset;
      }
    }
  }
}

}  // namespace
}  // namespace nru::training
