// The runs in results/ are as old as the features they lack: what reads run directories must still
// take them for what they are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

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

}  // namespace
}  // namespace nru::training
