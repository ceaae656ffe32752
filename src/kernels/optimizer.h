// Adam and gradient clipping on flat buffers: each parameter is read and written once per update.
//
// The elements are cut into blocks of a fixed size, and sums of blocks are added in order, so the
// result has the same bits on any number of threads.
#pragma once

#include <cstdint>

namespace nru::kernels {

// Sum of squares in float64: finite float32 gradients may have squares beyond the range of float32.
// NaN and infinities carry over.
double squared_norm(const float* gradient, std::int64_t count, int threads);

// What to multiply gradients of this norm with so that it is at most max_norm; max_norm 0 = never
// clip. The 1e-6 is torch's (clip_grad_norm_).
double clip_scale(double norm, double max_norm);

struct AdamSettings {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  bool amsgrad = false;
  double average = 0;  // decay per update of the parameters' moving average; 0: none is kept
  // The step size falls linearly to zero over the last `annealed` of `steps` steps; 0: never.
  std::int64_t steps = 0;
  std::int64_t annealed = 0;
};

// The learning rate of a step, counted from 1. After the last it stays at that one's.
constexpr double learning_rate_at(const AdamSettings& settings, std::int64_t step) {
  const std::int64_t to_go = step < settings.steps ? settings.steps - step + 1 : 1;
  if (to_go >= settings.annealed) return settings.learning_rate;
  return settings.learning_rate * static_cast<double>(to_go) /
         static_cast<double>(settings.annealed);
}

// How a run that has exploded goes on.
struct Caution {
  std::int64_t halvings = 0;  // of the learning rate
  double most_loss = 0;       // an update with a larger loss is skipped; 0: whatever the loss
  bool operator==(const Caution& other) const {  // not by default: nvcc reads this as C++17
    return halvings == other.halvings && most_loss == other.most_loss;
  }
};

// What an update changes: `count` values each.
struct AdamState {
  float* parameter = nullptr;
  float* m = nullptr;
  float* v = nullptr;
  float* v_max = nullptr;    // may be null without AMSGrad
  float* average = nullptr;  // may be null where settings.average is 0
};

// Throws std::invalid_argument where a buffer that the settings ask for is missing.
void check_buffers(const AdamSettings& settings, const AdamState& state);

// One update, as torch::optim::Adam does it:
//   g = gradient_scale * gradient;  m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   AMSGrad: v_max = max(v_max, v) takes the place of v below
//   parameter -= lr / (1 - beta1^step) * m / (sqrt(v) / sqrt(1 - beta2^step) + eps)
// where lr is learning_rate_at(settings, step),
// and, with a decay d of the average,
//   average += (1 - d) / (1 - d^step) * (parameter - average)
// That is the moving average from zero on, divided by the weight of what is in it (as Adam does it
// with its moments): the first update's parameters, then the mean of all since, then those of the
// last 1 / (1 - d) updates. Initial parameters never count. step counts from 1.
void adam_update(const AdamSettings& settings, std::int64_t step, float gradient_scale,
                 const float* gradient, const AdamState& state, std::int64_t count, int threads);

}  // namespace nru::kernels
