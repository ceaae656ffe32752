// The EURNN as a kernel program. Equations, names and shapes: include/nru/cells/eurnn.h.
#pragma once

#include "kernels/modrelu.h"
#include "kernels/program.h"

namespace nru::kernels {

struct EurnnShape {
  int input = 0;
  int hidden = 0;  // n
  bool complex = false;
  ModRelu modrelu = ModRelu::smooth;  // complex: smooth only
  double epsilon = 0.01;              // of the modReLU
};

// Parameters: theta [P] (P angles of the butterfly), (complex: phi [P], omega [n],) weight_ih [n,
// I] (complex: [2n, I], Re then Im), bias [n] of the modReLU. State part: h [n] (complex: [2n], Re
// then Im). The output is h, or Re h.
template <class T>
Program<T> eurnn_program(const EurnnShape& shape);

}  // namespace nru::kernels
