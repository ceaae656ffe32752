// The EURNN as a torch module: its options, its equations in torch operations, its initialisation,
// its row in the table.
#include <nru/cells/eurnn.h>
#include <nru/error.h>

#include <numbers>

#include "cells/butterfly.h"
#include "cells/initializer.h"
#include "cells/registry.h"
#include "kernels/eurnn.h"

namespace nru {
namespace {

using torch::Tensor;

void check(const EURNNOptions& o) {
  check_butterfly(o.hidden_size(), o.strict_fft(), o.epsilon());
  if (o.complex() && o.modrelu() == ModReLU::sign)
    throw Error("modrelu = sign is for real numbers; use modrelu = smooth, or complex = false");
}

kernels::EurnnShape shape(const EURNNOptions& o, std::int64_t input_size) {
  return {static_cast<int>(input_size), static_cast<int>(o.hidden_size()), o.complex(),
          kernel_form(o.modrelu()), o.epsilon()};
}

}  // namespace

EURNNImpl::EURNNImpl(const EURNNOptions& o) : LayerImpl(LayerSettings::from(o)), options(o) {
  check(o);
  butterfly_ = std::make_shared<TorchButterfly>(o.hidden_size());
  build();
}

StepValues EURNNImpl::reference_step(const Tensor& x, const std::vector<Tensor>& state,
                                     const Weights& w) const {
  const Tensor& h_prev = state[0];                   // [B,n], complex: [B,2n]
  const Tensor Ux = torch::linear(x, w("weight_ih"));
  if (!options.complex()) {
    const Tensor z = butterfly_->apply(h_prev, w("theta")) + Ux;
    const Tensor h = mod_relu(z, w("bias"), options.modrelu(), options.epsilon());
    return {h, {h}};
  }
  const auto parts = [&](const Tensor& t) { return t.reshape({t.size(0), 2, -1}); };  // Re, Im
  const Tensor z =
      butterfly_->apply(parts(h_prev), w("theta"), w("phi"), w("omega")) + parts(Ux);  // [B,2,n]
  const Tensor h = mod_relu(z, w("bias"), options.modrelu(), options.epsilon());
  return {h.select(1, 0), {h.flatten(1)}};
}

void EURNNImpl::initialise(Initializer& init, const Weights& w) const {
  constexpr double pi = std::numbers::pi;
  init.uniform(w("theta"), -pi, pi);
  if (options.complex()) {
    init.uniform(w("phi"), -pi, pi);
    init.uniform(w("omega"), -pi, pi);
  }
  init.uniform(w("weight_ih"), -0.01, 0.01);
  init.constant(w("bias"), 0);
}

kernels::Program<float> EURNNImpl::float_program(std::int64_t input_size) const {
  return kernels::eurnn_program<float>(shape(options, input_size));
}
kernels::Program<double> EURNNImpl::double_program(std::int64_t input_size) const {
  return kernels::eurnn_program<double>(shape(options, input_size));
}

std::shared_ptr<torch::nn::Module> EURNNImpl::clone(const OptionalDevice& device) const {
  return copy_into(std::make_shared<EURNNImpl>(options), device);
}

namespace {

EURNNOptions from_map(std::int64_t input_size, const OptionMap& map) {
  EURNNOptions o(input_size, get<std::int64_t>(map, "hidden_size"));
  o.complex(get<bool>(map, "complex")).modrelu(modrelu_option(map));
  o.epsilon(get<double>(map, "epsilon")).strict_fft(get<bool>(map, "strict_fft"));
  return o;
}

CellInfo row() {
  const auto size = [](std::int64_t hidden, bool complex) {
    return OptionMap{{"hidden_size", hidden}, {"complex", complex}};
  };
  std::vector<OptionSpec> options = {
      {"hidden_size", std::int64_t{589}, "units n of h", {}},
      {"complex", true, "complex h and unitary Q; otherwise real h and orthogonal Q", {}}};
  for (const OptionSpec& option : butterfly_options(0.01)) options.push_back(option);
  return {
      .name = "eurnn",
      .summary = "Efficient Unitary RNN: a butterfly of rotations and modReLU",
      .options = options,
      .sizes = {{"copy", size(589, true)},
                {"psmnist", size(1024, false)},
                {"char-lm", size(8192, false)}},
      .clip = false,
      .make = [](std::int64_t input_size, const OptionMap& map) -> std::shared_ptr<LayerImpl> {
        return std::make_shared<EURNNImpl>(from_map(input_size, map));
      },
      .parameters =
          [](std::int64_t input_size, const OptionMap& map) {
            const EURNNOptions o = from_map(input_size, map);
            check(o);
            return kernels::eurnn_program<float>(shape(o, input_size)).parameters;
          },
      .initialise_output = initialise_butterfly_output,
  };
}

const CellRegistrar registrar(row());

}  // namespace
}  // namespace nru
