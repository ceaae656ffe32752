// Rows of some steps on the device: which are finished, and what their input is.
#pragma once

#include "kernels/cuda/rows.h"

namespace nru::kernels::cuda {

__device__ inline bool finished(const std::int64_t* lengths, int row, int step) {
  return lengths && step >= lengths[row];
}

// Of the rows of some steps.
__device__ inline bool finished(const Steps& s, long long row) {
  return finished(s.lengths, static_cast<int>(row % s.batch),
                  s.begin + static_cast<int>(row / s.batch));
}

// Steps of a row before it is finished, of the `steps` from `begin` on.
__device__ inline int steps_before_end(const std::int64_t* lengths, int row, int begin, int steps) {
  if (!lengths) return steps;
  const long long left = lengths[row] - begin;
  return static_cast<int>(left < 0 ? 0 : left > steps ? steps : left);
}

// Number i of the input of such a row, from numbers or symbols of the whole sequence. A finished
// row's is zero: what lies there may be anything, NaN included.
__device__ inline float input_value(const Steps& s, const float* dense, const std::int32_t* symbols,
                                    int width, long long row, int i) {
  if (finished(s, row)) return 0;
  const long long position = static_cast<long long>(s.begin) * s.batch + row;
  if (symbols) return symbols[position] == i ? 1.f : 0.f;
  return dense[position * width + i];
}

}  // namespace nru::kernels::cuda
