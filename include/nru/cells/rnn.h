// The simple recurrent network with the paper's variants: ReLU units behind layer norm, and a
// recurrent matrix that starts orthogonal (RNN-orth) or as the identity (RNN-id; Le, Jaitly and
// Hinton, "A simple way to initialize recurrent networks of rectified linear units", 2015).
//
//   a = U x + W h' + b
//   h = f(a)            or, with layer_norm, h = f(gamma * (a - mean(a))/sqrt(var(a) + 1e-5) +
//   beta)
//
// (' = previous step, * elementwise; mean and biased variance over the H units.) f is tanh or ReLU.
// Without layer norm (the default of this class) it is exactly torch::nn::RNN; the paper's runs use
// ReLU and layer norm.
//
// Parameters of layer n (torch's names; suffix _ln):
//   weight_ih [H, I] (U), weight_hh [H, H] (W), bias_ih [H] (b)
//   norm_weight [H] (gamma), norm_bias [H] (beta)                       with layer_norm
// torch keeps two biases whose sum is all that matters; here there is one. Layer norm takes the
// mean of b away again; the authors keep it, and so do the parameter counts.
//
// Initialisation (authors' code): U Xavier-normal with ReLU's gain sqrt(2), W orthogonal or the
// identity, b = 0, gamma = 1, beta = 0.
#pragma once

#include <nru/layer.h>

namespace nru {

struct RNNOptions : LayerOptions<RNNOptions> {
  enum class Activation { tanh, relu };
  enum class RecurrentInit { orthogonal, identity };

  using LayerOptions::LayerOptions;

  NRU_OPTION(Activation, activation, Activation::tanh);
  NRU_OPTION(RecurrentInit, recurrent_init, RecurrentInit::orthogonal);
  NRU_OPTION(bool, layer_norm, false);  // on the pre-activation
};

NRU_LAYER(RNN);

}  // namespace nru
