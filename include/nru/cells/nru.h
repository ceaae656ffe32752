// The Non-saturating Recurrent Unit (Chandar et al., "Towards Non-saturating Recurrent Units for
// Modelling Long-term Dependencies", AAAI 2019): a ReLU network with an external memory that is
// written by linear operations only, so that gradients through the memory neither vanish in
// saturated gates nor need any.
//
// With input x_t in R^I, hidden h_t in R^H, memory m_t in R^M, k heads, r = sqrt(k M) (' = previous
// step):
//
//   h = ReLU( W [x; h'; m'] + b )
//   z = [h; m']                                      ([x; h; m'] with heads_see_input)
//   alpha = f(W_a z + b_a),  beta = f(W_b z + b_b)   in R^k: how strongly each head writes, erases
//   [p; q] = W_w z + b_w,  [p; q]~ = W_e z + b_e     in R^2r: directions, factored
//   v_i = f( vec(p q^T)[i M .. (i+1) M) )            head i's slice; the same for v~ from [p; q]~
//   v_i <- v_i / max(|v_i|_5, 1e-12)
//   m = m' + c sum_i (alpha_i v_i - beta_i v~_i)     c = 1/k (mean) or 1 (sum)
//
// f is the identity, or ReLU (char-PTB); it acts on alpha, beta and the slices before they are
// normalised. vec is row-major with p as the row index. r must be an integer.
//
// Parameters of layer n (torch shapes; suffix _ln):
//   weight [H, I+H+M], bias [H]                    columns x, h', m'
//   head_weight [2k+4r, (I+)H+M], head_bias        rows alpha, beta (k each), p, q, p~, q~ (r each)
//   norm_weight, norm_bias [H]                     with layer_norm
// all drawn from U(-1/sqrt(fan_in), 1/sqrt(fan_in)), biases too (norm_weight 1, norm_bias 0), and
// those of alpha and beta multiplied by write_scale. With the authors' 1 an untrained memory grows
// by a few per cent a step, without bound on long sequences: alpha is linear in m. With 0 it stays
// as it is until the heads learn to write (ReLU heads never would: they take 0.1, say).
//
// Where sources differ: the paper sums over heads and lets them see x_t; the authors' code, and
// every published size, takes the mean and shows them [h; m'] only. The defaults follow the code.
// The L5 norm is computed scale-safe, the gradient through a clamped norm is zero, and a non-finite
// direction writes nothing; the authors' float32 code instead freezes the memory when |p q|^5
// overflows (overflow = authors).
//
// write_limit cuts alpha and beta off: alpha <- min(max(alpha, -limit), limit), without gradient
// outside. Whatever the weights, a step then changes the memory by a bounded amount, and it can
// grow with the number of steps, but not exponentially. 0, as in the paper: no limit.
//
// memory_update = multiply has m = m' * c sum_i (alpha_i v_i - beta_i v~_i) instead. The authors'
// code offers it with a memory that starts at zero, and so stays zero for ever; here the memory of
// this variant starts at one (a state that the caller gives is taken as it is).
#pragma once

#include <nru/layer.h>

namespace nru {

struct NRUOptions : LayerOptions<NRUOptions> {
  enum class Combine { mean, sum };
  enum class HeadActivation { linear, relu };
  enum class Direction {
    shared,    // one p, q in R^sqrt(kM) for all heads: 2 sqrt(kM) numbers
    per_head,  // p_i, q_i in R^sqrt(M) for each head: 2 k sqrt(M)
    full,      // no factorisation: k M
  };
  enum class Overflow { safe, authors };
  enum class MemoryUpdate { add, multiply };

  using LayerOptions::LayerOptions;

  NRU_OPTION(std::int64_t, memory_size, 64);
  NRU_OPTION(std::int64_t, heads, 4);
  NRU_OPTION(Combine, combine, Combine::mean);
  NRU_OPTION(HeadActivation, head_activation, HeadActivation::linear);
  NRU_OPTION(Direction, direction, Direction::shared);
  NRU_OPTION(Overflow, overflow, Overflow::safe);
  NRU_OPTION(MemoryUpdate, memory_update, MemoryUpdate::add);
  NRU_OPTION(bool, heads_see_input, false);
  NRU_OPTION(bool, layer_norm, false);  // on the pre-activation of h
  NRU_OPTION(double, write_scale, 1.0);
  NRU_OPTION(double, write_limit, 0.0);
};

NRU_LAYER(NRU);

}  // namespace nru
