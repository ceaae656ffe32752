// What `nru inspect` found, and the files it leaves behind.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/run_weights.h"
#include "training/inspection.h"

namespace nru::cli {

struct ParameterRow {
  std::string name, shape;
  std::int64_t size = 0;
  double mean = 0, deviation = 0, largest = 0;
};

// Everything the command shows.
struct Findings {
  training::RunConfig config;
  WeightsFile weights;
  std::vector<ParameterRow> parameters;
  tasks::Batch batch;  // one row
  std::vector<tasks::Stretch> stretches;
  training::MemoryMap memory;
  std::vector<double> gradient_flow;
  std::vector<training::LagScore> lags;         // of tasks with a lag
  std::vector<training::GroupPosition> groups;  // of tasks that carry a state
};

// memory.csv, memory_change.csv, memory_change.pgm, input.csv, lags.csv, groups.csv,
// gradient_flow.csv and the figures. Returns why there are no figures, or "".
std::string write_files(const Findings& found, const std::filesystem::path& folder);

}  // namespace nru::cli
