// The RNN as a torch module: its options, its equations in torch operations, its initialisation,
// its rows in the table.
#include <nru/cells/rnn.h>

#include <cmath>

#include "cells/initializer.h"
#include "cells/registry.h"
#include "kernels/rnn.h"

namespace nru {
namespace {

using torch::Tensor;

kernels::RnnShape shape(const RNNOptions& o, std::int64_t input_size) {
  return {static_cast<int>(input_size), static_cast<int>(o.hidden_size()),
          o.activation() == RNNOptions::Activation::tanh, o.layer_norm()};
}

}  // namespace

RNNImpl::RNNImpl(const RNNOptions& o) : LayerImpl(LayerSettings::from(o)), options(o) { build(); }

StepValues RNNImpl::reference_step(const Tensor& x, const std::vector<Tensor>& state,
                                   const Weights& w) const {
  const Tensor& h_prev = state[0];  // [B,H]
  Tensor a = torch::linear(x, w("weight_ih"), w("bias_ih")) + torch::linear(h_prev, w("weight_hh"));
  if (options.layer_norm())
    a = torch::layer_norm(a, {a.size(1)}, w("norm_weight"), w("norm_bias"), 1e-5);
  const Tensor h = options.activation() == RNNOptions::Activation::tanh ? a.tanh() : a.relu();
  return {h, {h}};
}

void RNNImpl::initialise(Initializer& init, const Weights& w) const {
  init.xavier_normal(w("weight_ih"), std::sqrt(2.0));
  if (options.recurrent_init() == RNNOptions::RecurrentInit::orthogonal) {
    init.orthogonal(w("weight_hh"));
  } else {
    const torch::NoGradGuard no_grad;
    w("weight_hh").copy_(torch::eye(options.hidden_size()));
  }
  init.constant(w("bias_ih"), 0);
  if (options.layer_norm()) {
    init.constant(w("norm_weight"), 1);
    init.constant(w("norm_bias"), 0);
  }
}

kernels::Program<float> RNNImpl::float_program(std::int64_t input_size) const {
  return kernels::rnn_program<float>(shape(options, input_size));
}
kernels::Program<double> RNNImpl::double_program(std::int64_t input_size) const {
  return kernels::rnn_program<double>(shape(options, input_size));
}

std::shared_ptr<torch::nn::Module> RNNImpl::clone(const OptionalDevice& device) const {
  return copy_into(std::make_shared<RNNImpl>(options), device);
}

namespace {

RNNOptions from_map(std::int64_t input_size, const OptionMap& map) {
  RNNOptions o(input_size, get<std::int64_t>(map, "hidden_size"));
  o.activation(get<std::string>(map, "activation") == "tanh" ? RNNOptions::Activation::tanh
                                                             : RNNOptions::Activation::relu);
  o.recurrent_init(get<std::string>(map, "recurrent_init") == "identity"
                       ? RNNOptions::RecurrentInit::identity
                       : RNNOptions::RecurrentInit::orthogonal);
  o.layer_norm(get<bool>(map, "layer_norm"));
  return o;
}

CellInfo row(const std::string& name, const std::string& summary, const std::string& init) {
  const auto size = [](std::int64_t hidden) { return OptionMap{{"hidden_size", hidden}}; };
  return {
      .name = name,
      .summary = summary,
      .options = {{"hidden_size", std::int64_t{143}, "units of h", {}},
                  {"activation", std::string("relu"), "f", {"relu", "tanh"}},
                  {"recurrent_init",
                   init,
                   "the recurrent matrix at the start",
                   {"orthogonal", "identity"}},
                  {"layer_norm", true, "layer norm on the pre-activation", {}}},
      .sizes = {{"copy", size(143)}, {"psmnist", size(400)}, {"char-lm", size(1342)}},
      .class_defaults = {{"activation", std::string("tanh")}, {"layer_norm", false}},
      .make = [](std::int64_t input_size, const OptionMap& map) -> std::shared_ptr<LayerImpl> {
        return std::make_shared<RNNImpl>(from_map(input_size, map));
      },
      .parameters =
          [](std::int64_t input_size, const OptionMap& map) {
            return kernels::rnn_program<float>(shape(from_map(input_size, map), input_size))
                .parameters;
          },
  };
}

const CellRegistrar rnn_orth(row("rnn-orth", "ReLU RNN with layer norm, recurrence orthogonal",
                                 "orthogonal"));
const CellRegistrar rnn_id(row("rnn-id", "ReLU RNN with layer norm, recurrence the identity",
                               "identity"));

}  // namespace
}  // namespace nru
