// The small products of a time step: C = sum_s A_s W_s^T, for a batch of rows.
//
// A step is a chain of dependent products of few rows: what counts is latency, not throughput. One
// launch serves all segments of a phase, read where they lie, and all destinations of its backward
// product; weights are packed once per call so that every load is a whole 32-byte sector.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

namespace nru::kernels::cuda {

// Rows of all parts are padded to this many values (a sector), and the padding is zero.
inline constexpr int kRowPadding = 8;
inline int padded_width(int width) { return (width + kRowPadding - 1) / kRowPadding * kRowPadding; }

inline constexpr int kMaxProductSegments = 6;

struct ProductInput {
  const float* data = nullptr;  // [rows, ld], all of ld multiplied
  int ld = 0;
};

// What becomes of the sums where the pointwise function is a plain activation f: fused, it costs no
// kernel of its own.
enum class Finish {
  none,
  relu,  // f(sum), forward
  tanh,
  relu_backward,  // the sum is the gradient of h = f(a): f'(a) times it goes to d_pre, and nothing
                  // to
  tanh_backward,  // data
};

struct ProductOutput {
  float* data = nullptr;  // [rows, ld]
  int ld = 0, width = 0;
  int accumulate = 0;  // add what is there
  Finish finish = Finish::none;
  const float* h = nullptr;  // [rows, ld], for the backward forms
  float* d_pre = nullptr;    // [rows, ld]
};

struct Product {
  int rows = 0;
  const float* weights = nullptr;  // [sum of the outputs' widths, depth]
  int depth = 0;                   // sum of the inputs' ld
  int inputs = 0, outputs = 0;
  ProductInput input[kMaxProductSegments];
  ProductOutput output[kMaxProductSegments];

  int columns() const {
    int sum = 0;
    for (int o = 0; o < outputs; ++o) sum += output[o].width;
    return sum;
  }
};

void run_product(const Product& product, cudaStream_t stream);

// One block of a weight matrix on its way into packed form: to[i, j] = from[i * row_step + j *
// column_step]; the rest of each row of `to` stays zero.
struct PackBlock {
  const float* from = nullptr;
  int row_step = 0, column_step = 0;
  int rows = 0, columns = 0;
  float* to = nullptr;
  int ld = 0;
};
void pack_blocks(const std::vector<PackBlock>& blocks, cudaStream_t stream);

}  // namespace nru::kernels::cuda
