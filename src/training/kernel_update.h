// A model's training update through the CUDA kernels, on one batch that stays: for `nru bench`.
//
// Forward, loss, backward, clipping and Adam are one CUDA graph; so are its parts, to be timed
// alone.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cells/model.h"
#include "tasks/task.h"

namespace nru::training {

class KernelUpdate {
 public:
  // Throws kernels::cuda::Error where the device refuses.
  KernelUpdate(const ModelSettings& settings, const tasks::Batch& batch, bool tf32);
  ~KernelUpdate();

  // Each returns when it is done.
  void update();
  void gradients();  // all up to the gradients
  void forward();    // the layer alone, with what a backward pass needs

  double loss();
  std::string path() const;                    // kernels::cuda::path_of()
  std::vector<float> gradient_values() const;  // of the last call

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace nru::training
