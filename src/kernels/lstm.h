// The LSTM as a kernel program. Equations, names and shapes: include/nru/cells/lstm.h.
#pragma once

#include "kernels/program.h"

namespace nru::kernels {

struct LstmShape {
  int input = 0;
  int hidden = 0;
  bool peephole = false;
};

// Parameters: weight_ih [4H, I], weight_hh [4H, H], bias [4H], (weight_peephole [3, H]); gate order
// i f g o. State parts: h, c.
template <class T>
Program<T> lstm_program(const LstmShape& shape);

}  // namespace nru::kernels
