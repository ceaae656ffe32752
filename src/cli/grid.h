// The paper's experiments as a grid of jobs: what `nru reproduce` will do, before it does it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/definition.h"
#include "experiments/job.h"

namespace nru::cli {

struct GridRequest {
  std::vector<std::string> names;  // experiments, or "all"
  experiments::Selection selection;
  std::filesystem::path out;                 // the runs' root
  std::string device;                        // empty: as the experiments say
  std::vector<std::string> cells;            // only these; empty: all
  std::vector<std::string> variants;         // likewise
  std::optional<std::int64_t> most_updates;  // longer runs end there, for now
  bool inspect = true;                       // this program has the command
};

// Every run that the named experiments show, each once, settings resolved and checked. Throws
// nru::Error for unknown names (with the nearest) and impossible settings (with the file).
std::vector<experiments::Job> make_grid(const std::vector<experiments::Experiment>& experiments,
                                        const GridRequest& request);

// What would stop every run, told once and before anything is made: throws nru::Error where there
// is no such device, where `out` cannot be a folder, or where no run that is left has its data.
void check_surroundings(const std::vector<experiments::Job>& jobs,
                        const std::filesystem::path& out);

}  // namespace nru::cli
