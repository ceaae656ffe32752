// What the tests of several cells ask of parameters: their names and shapes, and the laws they are
// drawn from.
#pragma once

#include <gtest/gtest.h>
#include <nru/layer.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runs.h"

namespace nru {

using Shapes = std::vector<std::pair<std::string, std::vector<std::int64_t>>>;

inline Shapes parameter_shapes(const LayerImpl& layer) {
  Shapes shapes;
  for (const auto& p : layer.named_parameters())
    shapes.emplace_back(p.key(), p.value().sizes().vec());
  return shapes;
}

// The parameters of the first layer in double, drawn anew; the layer is frozen.
inline Weights drawn(LayerImpl& layer, std::uint64_t seed = 1) {
  layer.to(torch::kDouble);
  layer.reset_parameters(seed);
  for (const torch::Tensor& p : layer.parameters()) p.set_requires_grad(false);
  return layer.weights(0);
}

// Mean and second moment within five standard errors; `kurtosis`: the fourth moment over the
// squared second.
inline void expect_moments(const torch::Tensor& t, double variance, double kurtosis,
                           const std::string& what) {
  const double count = static_cast<double>(t.numel());
  EXPECT_NEAR(t.mean().item<double>(), 0, 5 * std::sqrt(variance / count)) << what;
  EXPECT_NEAR(t.square().mean().item<double>(), variance,
              5 * variance * std::sqrt((kurtosis - 1) / count))
      << what;
}

// U(-bound, bound), of some tens of values or more.
inline void expect_uniform(const torch::Tensor& t, double bound, const std::string& what) {
  EXPECT_LE(largest(t), bound) << what;
  EXPECT_GT(largest(t), 0.9 * bound) << what;
  expect_moments(t, bound * bound / 3, 9.0 / 5, what);
}

// N(0, variance), of some thousands of values or more.
inline void expect_normal(const torch::Tensor& t, double variance, const std::string& what) {
  expect_moments(t, variance, 3, what);
  EXPECT_GT(largest(t), 3 * std::sqrt(variance)) << what << ": normal, not uniform";
}

inline void expect_orthogonal(const torch::Tensor& W, double tolerance = 1e-12) {
  EXPECT_LE(largest(torch::mm(W, W.t()) - torch::eye(W.size(0), W.options())), tolerance);
}

// weight_ih Xavier-normal and weight_hh orthogonal, each gate for itself.
inline void expect_gates_drawn(const Weights& w, std::int64_t gates) {
  const auto U = w("weight_ih").chunk(gates), W = w("weight_hh").chunk(gates);
  for (std::int64_t gate = 0; gate < gates; ++gate) {
    expect_normal(U[gate], 2.0 / static_cast<double>(U[gate].size(0) + U[gate].size(1)), "U");
    expect_orthogonal(W[gate]);
    for (std::int64_t other = 0; other < gate; ++other) {
      EXPECT_FALSE(torch::equal(U[gate], U[other]));
      EXPECT_FALSE(torch::equal(W[gate], W[other]));
    }
  }
}

}  // namespace nru
