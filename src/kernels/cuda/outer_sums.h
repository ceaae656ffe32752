// Weight gradients of small networks: sums over many rows of outer products, all of a network in
// one launch.
//
// The matrices are too small to fill a GPU, and there are a dozen of them: as products of cuBLAS
// they cost a dozen launches, most of them of a single CTA. Here the rows, too, are cut among CTAs,
// and the pieces of a sum are added in a fixed order by whichever CTA of a tile ends last.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "kernels/cuda/device.h"

namespace nru::kernels::cuda {

// to[o, n] = sum over rows of d[row, o] * values[row, n]
struct OuterFactor {
  const float* values = nullptr;  // [rows, ld]; null: ones, for the gradient of a bias
  int ld = 0, columns = 0;
  float* to = nullptr;  // [outputs, to_ld]
  int to_ld = 0;
};

// What has the left factor in common.
struct OuterGroup {
  static constexpr int kMaxFactors = 8;
  const float* d = nullptr;  // [rows, ld]
  int ld = 0, outputs = 0;
  long long rows = 0;
  int factors = 0;
  OuterFactor factor[kMaxFactors];

  // Nothing is added for `to` null: a gradient that is not wanted.
  void add(const float* values, int values_ld, int columns, float* to, int to_ld);
  int columns() const;
  double multiplications() const { return static_cast<double>(rows) * outputs * columns(); }
};

class OuterSums {
 public:
  static constexpr int kMaxGroups = 4;
  // Whether one launch of this class is the faster way.
  static bool fits(const std::vector<OuterGroup>& groups);
  void run(const std::vector<OuterGroup>& groups, cudaStream_t stream);

 private:
  Buffer<float> pieces_;
  Buffer<unsigned> ended_;  // CTAs of each tile; zero between launches
};

}  // namespace nru::kernels::cuda
