// The design "rows" of the whole-sequence kernels: one CTA runs one row of the batch through all
// steps, with all recurrent weights of a small NRU in its registers.
//
// Nothing but barriers of a multiprocessor lies between two phases, so a step costs latencies of
// shared memory and shuffles. The warps have roles: some make h, some the head outputs, one the
// memory. Each role starts as soon as the one before it has written its vector, and spends the time
// until then on the products that do not depend on it: of the two halves of a product only W_hm m'
// (for h) and W_uh h (for the heads) are on the path from step to step, W_hh h' and W_um m' are
// computed beside it. The backward pass has the same three roles in reverse.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/nru_write.h"

namespace nru::kernels::cuda {

struct RowsBlock {  // of a weight matrix, [outputs, inputs]
  const float* data = nullptr;
  int ld = 0;
};

// PersistentCall as the kernels get it, with the NRU's parts by name.
struct RowsCall {
  explicit RowsCall(const NruShape& shape) : write(shape), hidden(shape.hidden) {}
  NruWriteSizes write;
  int hidden;
  int steps = 0, batch = 0;
  int ld_h = 0, ld_m = 0, ld_u = 0;
  RowsBlock hh, hm, uh, um;  // to h from h' and m', to the heads from h and m'
  float *h = nullptr, *m = nullptr, *u = nullptr;  // [steps + 1, batch, ld]
  const std::int64_t* lengths = nullptr;
  int begin = 0;
};

struct RowsForward : RowsCall {
  using RowsCall::RowsCall;
  std::int64_t* events = nullptr;
  unsigned *largest_h = nullptr, *largest_m = nullptr;
};

struct RowsBackward : RowsCall {
  using RowsCall::RowsCall;
  const float* bulk = nullptr;  // of h
  int bulk_first = 0;
  const float *final_h = nullptr, *final_m = nullptr;
  float *d_a = nullptr, *d_u = nullptr;  // d_pre of the two phases
  float *gradient_h = nullptr, *gradient_m = nullptr;
  double state_limit = 0;  // SequenceGradients::state_limit
};

// The compiled shapes, smallest first: what is smaller than a shape is padded with zeros.
struct RowsShape {
  int hidden, memory, heads;  // largest number of each; heads: head outputs
  int shared_bytes;           // of a CTA, the larger of both passes
};
inline constexpr RowsShape kRowsShapes[] = {
    {80, 64, 80, 1664}, {128, 64, 80, 88064}, {128, 144, 128, 150272}};
inline constexpr int kRowsShapeCount = 3;

// Index of the smallest shape that holds this one, or -1: there is none, or a CTA of the GPU has
// not the shared memory for it. shared_bytes: what a CTA has; 0: no GPU yet, which refuses nothing.
int find_rows_shape(const NruShape& shape, int shared_bytes);

// `shape` is an index of kRowsShapes.
void rows_forward(int shape, const RowsForward& call, cudaStream_t stream);
void rows_backward(int shape, const RowsBackward& call, cudaStream_t stream);

}  // namespace nru::kernels::cuda
