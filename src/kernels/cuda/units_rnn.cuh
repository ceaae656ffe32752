// What the RNN's two passes in clusters share (units_rnn.cu): the call, tiles, and sums over all
// units for the layer norm.
#pragma once

#include "kernels/cuda/units_kernel.cuh"

namespace nru::kernels::cuda {

struct RnnCall {
  UnitSequence of;
  Matrix weights;  // [H, H]
  bool tanh, norm;
  int ld;
  float *h, *a;  // a: with norm
  unsigned* largest_h;
  // With norm:
  const float *gamma, *beta;
  float* moments;  // [steps, batch, 2]: mean and inverse deviation of a
  // Backward:
  BulkGradient bulk;
  const float* final_h;
  float *d_a, *d_h;
  float *d_gamma, *d_beta;  // [batch, H]
};

struct SmallRnn {  // up to 160 units
  using Product = UnitProduct<5, 0, 5>;
};
struct LargeRnn {  // 416
  using Product = UnitProduct<8, 5, 13>;
};

template <class T>
struct RnnMemory : UnitMemory<typename T::Product> {
  float4 of_warps[2][kClusterWarps];  // sums of warps
};

#if NRU_CLUSTER_CODE

// Sum over a warp; all lanes get that of row lane % 4.
__device__ inline float warp_row_sum(float4 x) {
#pragma unroll
  for (int d = 16; d >= 4; d /= 2) x = sum_of(x, exchanged(x, d));
  return quad_row_sum(x);
}
// Lane 4 w + r has the sum of warp w in row r: all lanes get that of all warps in row lane % 4.
__device__ inline float sum_over_warps(float x) {
  static_assert(kClusterWarps == 8);
#pragma unroll
  for (int d = 4; d <= 16; d *= 2) x += __shfl_xor_sync(kAllLanes, x, d);
  return x;
}

// What both passes share, and the numbers of a vector [H] that a thread has to do with when a CTA
// works on all of it: threadIdx.x, threadIdx.x + 256, ...
template <class T>
class RnnCta : protected UnitCta<RnnMemory<T>> {
 protected:
  using Base = UnitCta<RnnMemory<T>>;
  using Base::at_, Base::s_;
  static constexpr int kUnits = units_of_thread(T::Product::kOutputs);
  static constexpr int kNumbers = (T::Product::kInputs + kClusterThreads - 1) / kClusterThreads;

  __device__ __forceinline__ RnnCta(const RnnCall& call, RnnMemory<T>& memory)
      : Base(call.of, memory), c_(call), H_(call.of.hidden), own_(H_, at_.rank) {}

  __device__ __forceinline__ static int number(int i) {
    return static_cast<int>(threadIdx.x) + i * kClusterThreads;
  }
  // How many numbers a warp has to do with.
  __device__ __forceinline__ float count(int warp) const {
    int n = 0;
#pragma unroll
    for (int i = 0; i < kNumbers; ++i) n += min(max(H_ - 32 * warp - i * kClusterThreads, 0), 32);
    return static_cast<float>(n);
  }
  // Two sums of this warp become known to all; then this lane has those of warp lane / 4.
  __device__ __forceinline__ void share_sums(float& a, float& b) {
    float* of_a = reinterpret_cast<float*>(s_.of_warps[0]);
    float* of_b = reinterpret_cast<float*>(s_.of_warps[1]);
    if (at_.lane < kClusterRows) {
      const int place = static_cast<int>(threadIdx.x) / 32 * kClusterRows + at_.lane;
      of_a[place] = a;
      of_b[place] = b;
    }
    __syncthreads();
    a = of_a[at_.lane];
    b = of_b[at_.lane];
  }

  const RnnCall& c_;
  const int H_;
  const UnitShare own_;
  typename T::Product product_;
};

__device__ inline float4 difference(float4 a, float4 b) {
  return make_float4(a.x - b.x, a.y - b.y, a.z - b.z, a.w - b.w);
}
__device__ inline float4 times(float4 a, float4 b) {
  return make_float4(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w);
}

#endif

}  // namespace nru::kernels::cuda
