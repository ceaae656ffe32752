#include "cells/initializer.h"

#include <cmath>
#include <functional>
#include <vector>

namespace nru {
namespace {

// Values are made in double on the CPU and then rounded, so float and double networks of a seed
// agree.
void fill(const torch::Tensor& to, const std::function<double(std::uint64_t)>& draw) {
  const torch::NoGradGuard no_grad;
  auto values = torch::empty(to.sizes(), torch::kDouble);
  double* v = values.data_ptr<double>();
  for (std::int64_t i = 0; i < values.numel(); ++i) v[i] = draw(static_cast<std::uint64_t>(i));
  to.copy_(values);
}

// Eight sums side by side: one alone would wait for the addition before it at every term, which
// makes seconds of it at a thousand units.
double dot(const double* a, const double* b, std::int64_t n) {
  constexpr int kSums = 8;
  double sums[kSums] = {};
  std::int64_t i = 0;
  for (; i + kSums <= n; i += kSums) {
    for (int s = 0; s < kSums; ++s) sums[s] += a[i + s] * b[i + s];
  }
  for (; i < n; ++i) sums[i % kSums] += a[i] * b[i];
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

}  // namespace

void Initializer::uniform(const torch::Tensor& to, double low, double high) {
  const std::uint64_t index = tensors_++;
  fill(to,
       [&](std::uint64_t i) { return low + (high - low) * generator_.uniform_double(index, i); });
}

void Initializer::normal(const torch::Tensor& to, double deviation) {
  const std::uint64_t index = tensors_++;
  fill(to, [&](std::uint64_t i) { return deviation * generator_.normal(index, i); });
}

void Initializer::constant(const torch::Tensor& to, double value) {
  const torch::NoGradGuard no_grad;
  to.fill_(value);
}

void Initializer::linear(const torch::Tensor& to, std::int64_t fan_in) {
  const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
  uniform(to, -bound, bound);
}

void Initializer::xavier_normal(const torch::Tensor& to, double gain) {
  normal(to, gain * std::sqrt(2.0 / static_cast<double>(to.size(0) + to.size(1))));
}

void Initializer::xavier_uniform(const torch::Tensor& to, double gain) {
  const double bound = gain * std::sqrt(6.0 / static_cast<double>(to.size(0) + to.size(1)));
  uniform(to, -bound, bound);
}

// Gram-Schmidt on the rows of a Gaussian matrix, each row twice for accuracy. The diagonal of R is
// positive by construction, which is the sign convention that makes Q Haar-distributed.
void Initializer::orthogonal(const torch::Tensor& to) {
  const torch::NoGradGuard no_grad;
  const std::int64_t n = to.size(0);
  TORCH_CHECK(to.dim() == 2 && to.size(1) == n, "an orthogonal matrix is square");
  auto values = torch::empty({n, n}, torch::kDouble);
  normal(values, 1);
  double* q = values.data_ptr<double>();
  for (std::int64_t i = 0; i < n; ++i) {
    double* row = q + i * n;
    for (int pass = 0; pass < 2; ++pass) {
      for (std::int64_t j = 0; j < i; ++j) {
        const double* other = q + j * n;
        const double along = dot(row, other, n);
        for (std::int64_t k = 0; k < n; ++k) row[k] -= along * other[k];
      }
    }
    const double norm = std::sqrt(dot(row, row, n));
    for (std::int64_t k = 0; k < n; ++k) row[k] /= norm;
  }
  to.copy_(values);
}

void Initializer::gates(const torch::Tensor& weight_ih, const torch::Tensor& weight_hh) {
  const std::int64_t H = weight_hh.size(1);
  for (const torch::Tensor& U : weight_ih.split(H)) xavier_normal(U);
  for (const torch::Tensor& W : weight_hh.split(H)) orthogonal(W);
}

torch::Tensor Initializer::chrono(std::int64_t units, std::int64_t t_max, bool integers) {
  const std::uint64_t index = tensors_++;
  auto values = torch::empty({units}, torch::kDouble);
  fill(values, [&](std::uint64_t i) {
    if (integers)
      return std::log(1.0 + generator_.below(static_cast<std::uint32_t>(t_max), index, i));
    return std::log(1.0 + static_cast<double>(t_max - 2) * generator_.uniform_double(index, i));
  });
  return values;
}

}  // namespace nru
