// The rule for float32 results of the kernels.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "runs.h"

namespace nru {

// A fused float32 result may err at most twice (values) or three times (gradients) as much against
// float64 as the same equations in float32 torch operations.
//
// The error of a tensor is its largest one, relative to the largest value; half a unit in the last
// place is granted to both, since rounding the exact result costs as much. Which of two equally
// good codes comes closer on one problem is chance (an ill-conditioned row multiplies whatever
// rounding it met first), hence the geometric mean over many problems.
class FloatErrors {
 public:
  void add(const std::vector<Named>& exact, const std::vector<Named>& plain,
           const std::vector<Named>& fused) {
    ++problems_;
    logs_.resize(exact.size());
    for (std::size_t i = 0; i < exact.size(); ++i) {
      logs_[i].plain += std::log(error(plain[i].value, exact[i].value));
      logs_[i].fused += std::log(error(fused[i].value, exact[i].value));
    }
  }

  // `tensors`: those of add(), for their names.
  void check(const std::vector<Named>& tensors, double bound) const {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_LE(fused(i), bound * plain(i)) << tensors[i].name;
      EXPECT_LE(plain(i), 1e-5) << tensors[i].name << ": not a stable recurrence";
    }
  }

 private:
  double plain(std::size_t i) const { return std::exp(logs_[i].plain / problems_); }
  double fused(std::size_t i) const { return std::exp(logs_[i].fused / problems_); }

  static double error(const torch::Tensor& of, const torch::Tensor& exact) {
    const double scale = std::max(largest(exact), std::numeric_limits<double>::min());
    return std::max(largest(of.to(torch::kDouble) - exact) / scale,
                    0.5 * std::numeric_limits<float>::epsilon());
  }
  struct Sums {
    double plain = 0, fused = 0;
  };
  std::vector<Sums> logs_;  // by tensor
  int problems_ = 0;
};

}  // namespace nru
