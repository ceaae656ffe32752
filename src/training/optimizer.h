// Clipping and Adam on the flat buffers, with the state that a checkpoint keeps.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/optimizer.h"
#include "training/flat_parameters.h"

namespace nru::training {

class Optimizer {
 public:
  Optimizer(const kernels::AdamSettings& settings, double clip_norm, int threads,
            FlatParameters& parameters);

  // Norm of the gradients before clipping.
  double gradient_norm() const;
  // One update from the gradients; `norm` is theirs.
  void step(double norm);

  const kernels::AdamSettings& settings() const { return settings_; }
  double clip_norm() const { return clip_norm_; }
  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }
  std::vector<float>& m() { return m_; }
  std::vector<float>& v() { return v_; }
  std::vector<float>& v_max() { return v_max_; }      // empty without AMSGrad
  std::vector<float>& average() { return average_; }  // of the parameters; empty: none is kept

 private:
  kernels::AdamSettings settings_;
  double clip_norm_;
  int threads_;
  FlatParameters* parameters_;
  std::int64_t steps_ = 0;
  std::vector<float> m_, v_, v_max_, average_;
};

}  // namespace nru::training
