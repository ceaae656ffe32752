// Full updates (forward, loss, backward, clipping, Adam) of our backends and of torch's own layers,
// timed side by side in one process, next to the time that their arithmetic alone would take.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace nru::training {

// The shape of a task's updates; the values are random.
struct Workload {
  std::string task;
  std::string size_class;
  int steps, batch, input, classes;
  int loss_from;      // first step with a loss
  bool symbols;       // input by class, one-hot or embedded
  int embedding = 0;  // its width; 0: none

  int layer_input() const { return embedding > 0 ? embedding : input; }
};
const std::vector<Workload>& workloads();

struct BenchRow {
  std::string task, cell;
  std::string backend;  // fused | reference | torch
  int threads = 1;
  std::int64_t parameters = 0;
  double median_ms = 0, best_ms = 0;
  double floor_ms = 0;  // FLOP floor: arithmetic at the measured FMA peak
  int updates = 0;      // timed
};

struct BenchOptions {
  std::vector<std::string> tasks, cells, backends;  // empty: all
  std::vector<int> threads{1};
  double seconds = 3;  // per contender
};

struct BenchReport {
  std::vector<BenchRow> rows;
  std::vector<double> peak_gflops;  // by entry of BenchOptions::threads
};

// Contenders of one task and thread count take turns of a few updates.
BenchReport run_benchmark(const BenchOptions& options,
                          const std::function<void(const std::string&)>& progress);

}  // namespace nru::training
