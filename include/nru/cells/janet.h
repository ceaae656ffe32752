// JANET, "just another network": an LSTM of which only the forget gate is left (van der Westhuizen
// and Lasenby, "The unreasonable effectiveness of the forget gate", 2018).
//
//   f = s(U_f x + W_f h' + b_f)
//   g = tanh(U_c x + W_c h' + b_c)
//   h = f*h' + (1 - s(a_f - beta))*g,    a_f = the argument of s in f
//
// (' = previous step, * elementwise, s the logistic function.) With beta = 0, the default and what
// the NRU authors' code computes, the last line is h = f*h' + (1-f)*g; JANET's own code has
// beta = 1.
//
// Parameters of layer n (gate order f c; suffix _ln):
//   weight_ih [2H, I] (U), weight_hh [2H, H] (W), bias_ih [2H] (b)
//
// Initialisation (authors' code): U Xavier-normal per gate, W orthogonal per gate, b_c = 0, b_f
// = 1. Chrono (chrono_t_max = T >= 2; all of the paper's runs): b_f = log u, u uniform in the
// integers {1..T} per unit; with chrono_form = paper, u is uniform in the reals [1, T-1].
#pragma once

#include <nru/cells/chrono.h>
#include <nru/layer.h>

namespace nru {

struct JANETOptions : LayerOptions<JANETOptions> {
  using ChronoForm = nru::ChronoForm;

  using LayerOptions::LayerOptions;

  NRU_OPTION(double, beta, 0.0);
  NRU_OPTION(double, forget_bias, 1.0);
  NRU_OPTION(std::int64_t, chrono_t_max, 0);  // 0: no chrono initialisation
  NRU_OPTION(ChronoForm, chrono_form, ChronoForm::integer);
};

NRU_LAYER(JANET);

}  // namespace nru
