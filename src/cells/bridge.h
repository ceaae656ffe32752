// From torch tensors to the sequence kernels and back, with autograd. Written once for all cells.
#pragma once

#include <nru/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/program.h"

namespace nru {

// One layer over one batch of sequences. `inputs` = x [T,B,I], the initial state parts [B,width],
// the parameters.
struct FusedCall {
  std::shared_ptr<const kernels::Program<float>> float_program;
  std::shared_ptr<const kernels::Program<double>> double_program;
  torch::Tensor lengths;  // [B] int64 on the device of x, or undefined
  // The same computation in torch operations: used when a derivative of the derivative is asked
  // for.
  std::function<torch::autograd::variable_list(const torch::autograd::variable_list&)> reference;
  double state_gradient_limit = 0;  // SequenceGradients::state_limit
};

// Why tensors like x cannot go through the kernels of this program; empty: they can.
std::string no_kernels_for(const kernels::Program<float>& program, const torch::Tensor& x);

// Whether all of them are memory that kernels can read and nothing more: no tangent of forward-mode
// differentiation, no wrapper of functorch.
bool are_plain(const torch::autograd::variable_list& tensors);

// Returns output [T,B,H] and the final state parts [B,width].
torch::autograd::variable_list run_fused(const FusedCall& call,
                                         const torch::autograd::variable_list& inputs);

// Every state part at every step, [T,B,width]; no gradients.
std::vector<torch::Tensor> run_fused_states(const FusedCall& call,
                                            const torch::autograd::variable_list& inputs);

}  // namespace nru
