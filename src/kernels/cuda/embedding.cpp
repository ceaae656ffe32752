#include "kernels/cuda/embedding.h"

namespace nru::kernels::cuda {

void Embedding::forward(const Steps& steps, const std::int32_t* symbols, const float* table,
                        int width, float* to) {
  gather_rows(steps, symbols, table, width, to, stream_);
}

// As a product with the one-hot symbols: more work than adding up rows, but in a fixed order, and
// spread over the whole device even if one symbol has most of the positions.
void Embedding::backward(const Steps& steps, const std::int32_t* symbols, int classes,
                         const float* d_to, int width, float* d_table) {
  float* one_hot = one_hot_.require(static_cast<std::size_t>(steps.rows()) * classes);
  load_input(steps, nullptr, symbols, classes, one_hot, stream_);
  gemm_.tn(classes, width, static_cast<int>(steps.rows()), {one_hot, classes}, {d_to, width}, false,
           d_table, width);
}

}  // namespace nru::kernels::cuda
