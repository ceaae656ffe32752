// Large products through cuBLAS, row-major: those over all steps at once, outside the time loop.
//
// One handle per object with a workspace of its own and no atomics, so that the same call gives the
// same bits, whatever other streams do.
#pragma once

#include <cstddef>
#include <memory>

#include "kernels/cuda/device.h"

namespace nru::kernels::cuda {

struct Matrix {  // row-major
  const float* data = nullptr;
  int ld = 0;
};

class Gemm {
 public:
  // tf32: products of numbers rounded to 10 bits of mantissa, on the tensor cores.
  Gemm(StreamHandle stream, bool tf32);
  ~Gemm();

  // C [m, n] = A op B + (accumulate ? C : 0)
  void nt(int m, int n, int k, Matrix a, Matrix b, bool accumulate, float* c, int ldc);  // A B^T
  void nn(int m, int n, int k, Matrix a, Matrix b, bool accumulate, float* c, int ldc);  // A B
  void tn(int m, int n, int k, Matrix a, Matrix b, bool accumulate, float* c, int ldc);  // A^T B

 private:
  void run(bool transpose_a, bool transpose_b, int m, int n, int k, Matrix a, Matrix b,
           bool accumulate, float* c, int ldc);
  struct Handle;
  std::unique_ptr<Handle> handle_;
  Buffer<char> workspace_;
};

}  // namespace nru::kernels::cuda
