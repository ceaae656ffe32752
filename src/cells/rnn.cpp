// The RNN: its equations in torch operations, its initialisation, its rows in the table.
#include <nru/cells/rnn.h>

#include <cmath>

#include "cells/cell.h"
#include "kernels/layer_norm.h"
#include "kernels/rnn.h"

namespace nru {

template <>
struct Cell<RNNOptions> : CellOf<RNNOptions> {
  using CellOf::CellOf;
  using Activation = RNNOptions::Activation;
  using RecurrentInit = RNNOptions::RecurrentInit;

  static void read(const OptionMap& map, RNNOptions& o) {
    const auto is = [&](const char* key, const char* value) {
      return get<std::string>(map, key) == value;
    };
    o.activation(is("activation", "tanh") ? Activation::tanh : Activation::relu);
    o.recurrent_init(is("recurrent_init", "identity") ? RecurrentInit::identity
                                                      : RecurrentInit::orthogonal);
    o.layer_norm(get<bool>(map, "layer_norm"));
  }

  template <class T>
  static kernels::Program<T> program(const RNNOptions& o, int input_size) {
    return kernels::rnn_program<T>({input_size, static_cast<int>(o.hidden_size()),
                                    o.activation() == Activation::tanh, o.layer_norm()});
  }

  StepValues step(const Tensor& x, const Tensors& state, const Weights& w) const {
    const Tensor& h_prev = state[0];  // [B,H]
    Tensor a =
        torch::linear(x, w("weight_ih"), w("bias_ih")) + torch::linear(h_prev, w("weight_hh"));
    if (options.layer_norm())
      a = torch::layer_norm(a, {a.size(1)}, w("norm_weight"), w("norm_bias"),
                            kernels::kLayerNormEps);
    const Tensor h = options.activation() == Activation::tanh ? a.tanh() : a.relu();
    return {h, {h}};
  }

  void initialise(Initializer& init, const Weights& w) const {
    init.xavier_normal(w("weight_ih"), std::sqrt(2.0));
    if (options.recurrent_init() == RecurrentInit::orthogonal) {
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
};

template class CellLayer<RNNImpl, RNNOptions>;

namespace {

CellInfo row(const std::string& name, const std::string& summary, const std::string& init) {
  return cell_row<RNNImpl>({
      .name = name,
      .summary = summary,
      .options = {{"hidden_size", std::int64_t{143}, "units of h", {}},
                  {"activation", std::string("relu"), "f", {"relu", "tanh"}},
                  {"recurrent_init",
                   init,
                   "the recurrent matrix at the start",
                   {"orthogonal", "identity"}},
                  {"layer_norm", true, "layer norm on the pre-activation", {}}},
      .sizes = hidden_sizes(143, 400, 1342),
      .class_defaults = {{"activation", std::string("tanh")}, {"layer_norm", false}},
  });
}

const CellRegistrar rnn_orth(row("rnn-orth", "ReLU RNN with layer norm, recurrence orthogonal",
                                 "orthogonal"));
const CellRegistrar rnn_id(row("rnn-id", "ReLU RNN with layer norm, recurrence the identity",
                               "identity"));

}  // namespace
}  // namespace nru
