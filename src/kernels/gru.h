// The GRU as a kernel program. Equations, names and shapes: include/nru/cells/gru.h.
#pragma once

#include "kernels/program.h"

namespace nru::kernels {

struct GruShape {
  int input = 0;
  int hidden = 0;
  bool reset_after = false;
};

// Parameters: weight_ih [3H, I], weight_hh [3H, H], bias_ih [3H], (bias_hn [H]); gate order r z n.
// State parts: h.
template <class T>
Program<T> gru_program(const GruShape& shape);

}  // namespace nru::kernels
