// Softmax cross-entropy on rows of logits, on the device; for few positions and classes with the
// output layer around it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/rows.h"

namespace nru::kernels::cuda {

struct CrossEntropy {
  Steps steps;  // the positions, of the whole sequence's [T, B]
  float* logits =
      nullptr;  // [positions, classes]; become weight * scale * (softmax - onehot(target))
  int classes = 0;
  const std::int32_t* targets = nullptr;  // [T, B]
  const float* weights = nullptr;         // [T, B]; null = 1
  double scale = 1;
  std::int32_t* predictions = nullptr;  // [T, B] or null
  double* losses = nullptr;             // [positions]
};

// A position of weight 0, or behind its row's length, counts nothing and gets gradient 0.
void softmax_cross_entropy(const CrossEntropy& call, cudaStream_t stream);

// Output layer, cross-entropy and the gradient of the layer's input in one launch.
struct SmallReadout {
  CrossEntropy entropy;           // its logits need not be there before
  const float* output = nullptr;  // [positions, ld], what the layer reads
  int ld = 0, width = 0;
  const float* weight = nullptr;  // [classes, width]
  const float* bias = nullptr;
  float* d_output = nullptr;  // [positions, ld]; null: not wanted
  double* total = nullptr;    // as in add_losses
  unsigned* ended = nullptr;  // a counter that is zero between launches
  bool fits() const;
};
void small_readout(const SmallReadout& call, cudaStream_t stream);

// *total += scale * sum of the losses, in a fixed order.
void add_losses(const double* losses, long long count, double scale, double* total,
                cudaStream_t stream);

// Divides the weights of positions by their sum, formed in a fixed order: a mean over them then has
// scale 1, whatever they are.
void normalize_weights(float* weights, long long count, cudaStream_t stream);

}  // namespace nru::kernels::cuda
