// The GORU as a kernel program. Equations, names and shapes: include/nru/cells/goru.h.
#pragma once

#include "kernels/modrelu.h"
#include "kernels/program.h"

namespace nru::kernels {

struct GoruShape {
  int input = 0;
  int hidden = 0;  // n
  ModRelu modrelu = ModRelu::smooth;
  double epsilon = 0.001;  // of the modReLU
};

// Parameters: theta [P] (P angles of the butterfly), weight_candidate [n, I], weight_ih [2n, I],
// weight_hh [2n, n], bias_ih [2n], bias_candidate [n] of the modReLU; gate order r g. State part:
// h.
template <class T>
Program<T> goru_program(const GoruShape& shape);

}  // namespace nru::kernels
