// The configuration and the weights of a run directory, for the commands that read one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "training/config.h"
#include "training/run_directory.h"
#include "training/trainer.h"

namespace CLI {
class App;
}

namespace nru::cli {

// With `changes` to it, as by flags; those without a value change nothing. Throws nru::Error when
// the directory holds no run.
training::RunConfig config_of(const training::RunPaths& paths,
                              std::vector<std::pair<std::string, std::string>> changes = {});

// --device and --threads, for looking at a run elsewhere than where it was made.
void add_place(CLI::App& command, std::string& device, std::string& threads);

struct WeightsFile {
  std::string kind;  // best | last
  std::filesystem::path path;
};

// `asked`: "best", "last", or empty for the best where there are any. Throws nru::Error when there
// are none.
WeightsFile choose_weights(const training::RunPaths& paths, const std::string& asked);

// Into the network; refused when the run was trained on other data than there are now.
void load_weights(const WeightsFile& weights, training::Setup& setup);

// The update after which the weights were saved, if the file says so.
std::optional<std::int64_t> update_of(const WeightsFile& weights);

}  // namespace nru::cli
