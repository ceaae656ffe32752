// An embedding in front of a layer: the rows of a table that symbols name, and the table's
// gradient.
#pragma once

#include <cstdint>

#include "kernels/cuda/device.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/rows.h"

namespace nru::kernels::cuda {

class Embedding {
 public:
  explicit Embedding(StreamHandle stream) : stream_(stream), gemm_(stream, /*tf32=*/false) {}

  // to [positions, width] = rows of table [symbols, width]; zero behind a row's length.
  void forward(const Steps& steps, const std::int32_t* symbols, const float* table, int width,
               float* to);
  // d_table [classes, width] = for each symbol, the sum of d_to over its positions. Behind a row's
  // length nothing counts.
  void backward(const Steps& steps, const std::int32_t* symbols, int classes, const float* d_to,
                int width, float* d_table);

 private:
  StreamHandle stream_;
  Gemm gemm_;
  Buffer<float> one_hot_;  // [positions, classes]
};

}  // namespace nru::kernels::cuda
