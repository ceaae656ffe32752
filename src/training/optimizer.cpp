#include "training/optimizer.h"

#include <cmath>

#include "kernels/cpu/threads.h"

namespace nru::training {

Optimizer::Optimizer(const kernels::AdamSettings& settings, double clip_norm, int threads,
                     FlatParameters& parameters)
    : settings_(settings),
      clip_norm_(clip_norm),
      threads_(threads > 0 ? threads : kernels::default_threads()),
      parameters_(&parameters),
      m_(parameters.size()),
      v_(parameters.size()),
      v_max_(settings.amsgrad ? parameters.size() : 0),
      average_(parameters.values(),
               parameters.values() + (settings.average > 0 ? parameters.size() : 0)) {}

double Optimizer::gradient_norm() const {
  return std::sqrt(kernels::squared_norm(parameters_->gradients(), parameters_->size(), threads_));
}

void Optimizer::step(double norm) {
  ++steps_;
  kernels::adam_update(
      settings_, steps_, static_cast<float>(kernels::clip_scale(norm, clip_norm_)),
      parameters_->gradients(),
      {parameters_->values(), m_.data(), v_.data(), v_max_.data(), average_.data()},
      parameters_->size(), threads_);
}

}  // namespace nru::training
