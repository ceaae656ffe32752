#include "cli/run_weights.h"

#include <fmt/format.h>
#include <nru/error.h>

#include <CLI/CLI.hpp>
#include <charconv>

#include "cli/summary.h"
#include "cli/text.h"
#include "support/safetensors.h"
#include "support/suggest.h"

namespace nru::cli {

training::RunConfig config_of(const training::RunPaths& paths,
                              std::vector<std::pair<std::string, std::string>> changes) {
  if (!std::filesystem::exists(paths.config())) {
    throw Error(
        fmt::format("{} is not a run directory (no config.toml); give the --out of nru train",
                    paths.directory.string()));
  }
  training::ConfigSources sources;
  sources.file = paths.config();
  std::erase_if(changes, [](const auto& change) { return change.second.empty(); });
  sources.flags = std::move(changes);
  return resolve_config(sources, training::cell_defaults);
}

void add_place(CLI::App& command, std::string& device, std::string& threads) {
  command.add_option("--device", device, "cpu, cuda or cuda:N (default: where the run was made)")
      ->type_name("NAME")
      ->check(CLI::Validator(not_a_flag, ""));
  command.add_option("--threads", threads, "of the CPU (default: as many as the run had)")
      ->type_name("N")
      ->check(CLI::Validator(not_a_flag, ""));
}

WeightsFile choose_weights(const training::RunPaths& paths, const std::string& asked) {
  if (!asked.empty() && asked != "best" && asked != "last") {
    throw Error(
        fmt::format("unknown weights '{}'{}", asked, did_you_mean(asked, {"best", "last"})));
  }
  const bool best = std::filesystem::exists(paths.best());
  const bool last = std::filesystem::exists(paths.checkpoint());
  if (best && asked != "last") return {"best", paths.best()};
  if (last && asked != "best") return {"last", paths.checkpoint()};
  if (best || last) {
    throw Error(fmt::format("{} has no {} weights yet; use --weights {}", paths.directory.string(),
                            asked, best ? "best" : "last"));
  }
  throw Error(fmt::format("{} has no weights yet; train it first: {}", paths.directory.string(),
                          resume_command(paths.directory.string())));
}

void load_weights(const WeightsFile& weights, training::Setup& setup) {
  const SafetensorsFile file = SafetensorsFile::load(weights.path);
  training::require_same_data(file, setup.task->metadata());
  training::load_weights(file, setup.parameters);
}

std::optional<std::int64_t> update_of(const WeightsFile& weights) {
  const SafetensorsFile file = SafetensorsFile::load(weights.path);
  const auto found = file.metadata().find("update");
  if (found == file.metadata().end()) return std::nullopt;
  std::int64_t update = 0;
  const char* end = found->second.data() + found->second.size();
  const auto read = std::from_chars(found->second.data(), end, update);
  return read.ec == std::errc() && read.ptr == end ? std::optional(update) : std::nullopt;
}

}  // namespace nru::cli
