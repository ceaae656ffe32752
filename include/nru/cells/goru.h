// The GORU (Jing et al., "Gated Orthogonal Recurrent Units: On Learning to Forget", 2017): the
// GRU's gates around an orthogonal recurrent matrix Q, so that it can forget as well as remember.
//
//   r = s(W_r h' + U_r x + b_r)            g = s(W_g h' + U_g x + b_g)
//   c = modReLU(r*(Q h') + U_c x; b_c)     h = g*h' + (1-g)*c
//
// (' = previous step, * elementwise, s the logistic function.) Q is the real butterfly and modReLU
// the function of the EURNN: see eurnn.h.
//
// Parameters of layer k (n = hidden_size, P = number of pairs; suffix _lk), in this order:
//   theta [P]                                      angles of Q
//   weight_candidate [n, I]                        U_c
//   weight_ih [2n, I], weight_hh [2n, n], bias_ih [2n]      rows r, then g
//   bias_candidate [n]                             b_c of the modReLU
//
// Initialisation: all U and W ~ U(-0.01, 0.01); theta ~ U(-pi, pi); b_r = 2; b_g ~ U(+-sqrt(3/n)),
// or 0 (zero_gate_bias = true); b_c = 0.01.
//
// Where sources differ: as for the EURNN (sizes that are no power of two, form of the modReLU). The
// law of b_g is what the published code gets from its framework's default; it is not in the paper.
#pragma once

#include <nru/cells/eurnn.h>
#include <nru/layer.h>

namespace nru {

struct GORUOptions : LayerOptions<GORUOptions> {
  using LayerOptions::LayerOptions;

  NRU_OPTION(ModReLU, modrelu, ModReLU::smooth);
  NRU_OPTION(double, epsilon, 0.001);       // of the modReLU
  NRU_OPTION(bool, strict_fft, false);      // refuse hidden sizes that are no power of two
  NRU_OPTION(bool, zero_gate_bias, false);  // b_g = 0 at first
};

NRU_LAYER(GORU);

}  // namespace nru
