// The weights of the products inside the time loop, packed once per call for product.h: for the
// forward pass as they are, for the backward pass transposed.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "kernels/cuda/device.h"
#include "kernels/cuda/product.h"
#include "kernels/program.h"

namespace nru::kernels::cuda {

// One launch: some segments of a phase.
struct StepProduct {
  std::vector<int> segments;
  Buffer<float> weights;  // [rows, depth]
  int rows = 0, depth = 0;
};

class StepWeights {
 public:
  // ld: by part, the distance of its rows.
  StepWeights(const Program<float>& program, const std::vector<int>& ld);

  void pack(const float* const* parameters, bool backward, cudaStream_t stream);

  // By recurrent phase. The input's segments are not among them: they are multiplied outside the
  // time loop.
  const std::vector<StepProduct>& forward(int phase) const { return forward_[phase]; }
  const std::vector<StepProduct>& backward(int phase) const { return backward_[phase]; }

 private:
  void add_blocks(const float* const* parameters, int phase, const StepProduct& product,
                  bool transposed, std::vector<PackBlock>* blocks) const;

  const Program<float>* program_;
  std::vector<int> ld_;
  std::vector<std::vector<StepProduct>> forward_, backward_;
};

}  // namespace nru::kernels::cuda
