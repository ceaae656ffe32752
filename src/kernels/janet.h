// JANET as a kernel program. Equations, names and shapes: include/nru/cells/janet.h.
#pragma once

#include "kernels/program.h"

namespace nru::kernels {

struct JanetShape {
  int input = 0;
  int hidden = 0;
  double beta = 0;
};

// Parameters: weight_ih [2H, I], weight_hh [2H, H], bias_ih [2H]; gate order f c. State parts: h.
template <class T>
Program<T> janet_program(const JanetShape& shape);

}  // namespace nru::kernels
