// The memory write of the copy task's NRU (k = 4 heads of R = 4 rows, linear) in as few latencies
// as possible: half a warp per side, lane l of it holds number l of p and q, which belongs to head
// l / 4 and row l % 4.
//
// The fast form is for norms in a comfortable range: |p_i|^5 |q|^5 is then a normal number, no head
// overflows by either rule and none is clamped. Outside of it write_forward() and WriteBackward
// take over, for this step.
#pragma once

#include "kernels/cuda/persistent_write.cuh"

namespace nru::kernels::cuda {

// Fifth powers of the two norms.
__device__ inline bool comfortable(float P, float Q) {
  const float product = P * Q;
  return P >= 1e-30f && Q >= 1e-30f && product >= 1e-36f && product <= 1e36f;
}

// x^(-1/5) for comfortable x, with one Newton step.
__device__ inline float inverse_fifth_root(float x) {
#ifdef __CUDA_ARCH__
  float log2, y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(log2) : "f"(x));
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(-0.2f * log2));
#else  // emulated, in tests
  const float y = exp2f(-0.2f * log2f(x));
#endif
  const float y2 = y * y;
  return y * fmaf(-0.2f, (x * y) * (y2 * y2), 1.2f);
}

__device__ inline float sum_of_pow5(const float4& v) {
  return (pow5(fabsf(v.x)) + pow5(fabsf(v.y))) + (pow5(fabsf(v.z)) + pow5(fabsf(v.w)));
}

struct FastLane {
  int side, l;
  __device__ FastLane() : side(threadIdx.x % 32 / 16), l(threadIdx.x % 16) {}
  __device__ int head() const { return l / 4; }
  __device__ int row() const { return l % 4; }
};

constexpr int kFastP = 8, kFastQ = 24, kFastSide = 32;  // where p and q of side 0 begin in u

// False, and nothing done, if a norm is out of range. `terms` holds 32 values.
template <int kEach>
__device__ inline bool write_forward_fast(const NruWriteSizes& s, const float* u, float* terms,
                                          float (&m)[kEach]) {
  const FastLane at;
  const float* of_side = u + at.side * kFastSide;
  const float p = of_side[kFastP + at.l], alpha = u[at.side * 4 + at.head()];
  const float4 q = *reinterpret_cast<const float4*>(of_side + kFastQ + 4 * at.row());
  const float q_write = u[kFastQ + at.l], q_erase = u[kFastQ + kFastSide + at.l];
  float P = pow5(fabsf(p)), Q = sum_of_pow5(q);
#pragma unroll
  for (int d = 1; d < 4; d *= 2) {
    P += __shfl_xor_sync(kAllLanes, P, d);
    Q += __shfl_xor_sync(kAllLanes, Q, d);
  }
  const bool fits = __all_sync(kAllLanes, comfortable(P, Q));
  const float c = (at.side ? -s.combine : s.combine) * alpha * p;
  terms[at.side * 16 + at.row() * 4 + at.head()] = c * inverse_fifth_root(P * Q);
  __syncwarp();
  if (!fits) return false;
#pragma unroll
  for (int j = 0; j < 2; ++j) {  // row j * 2 + side of the memory, column l
    const float4* row = reinterpret_cast<const float4*>(terms) + 2 * j + at.side;
    const float4 w = row[0], e = row[4];
    m[j] = fmaf((w.x + w.y) + (w.z + w.w), q_write, m[j]);
    m[j] = fmaf((e.x + e.y) + (e.z + e.w), q_erase, m[j]);
  }
  return true;
}

// What WriteBackward is to write_forward().
struct FastWriteBackward {
  float alpha = 0, p = 0, q = 0;  // as loaded: of this lane's side
  float4 quad = {};               // q of the four columns 4 * head() ..

  __device__ void load(const float* u) {
    const FastLane at;
    const float* of_side = u + at.side * kFastSide;
    alpha = u[at.side * 4 + at.head()];
    p = of_side[kFastP + at.l];
    q = of_side[kFastQ + at.l];
    quad = *reinterpret_cast<const float4*>(of_side + kFastQ + 4 * at.head());
  }

  float per_alpha, c;    // d(write) / d(alpha p q) and that times alpha
  float rows[4], row;    // sum_i c_i p_i, all of it and of this lane's row
  float p_norm, q_norm;  // gradients of the norms' logarithms
  bool fits, passes;     // passes: alpha is not cut off

  __device__ void prepare(const NruWriteSizes& s) {
    const FastLane at;
    passes = !(s.limit > 0 && is_cut_off(alpha, s.limit));
    float P = pow5(fabsf(p)), Q = sum_of_pow5(quad);
#pragma unroll
    for (int d = 1; d < 4; d *= 2) {
      P += __shfl_xor_sync(kAllLanes, P, d);
      Q += __shfl_xor_sync(kAllLanes, Q, 4 * d);
    }
    fits = __all_sync(kAllLanes, comfortable(P, Q));
    per_alpha = (at.side ? -s.combine : s.combine) * inverse_fifth_root(P * Q);
    c = alpha * per_alpha;
    row = c * p;
    row += __shfl_xor_sync(kAllLanes, row, 4);
    row += __shfl_xor_sync(kAllLanes, row, 8);
#pragma unroll
    for (int a = 0; a < 4; ++a) rows[a] = __shfl_sync(kAllLanes, row, a, 16);
    p_norm = signed_pow4(p) / P;
    q_norm = signed_pow4(q) / Q;
  }

  __device__ void finish(const float* D, float* d_u) const {
    const FastLane at;
    const float4 d = *reinterpret_cast<const float4*>(D + 16 * at.row() + 4 * at.head());
    float d_q = 0;
#pragma unroll
    for (int a = 0; a < 4; ++a) d_q = fmaf(rows[a], D[16 * a + at.l], d_q);
    float d_row = fmaf(d.x, quad.x, d.y * quad.y) + fmaf(d.z, quad.z, d.w * quad.w);  // D q
    d_row += __shfl_xor_sync(kAllLanes, d_row, 4);
    d_row += __shfl_xor_sync(kAllLanes, d_row, 8);
    float dot = p * d_row, through = row * d_row;
#pragma unroll
    for (int x = 1; x < 4; x *= 2) {
      dot += __shfl_xor_sync(kAllLanes, dot, x);
      through += __shfl_xor_sync(kAllLanes, through, x);
    }
    const float d_p = c * fmaf(-dot, p_norm, d_row), d_alpha = passes ? per_alpha * dot : 0.f;
    d_q = fmaf(-through, q_norm, d_q);
    float* of_side = d_u + at.side * kFastSide;
    of_side[kFastP + at.l] = d_p;
    of_side[kFastQ + at.l] = d_q;
    if (at.row() == 0) d_u[at.side * 4 + at.head()] = d_alpha;
  }
};

}  // namespace nru::kernels::cuda
