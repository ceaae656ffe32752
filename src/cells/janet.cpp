// JANET as a torch module: its options, its equations in torch operations, its initialisation, its
// row in the table.
#include <nru/cells/janet.h>
#include <nru/error.h>

#include <fmt/format.h>

#include <cmath>

#include "cells/forget_gate.h"
#include "cells/initializer.h"
#include "cells/registry.h"
#include "kernels/janet.h"

namespace nru {
namespace {

using torch::Tensor;

constexpr double kLargestBeta = 30;  // e^beta times the smallest 1-f must be a number in float

void check(const JANETOptions& o) {
  check_chrono(o.chrono_t_max());
  if (!(std::abs(o.beta()) <= kLargestBeta)) {
    throw Error(fmt::format("beta must be between {} and {} (JANET's own code has 1), got {}",
                            -kLargestBeta, kLargestBeta, o.beta()));
  }
}

kernels::JanetShape shape(const JANETOptions& o, std::int64_t input_size) {
  return {static_cast<int>(input_size), static_cast<int>(o.hidden_size()), o.beta()};
}

}  // namespace

JANETImpl::JANETImpl(const JANETOptions& o) : LayerImpl(LayerSettings::from(o)), options(o) {
  check(o);
  build();
}

StepValues JANETImpl::reference_step(const Tensor& x, const std::vector<Tensor>& state,
                                     const Weights& w) const {
  const Tensor& h_prev = state[0];  // [B,H]
  const Tensor a =
      torch::linear(x, w("weight_ih"), w("bias_ih")) + torch::linear(h_prev, w("weight_hh"));
  const auto gate = a.chunk(2, 1);
  const Tensor f = gate[0].sigmoid(), g = gate[1].tanh();
  const Tensor s2 = options.beta() == 0 ? f : (gate[0] - options.beta()).sigmoid();
  const Tensor h = f * h_prev + (1 - s2) * g;
  return {h, {h}};
}

void JANETImpl::initialise(Initializer& init, const Weights& w) const {
  const std::int64_t H = options.hidden_size();
  for (int gate = 0; gate < 2; ++gate) init.xavier_normal(w("weight_ih").narrow(0, gate * H, H));
  for (int gate = 0; gate < 2; ++gate) init.orthogonal(w("weight_hh").narrow(0, gate * H, H));
  init.constant(w("bias_ih"), 0);
  const torch::NoGradGuard no_grad;
  w("bias_ih").narrow(0, 0, H).copy_(draw_forget_bias(init, options));
}

kernels::Program<float> JANETImpl::float_program(std::int64_t input_size) const {
  return kernels::janet_program<float>(shape(options, input_size));
}
kernels::Program<double> JANETImpl::double_program(std::int64_t input_size) const {
  return kernels::janet_program<double>(shape(options, input_size));
}

std::shared_ptr<torch::nn::Module> JANETImpl::clone(const OptionalDevice& device) const {
  return copy_into(std::make_shared<JANETImpl>(options), device);
}

namespace {

JANETOptions from_map(std::int64_t input_size, const OptionMap& map) {
  JANETOptions o(input_size, get<std::int64_t>(map, "hidden_size"));
  o.beta(get<double>(map, "beta"));
  read_forget_options(map, o);
  return o;
}

OptionMap size(std::int64_t hidden) { return {{"hidden_size", hidden}}; }

std::vector<OptionSpec> option_specs() {
  std::vector<OptionSpec> options{
      {"hidden_size", std::int64_t{101}, "units of h", {}},
      {"beta", 0.0, "shift of the gate before the new input; JANET's own code has 1", {}}};
  for (const OptionSpec& spec : forget_options()) options.push_back(spec);
  return options;
}

const CellRegistrar registrar({
    .name = "janet",
    .summary = "JANET: an LSTM with a forget gate only, chrono-initialised",
    .options = option_specs(),
    .sizes = {{"copy", size(101)}, {"psmnist", size(283)}, {"char-lm", size(930)}},
    .chrono = true,
    .make = [](std::int64_t input_size, const OptionMap& map) -> std::shared_ptr<LayerImpl> {
      return std::make_shared<JANETImpl>(from_map(input_size, map));
    },
    .parameters =
        [](std::int64_t input_size, const OptionMap& map) {
          const JANETOptions o = from_map(input_size, map);
          check(o);
          return kernels::janet_program<float>(shape(o, input_size)).parameters;
        },
});

}  // namespace
}  // namespace nru
