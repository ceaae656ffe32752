// Clipping and Adam on the flat buffers, with the state that a checkpoint keeps.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/optimizer.h"
#include "training/flat_parameters.h"

namespace nru::training {

class Optimizer {
 public:
  // The parameters and all that an update of them depends on, at one time.
  struct Snapshot {
    std::vector<float> values, m, v, v_max, average;
    std::int64_t steps = 0;

    void shrink(double factor);  // the values and their average
  };

  Optimizer(const kernels::AdamSettings& settings, double clip_norm, int threads,
            FlatParameters& parameters);

  // Norm of the gradients before clipping.
  double gradient_norm() const;
  // Whether to make an update from such gradients: their norm and the loss are finite, and the loss
  // is not more than caution allows.
  bool accepts(double loss, double norm) const;
  // One update from the gradients; `norm` is theirs.
  void step(double norm);

  Snapshot snapshot() const;
  void restore(const Snapshot& snapshot);

  const kernels::AdamSettings& settings() const { return settings_; }
  double clip_norm() const { return clip_norm_; }
  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }
  const kernels::Caution& caution() const { return caution_; }
  void set_caution(const kernels::Caution& caution) { caution_ = caution; }
  std::vector<float>& m() { return m_; }
  std::vector<float>& v() { return v_; }
  std::vector<float>& v_max() { return v_max_; }      // empty without AMSGrad
  std::vector<float>& average() { return average_; }  // of the parameters; empty: none is kept

 private:
  kernels::AdamSettings settings_;
  double clip_norm_;
  int threads_;
  FlatParameters* parameters_;
  kernels::Caution caution_;
  std::int64_t steps_ = 0;
  std::vector<float> m_, v_, v_max_, average_;
};

}  // namespace nru::training
