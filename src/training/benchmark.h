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
  std::string device = "cpu";
  std::string precision = "float32";  // of the products: float32 | tf32
  bool graph = false;                 // an update is one CUDA graph
  int threads = 1;                    // on the CPU
  std::int64_t parameters = 0;
  double median_ms = 0, best_ms = 0;
  double floor_ms = 0;       // FLOP floor: arithmetic at the measured peak
  double byte_floor_ms = 0;  // CUDA: what must be moved, at the measured bandwidth
  std::string path;  // CUDA, ours: how the recurrence runs, as kernels::cuda::path_of() says
  // Rows of ours in TF32: |g - g32| / |g32| of the gradient, g32 that of the row in float32.
  double gradient_error = 0;
  // CUDA, per time step: the forward pass alone, and what loss and backward pass add to it.
  double forward_us = 0, backward_us = 0;
  int updates = 0;  // timed
};

struct BenchOptions {
  std::vector<std::string> tasks, cells, backends;  // empty: all
  std::string device = "cpu";                       // or cuda
  std::vector<int> threads;                         // on the CPU: rows for each of these
  double seconds = 3;                               // per contender
};

struct BenchReport {
  std::vector<BenchRow> rows;
  std::vector<double> peak_gflops;  // CPU: by entry of BenchOptions::threads

  struct Gpu {
    std::string name, architectures, driver;  // kernels were built for; CUDA of the driver
    double fma_gflops = 0, tf32_gflops = 0, copy_gb_per_s = 0, clock_mhz = 0;
  } gpu;
  std::vector<std::string> notes;  // which rows are missing, and why
};

// Contenders of one task and thread count take turns of a few updates. Throws nru::Error for
// unknown names, and for a device that is not there.
BenchReport run_benchmark(const BenchOptions& options,
                          const std::function<void(const std::string&)>& progress);

}  // namespace nru::training
