// The LSTM, with the paper's variants: diagonal peepholes and chrono initialisation.
//
//   i = s(U_i x + W_i h' + p_i*c' + b_i)
//   f = s(U_f x + W_f h' + p_f*c' + b_f)
//   g = tanh(U_g x + W_g h' + b_g)
//   c = f*c' + i*g
//   o = s(U_o x + W_o h' + p_o*c + b_o)
//   h = o*tanh(c)
//
// (' = previous step, * elementwise, s the logistic function; note the new c in o.) Without
// peepholes (the default of this class) it is exactly torch::nn::LSTM; the paper's runs use
// peepholes.
//
// Parameters of layer n (torch's names and gate order i f g o; suffix _ln):
//   weight_ih [4H, I], weight_hh [4H, H], bias_ih [4H], weight_peephole [3, H] (p_i, p_f, p_o)
// torch keeps two biases whose sum is all that matters; here there is one.
//
// Initialisation (authors' code): U Xavier-normal per gate, W orthogonal per gate, peepholes
// U(0,1), b = 0 but b_f = 1. Chrono (chrono_t_max = T >= 2): b_f = log u, u uniform in the integers
// {1..T} per unit, b_i = -b_f; with chrono_form = paper, u is uniform in the reals [1, T-1].
#pragma once

#include <nru/cells/chrono.h>
#include <nru/layer.h>

namespace nru {

struct LSTMOptions : LayerOptions<LSTMOptions> {
  using ChronoForm = nru::ChronoForm;

  using LayerOptions::LayerOptions;

  NRU_OPTION(bool, peephole, false);
  NRU_OPTION(double, forget_bias, 1.0);
  NRU_OPTION(std::int64_t, chrono_t_max, 0);  // 0: no chrono initialisation
  NRU_OPTION(ChronoForm, chrono_form, ChronoForm::integer);
};

NRU_LAYER(LSTM);

}  // namespace nru
