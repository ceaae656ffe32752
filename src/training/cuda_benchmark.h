// `nru bench --device cuda`.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "training/contender.h"

namespace nru::training {

// Throws nru::Error where there is nothing to time: no GPU, or no kernels in this build.
void run_on_cuda(const BenchOptions& options,
                 const std::function<void(const std::string&)>& progress, BenchReport& report);

// How the recurrence of each cell runs on the current device at the sizes of the tasks of `nru
// bench`: kernels::cuda::path_of(). Empty without a device.
struct CellPath {
  std::string task, cell, path;
};
std::vector<CellPath> cuda_paths();

// Clipping and Adam as torch does them fastest, and nothing that the host must wait for: torch's
// fused kernel, which also divides the gradients by what clipping asks for.
class TorchAdam {
 public:
  explicit TorchAdam(std::vector<torch::Tensor> parameters);
  // Before a backward pass: gradients then need no clearing and no adding.
  void drop_gradients();
  void step();

 private:
  std::vector<torch::Tensor> parameters_, m_, v_, steps_;
};

// torch's own LSTM and GRU through cuDNN, launch by launch and as one graph, with the number of
// parameters nearest to `parameters`. Empty where torch has no CUDA; `note` then says so.
std::vector<Contender> cuda_rivals(const Workload& w, std::int64_t parameters,
                                   const tasks::Batch& batch, std::string& note);

}  // namespace nru::training
