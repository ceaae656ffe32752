#include "training/optimizer.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/threads.h"

namespace nru::training {

Optimizer::Optimizer(const kernels::AdamSettings& settings, double clip_norm, int threads,
                     FlatParameters& parameters)
    : settings_(settings),
      clip_norm_(clip_norm),
      threads_(threads > 0 ? threads : kernels::available_threads()),
      parameters_(&parameters),
      m_(parameters.size()),
      v_(parameters.size()),
      v_max_(settings.amsgrad ? parameters.size() : 0),
      average_(parameters.values(),
               parameters.values() + (settings.average > 0 ? parameters.size() : 0)) {}

double Optimizer::gradient_norm() const {
  return std::sqrt(kernels::squared_norm(parameters_->gradients(), parameters_->size(), threads_));
}

bool Optimizer::accepts(double loss, double norm) const {
  return std::isfinite(norm) && std::isfinite(loss) &&
         (caution_.most_loss == 0 || loss <= caution_.most_loss);
}

void Optimizer::step(double norm) {
  ++steps_;
  kernels::AdamSettings settings = settings_;
  settings.learning_rate = std::ldexp(settings.learning_rate, -static_cast<int>(caution_.halvings));
  kernels::adam_update(
      settings, steps_, static_cast<float>(kernels::clip_scale(norm, clip_norm_)),
      parameters_->gradients(),
      {parameters_->values(), m_.data(), v_.data(), v_max_.data(), average_.data()},
      parameters_->size(), threads_);
}

void Optimizer::Snapshot::shrink(double factor) {
  for (auto* values : {&this->values, &average})
    for (float& value : *values) value *= static_cast<float>(factor);
}

Optimizer::Snapshot Optimizer::snapshot() const {
  const float* values = parameters_->values();
  return {{values, values + parameters_->size()}, m_, v_, v_max_, average_, steps_};
}

void Optimizer::restore(const Snapshot& snapshot) {
  std::copy(snapshot.values.begin(), snapshot.values.end(), parameters_->values());
  m_ = snapshot.m;
  v_ = snapshot.v;
  v_max_ = snapshot.v_max;
  average_ = snapshot.average;
  steps_ = snapshot.steps;
}

}  // namespace nru::training
