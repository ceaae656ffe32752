// Products on the tensor cores that are yet those of float: a number is the sum of two TF32 numbers
// to 21 bits or more, and of the four products of two such sums all but the smallest are formed
// (Ootomo and Yokota, "Recovering single precision accuracy from Tensor Cores", 2022). The tensor
// cores' own additions round towards zero: sum up a few products there, and add that to the rest in
// float. Measured errors are then those of plain float, or smaller. (An infinity becomes a NaN;
// either one shows in the loss.)
#pragma once

#include <cuda_runtime.h>

namespace nru::kernels::cuda {

// A number as the sum of two that TF32 holds, 11 bits each: the first rounded, the second, whose
// sign is as good as random, cut off by the hardware. The rounding may turn a NaN into something
// else, but then the second is one.
struct Pair {
  unsigned big, small;
  __device__ Pair() {}
  __device__ explicit Pair(float x) {
    constexpr unsigned kHalf = 0x1000, kHeld = 0xffffe000;  // of the last place held
    big = (__float_as_uint(x) + kHalf) & kHeld;
    small = __float_as_uint(x - __uint_as_float(big));
  }
};

// m16n8k8: c += a b. Of lane 4 g + t, a has rows g and g + 8 of columns t, then of columns t + 4; b
// has rows t and t + 4 of column g; c rows g and then g + 8, each with columns 2 t and 2 t + 1.
#ifdef NRU_EMULATED_CLUSTER
void multiply_add(float (&c)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0,
                  unsigned b1);
#else
__device__ inline void multiply_add(float (&c)[4], unsigned a0, unsigned a1, unsigned a2,
                                    unsigned a3, unsigned b0, unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
#endif

}  // namespace nru::kernels::cuda
