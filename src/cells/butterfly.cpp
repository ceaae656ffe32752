#include "cells/butterfly.h"

#include <nru/error.h>

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "kernels/butterfly.h"

namespace nru {

using torch::Tensor;

namespace {

// z [.., 2, n] times e^{i angle}
Tensor turned(const Tensor& z, const Tensor& angle) {
  const Tensor re = z.select(-2, 0), im = z.select(-2, 1), c = angle.cos(), s = angle.sin();
  return torch::stack({c * re - s * im, s * re + c * im}, -2);
}

}  // namespace

TorchButterfly::TorchButterfly(std::int64_t n) {
  const kernels::Butterfly wiring(static_cast<int>(n));
  const auto layers = static_cast<std::int64_t>(wiring.layers().size());
  angle_ = torch::zeros({layers, n}, torch::kInt64);
  sign_ = torch::zeros({layers, n}, torch::kInt64);
  partner_ = torch::arange(n).repeat({layers, 1});
  auto angle = angle_.accessor<std::int64_t, 2>(), sign = sign_.accessor<std::int64_t, 2>();
  auto partner = partner_.accessor<std::int64_t, 2>();
  for (std::int64_t l = 0; l < layers; ++l) {
    const kernels::ButterflyLayer& layer = wiring.layers()[l];
    for (int p = 0; p < layer.pairs; ++p) {
      const int a = layer.lower(p), b = a + layer.stride;
      angle[l][a] = angle[l][b] = layer.first + p;
      sign[l][a] = -1;
      sign[l][b] = 1;
      partner[l][a] = b;
      partner[l][b] = a;
    }
  }
}

Tensor TorchButterfly::apply(const Tensor& x, const Tensor& theta) const {
  const auto device = x.device();
  const Tensor t = sign_.to(x.options()) * theta.take(angle_.to(device));  // [L,n]
  const Tensor C = t.cos(), S = t.sin(), partner = partner_.to(device);
  Tensor y = x;
  for (std::int64_t l = 0; l < t.size(0); ++l) y = C[l] * y + S[l] * y.index_select(-1, partner[l]);
  return y;
}

Tensor TorchButterfly::apply(const Tensor& x, const Tensor& theta, const Tensor& phi,
                             const Tensor& omega) const {
  const auto device = x.device();
  const Tensor t = sign_.to(x.options()) * theta.take(angle_.to(device));      // [L,n]
  const Tensor f = (sign_ > 0).to(x.options()) * phi.take(angle_.to(device));  // at b only
  const Tensor C = t.cos(), S = t.sin(), partner = partner_.to(device);
  Tensor y = x;
  for (std::int64_t l = 0; l < t.size(0); ++l) {
    const Tensor w = turned(y, f[l]);
    y = C[l] * w + S[l] * w.index_select(-1, partner[l]);
  }
  return turned(y, omega);
}

Tensor mod_relu(const Tensor& z, const Tensor& b, ModReLU form, double epsilon) {
  if (form == ModReLU::sign) return z.sign() * (z.abs() + epsilon + b).relu();
  // torch's norm has gradient 0 at 0, where a square root's would be NaN.
  const Tensor N = (z.dim() == 3 ? z.norm(2, {1}, /*keepdim=*/true) : z.abs()) + epsilon;
  return z * ((N + b).relu() / N);
}

kernels::ModRelu kernel_form(ModReLU form) {
  return form == ModReLU::smooth ? kernels::ModRelu::smooth : kernels::ModRelu::sign;
}

void check_butterfly(std::int64_t hidden_size, bool strict_fft, ModReLU form, double epsilon) {
  const auto n = static_cast<std::uint64_t>(hidden_size);
  if (hidden_size < 2)
    throw Error(fmt::format("hidden_size must be at least 2 to rotate anything, got {}", n));
  if (strict_fft && !std::has_single_bit(n)) {
    throw Error(fmt::format(
        "strict_fft needs a hidden_size that is a power of two, got {}; the nearest are {} and {}",
        n, std::bit_floor(n), std::bit_ceil(n)));
  }
  if (form == ModReLU::sign ? !(epsilon >= 0) : !(epsilon > 0)) {
    throw Error(fmt::format(
        "epsilon must be greater than 0, or with modrelu = sign at least 0, got {}", epsilon));
  }
}

std::vector<OptionSpec> butterfly_options(double epsilon) {
  return {{"modrelu",
           std::string("smooth"),
           "modReLU: smooth, or the published code's sign form",
           {"smooth", "sign"}},
          {"epsilon", epsilon, "eps of the modReLU; with sign it may be 0", {}},
          {"strict_fft", false, "refuse hidden sizes that are no power of two", {}},
          {"output_init",
           std::string("authors"),
           "output layer: U(+-sqrt(6/(I+O))) and bias 0.01 as published, or Xavier-normal and 0",
           {"authors", "xavier"}}};
}

void initialise_butterfly_output(Initializer& init, const Tensor& weight, const Tensor& bias,
                                 std::int64_t input_size, const OptionMap& options) {
  if (get<std::string>(options, "output_init") == "xavier") {
    init.xavier_normal(weight);
    init.constant(bias, 0);
    return;
  }
  const double bound = std::sqrt(6.0 / static_cast<double>(input_size + weight.size(0)));
  init.uniform(weight, -bound, bound);
  init.constant(bias, 0.01);
}

}  // namespace nru
