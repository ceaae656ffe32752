// The RNN as a kernel program. Equations, names and shapes: include/nru/cells/rnn.h.
#pragma once

#include "kernels/program.h"

namespace nru::kernels {

struct RnnShape {
  int input = 0;
  int hidden = 0;
  bool tanh = false;  // else ReLU
  bool layer_norm = false;
};

// Parameters: weight_ih [H, I], weight_hh [H, H], bias_ih [H], (norm_weight [H], norm_bias [H]).
// State parts: h.
template <class T>
Program<T> rnn_program(const RnnShape& shape);

}  // namespace nru::kernels
