// The GRU, in the two forms in use: the reset gate acts before the recurrent product (Cho et al.
// 2014, and the authors' code; the default) or after it (reset_after: torch and cuDNN).
//
//   r = s(U_r x + W_r h' + b_r)
//   z = s(U_z x + W_z h' + b_z)
//   n = tanh(U_n x + W_n (r*h') + b_n)              or  tanh(U_n x + b_n + r*(W_n h' + b_hn))
//   h = (1-z)*n + z*h'
//
// (' = previous step, * elementwise, s the logistic function.) The two forms are different
// functions: weights do not move from one to the other. With reset_after the layer is exactly
// torch::nn::GRU.
//
// Parameters of layer n (torch's names and gate order r z n; suffix _ln):
//   weight_ih [3H, I] (U), weight_hh [3H, H] (W), bias_ih [3H] (b)
//   bias_hn [H]                                                         with reset_after
// torch keeps two biases; of r and z only their sum matters, so here there is one.
//
// Initialisation (authors' code): U Xavier-normal per gate, W orthogonal per gate, biases 0.
#pragma once

#include <nru/layer.h>

namespace nru {

struct GRUOptions : LayerOptions<GRUOptions> {
  using LayerOptions::LayerOptions;

  NRU_OPTION(bool, reset_after, false);
};

NRU_LAYER(GRU);

}  // namespace nru
