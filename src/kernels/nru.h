// The NRU as a kernel program. Equations, names and shapes: include/nru/cells/nru.h.
#pragma once

#include "kernels/program.h"

namespace nru::kernels {

// How the k*m direction numbers of all heads are made from the head outputs.
enum class NruDirection {
  shared,    // one p, q in R^sqrt(km): heads are consecutive slices of p q^T
  per_head,  // p_i, q_i in R^sqrt(m) for each head
  full,      // all k*m numbers directly
};

struct NruShape {
  int input = 0;
  int hidden = 0;
  int memory = 0;
  int heads = 1;
  NruDirection direction = NruDirection::shared;
  bool sum_heads = false;        // sum over heads; otherwise the mean
  bool relu_heads = false;       // f = ReLU for alpha, beta and the directions; otherwise linear
  bool heads_see_input = false;  // zeta = [x; h; m'] instead of [h; m']
  bool layer_norm = false;       // on the pre-activation of h
  bool authors_overflow =
      false;  // a head whose norm overflows float32 writes nothing, as in the published runs
  bool multiply_memory = false;  // m = m' * sum instead of m' + sum, from m = 1
  double write_limit = 0;        // |alpha| and |beta| are cut off at this; 0: never
  bool general_write = false;    // never use the factored write: for tests and comparisons

  int rank() const;  // r = sqrt(heads * memory), shared direction; throws if it is not an integer
  int direction_size() const;  // head outputs that make the directions of one side (write or erase)
  int head_outputs() const { return 2 * heads + 2 * direction_size(); }
  // heads divides rank(): every write that is added is of rank one (linear) or two (ReLU)
  bool factored_write() const;
  // What the whole-sequence kernels of a GPU are written for; some without a write_limit.
  bool plain() const { return factored_write() && !layer_norm; }
};

// Parameters: weight [H, I+H+M] over [x; h'; m'], bias [H], (norm_weight [H], norm_bias [H]),
// head_weight [head_outputs, (I+)H+M] over [(x;) h; m'] with rows alpha, beta, write direction,
// erase direction, head_bias. State parts: h, m.
template <class T>
Program<T> nru_program(const NruShape& shape);

}  // namespace nru::kernels
