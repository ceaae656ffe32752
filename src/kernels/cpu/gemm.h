// Packed-weight matrix products for recurrent networks.
//
// A recurrent step multiplies a handful of rows (a slice of the batch) by weights that stay the
// same for hundreds of steps. So the weights are packed once per update into panels that the
// register-tiled kernel reads front to back, and the input of a product is a list of segments (x_t,
// h_{t-1}, m_{t-1}): nothing is ever concatenated.
//
// All functions run at the best SIMD level of the machine. The panel width depends on that level,
// so weights must be packed through the same table that multiplies them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nru::kernels {

// One K-segment of the left operand: rows of `width` values, `ld` apart.
template <class T>
struct Operand {
  const T* data;  // [rows, ld], the first `width` of each row are used
  int ld;
  int width;
};

template <class T>
struct LinearOps {
  const char* target;  // "AVX3", "AVX2", ...
  int lanes;           // values per vector
  int max_rows;        // rows of the register tile

  // Values that pack() writes for a [depth, columns] operand.
  std::size_t (*packed_size)(int depth, int columns);

  // Packs element (k, n) = source[k*stride_k + n*stride_n], k < depth, into rows [offset,
  // offset+depth) of panels that are `total_depth` deep. Columns are padded with zeros to whole
  // vectors.
  void (*pack)(const T* source, int depth, int columns, std::ptrdiff_t stride_k,
               std::ptrdiff_t stride_n, T* packed, int offset, int total_depth);

  // out[r, n] = start + sum_s sum_k segments[s][r, k] * packed[k, n];  start = out if `accumulate`,
  // else bias[n] (zero if null). Writes whole vectors: columns rounded up to lanes; `bias` must be
  // readable that far.
  void (*multiply)(const Operand<T>* segments, int count, int rows, const T* packed, int columns,
                   const T* bias, bool accumulate, T* out, int ld_out);

  // Weight gradient: gradient[n, w] += sum_k d[k, n] * x[k, w], k < depth. The columns of x up to
  // the next multiple of lanes must be zero; the gradient must be writable that far behind its last
  // row.
  void (*accumulate_outer)(const T* d, int ld_d, int rows, const T* x, int ld_x, int width,
                           int depth, T* gradient, int ld_gradient);

  void (*accumulate_columns)(const T* d, int ld_d, int columns, int depth,
                             T* sums);                              // sums[n] += sum_k d[k, n]
  void (*add)(const T* source, std::size_t count, T* destination);  // destination += source
  T (*max_abs)(const T* values, std::size_t count);                 // not finite if a value is not
};

template <class T>
const LinearOps<T>& linear_ops();

// The larger of two, and NaN if one of them is.
template <class T>
constexpr T larger_or_nan(T a, T b) {
  return a >= b || a != a ? a : b;
}

}  // namespace nru::kernels
