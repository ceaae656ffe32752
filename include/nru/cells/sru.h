// The Statistical Recurrent Unit (Oliva, Poczos and Schneider, "The Statistical Recurrent Unit",
// 2017; not the "simple recurrent unit" of the same initials): un-gated, it remembers by moving
// averages of statistics at several time scales.
//
// With P statistics, K scales alpha_j, the state mu = (mu_1 .. mu_K) in R^KP (' = previous step):
//
//   r     = ReLU( W_r mu' + b_r )                          in R^R: what the past says
//   phi   = ReLU( W_phi [x; r] + b_phi )                   in R^P: the statistics of this step
//   mu_j  = alpha_j mu_j' + (1 - alpha_j) phi              for every scale
//   h     = ReLU( W_o mu + b_o )                           in R^H: the output
//
// The state is mu alone: h is made from it and read by no later step.
//
// Parameters of layer n (suffix _ln):
//   weight_r [R, K P], bias_r [R]
//   weight_phi [P, I+R], bias_phi [P]                      columns x, r
//   weight_o [H, K P], bias_o [H]
//
// Initialisation: weights Xavier-uniform with ReLU's gain sqrt(2), biases 0. The scales are fixed.
//
// Where sources differ: the scales are {0, 0.5, 0.9, 0.99, 0.999} in the NRU authors' code (the
// default here) and {0, 0.25, 0.5, 0.9, 0.99} in the SRU's own (SRUOptions::original_scales()).
#pragma once

#include <nru/layer.h>

#include <vector>

namespace nru {

struct SRUOptions : LayerOptions<SRUOptions> {
  using Scales = std::vector<double>;

  using LayerOptions::LayerOptions;

  static Scales original_scales() { return {0, 0.25, 0.5, 0.9, 0.99}; }

  NRU_OPTION(std::int64_t, stat_size, 55);   // P
  NRU_OPTION(std::int64_t, recur_size, 16);  // R
  NRU_OPTION(Scales, scales, {0, 0.5, 0.9, 0.99, 0.999});
};

NRU_LAYER(SRU);

}  // namespace nru
