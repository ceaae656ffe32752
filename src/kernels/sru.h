// The statistical recurrent unit as a kernel program. Equations, names and shapes:
// include/nru/cells/sru.h.
#pragma once

#include <vector>

#include "kernels/program.h"

namespace nru::kernels {

struct SruShape {
  int input = 0;
  int hidden = 0;              // h
  int statistics = 0;          // phi
  int recurrent = 0;           // r
  std::vector<double> scales;  // alpha_j; the state has one average of phi for each
};

// Parameters: weight_r [R, K P], bias_r, weight_phi [P, I+R], bias_phi, weight_o [H, K P], bias_o
// (P = statistics, K = number of scales). State parts: mu [K P], scale after scale.
template <class T>
Program<T> sru_program(const SruShape& shape);

}  // namespace nru::kernels
