// Draws initial weights from the counter-based generator, so that a seed means the same network on
// every machine.
#pragma once

#include <nru/torch.h>

#include <cstdint>

#include "kernels/philox.h"

namespace nru {

class Initializer {
 public:
  explicit Initializer(std::uint64_t seed) : generator_(seed, kernels::Stream::initial_weights) {}

  // Each call fills one tensor (a view will do) from numbers of its own.
  void uniform(const torch::Tensor& to, double low, double high);
  void normal(const torch::Tensor& to, double deviation);
  void constant(const torch::Tensor& to, double value);
  void linear(const torch::Tensor& to, std::int64_t fan_in);  // U(-1/sqrt(fan_in), 1/sqrt(fan_in))
  void xavier_normal(const torch::Tensor& to,
                     double gain = 1);  // [out, in]: N(0, gain^2 2/(in+out))
  void xavier_uniform(const torch::Tensor& to,
                      double gain = 1);      // U(-b, b), b = gain sqrt(6/(in+out)): that variance
  void orthogonal(const torch::Tensor& to);  // square, from the Haar measure
  // The matrices of a cell with gates, stacked as in torch: [gH, I] Xavier-normal and [gH, H]
  // orthogonal, each gate for itself.
  void gates(const torch::Tensor& weight_ih, const torch::Tensor& weight_hh);
  // Chrono draws u for each unit: integers {1..t_max}, or the reals [1, t_max-1]. Returns log u in
  // double.
  torch::Tensor chrono(std::int64_t units, std::int64_t t_max, bool integers);

 private:
  kernels::Philox generator_;
  std::uint64_t tensors_ = 0;  // drawn so far: the generator's index
};

}  // namespace nru
