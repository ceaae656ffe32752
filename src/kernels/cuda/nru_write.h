// The memory write of the NRU on the device, in its three forms: factored with linear heads (rank
// one) or ReLU heads (rank two), and general. The mathematics and the meaning of `aux` are those of
// kernels/cpu/nru_write-inl.h and nru_general-inl.h; here a CTA does a row.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/nru.h"

namespace nru::kernels::cuda {

struct NruWriteSizes {
  int k, m, r, R;  // r, R: of the factored forms
  int outputs;     // head outputs
  float combine;   // c0: 1/k or 1
  float limit;     // of |alpha| and |beta|; 0: none
  bool authors_overflow;
  // Of the general form:
  NruDirection direction;
  int direction_size;  // numbers of one side
  int root;            // p q^T is root x root
  bool relu, multiply;
  explicit NruWriteSizes(const NruShape& shape);
};

struct NruWriteRows {
  int count;
  int ld_heads, ld_aux, ld_m;
  float *heads, *aux;
  const float* m_prev;
  float* m;
  std::int64_t* events;
  // Backward:
  float* d_m;  // of m in; of m' out, as far as m' reaches m directly
  float* d_heads;
};

using NruWrite = void(const NruWriteSizes& sizes, const NruWriteRows& rows, cudaStream_t stream);
NruWrite write_linear, write_linear_backward;
NruWrite write_relu, write_relu_backward;
NruWrite write_general, write_general_backward;

}  // namespace nru::kernels::cuda
