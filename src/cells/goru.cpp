// The GORU as a torch module: its options, its equations in torch operations, its initialisation,
// its row in the table.
#include <nru/cells/goru.h>

#include <cmath>
#include <numbers>

#include "cells/butterfly.h"
#include "cells/initializer.h"
#include "cells/registry.h"
#include "kernels/goru.h"

namespace nru {
namespace {

using torch::Tensor;

void check(const GORUOptions& o) { check_butterfly(o.hidden_size(), o.strict_fft(), o.epsilon()); }

kernels::GoruShape shape(const GORUOptions& o, std::int64_t input_size) {
  return {static_cast<int>(input_size), static_cast<int>(o.hidden_size()), kernel_form(o.modrelu()),
          o.epsilon()};
}

}  // namespace

GORUImpl::GORUImpl(const GORUOptions& o) : LayerImpl(LayerSettings::from(o)), options(o) {
  check(o);
  butterfly_ = std::make_shared<TorchButterfly>(o.hidden_size());
  build();
}

StepValues GORUImpl::reference_step(const Tensor& x, const std::vector<Tensor>& state,
                                    const Weights& w) const {
  const Tensor& h_prev = state[0];  // [B,n]
  const Tensor a =
      torch::linear(x, w("weight_ih"), w("bias_ih")) + torch::linear(h_prev, w("weight_hh"));
  const auto gate = a.sigmoid().chunk(2, 1);
  const Tensor &r = gate[0], &g = gate[1];
  const Tensor u =
      r * butterfly_->apply(h_prev, w("theta")) + torch::linear(x, w("weight_candidate"));
  const Tensor c = mod_relu(u, w("bias_candidate"), options.modrelu(), options.epsilon());
  const Tensor h = g * h_prev + (1 - g) * c;
  return {h, {h}};
}

void GORUImpl::initialise(Initializer& init, const Weights& w) const {
  const std::int64_t n = options.hidden_size();
  init.uniform(w("theta"), -std::numbers::pi, std::numbers::pi);
  for (const char* name : {"weight_candidate", "weight_ih", "weight_hh"})
    init.uniform(w(name), -0.01, 0.01);
  init.constant(w("bias_ih"), 2);
  const double bound = options.zero_gate_bias() ? 0 : std::sqrt(3.0 / static_cast<double>(n));
  init.uniform(w("bias_ih").narrow(0, n, n), -bound, bound);
  init.constant(w("bias_candidate"), 0.01);
}

kernels::Program<float> GORUImpl::float_program(std::int64_t input_size) const {
  return kernels::goru_program<float>(shape(options, input_size));
}
kernels::Program<double> GORUImpl::double_program(std::int64_t input_size) const {
  return kernels::goru_program<double>(shape(options, input_size));
}

std::shared_ptr<torch::nn::Module> GORUImpl::clone(const OptionalDevice& device) const {
  return copy_into(std::make_shared<GORUImpl>(options), device);
}

namespace {

GORUOptions from_map(std::int64_t input_size, const OptionMap& map) {
  GORUOptions o(input_size, get<std::int64_t>(map, "hidden_size"));
  o.modrelu(modrelu_option(map)).epsilon(get<double>(map, "epsilon"));
  o.strict_fft(get<bool>(map, "strict_fft")).zero_gate_bias(get<bool>(map, "zero_gate_bias"));
  return o;
}

CellInfo row() {
  const auto size = [](std::int64_t hidden) { return OptionMap{{"hidden_size", hidden}}; };
  std::vector<OptionSpec> options = {
      {"hidden_size", std::int64_t{98}, "units n of h", {}},
      {"zero_gate_bias", false, "b_g starts at 0 instead of U(+-sqrt(3/n))", {}}};
  for (const OptionSpec& option : butterfly_options(0.001)) options.push_back(option);
  return {
      .name = "goru",
      .summary = "Gated Orthogonal Recurrent Unit: gates around a butterfly of rotations",
      .options = options,
      .sizes = {{"copy", size(98)}, {"psmnist", size(282)}, {"char-lm", size(883)}},
      .clip = false,
      .make = [](std::int64_t input_size, const OptionMap& map) -> std::shared_ptr<LayerImpl> {
        return std::make_shared<GORUImpl>(from_map(input_size, map));
      },
      .parameters =
          [](std::int64_t input_size, const OptionMap& map) {
            const GORUOptions o = from_map(input_size, map);
            check(o);
            return kernels::goru_program<float>(shape(o, input_size)).parameters;
          },
      .initialise_output = initialise_butterfly_output,
  };
}

const CellRegistrar registrar(row());

}  // namespace
}  // namespace nru
