// The factored memory write with linear heads: rank one.
//
// All heads share q, so with A = sum_i c_i gain_i p_i and Q = q / |q| the write is A Q^T, for the
// write and the erase side each. All that a row reads is loaded at once, because the kernel is over
// in a few latencies of memory.
#include "kernels/cuda/nru_write.cuh"

namespace nru::kernels::cuda {
namespace {

// Views of a row's shared memory: u as the head outputs lie, then what is made of them.
struct Shared {
  float *u, *gain, *live, *scale, *norms, *rows, *d_rows, *dots, *memory;
  __device__ Shared(float* base, const NruWriteSizes& s) {
    u = base;
    gain = u + 2 * s.k + 4 * s.r;  // gain, live, scale: as aux
    live = gain + 2 * s.k;
    scale = live + 2 * s.k;
    norms = scale + 2;           // [2k + 2]
    rows = norms + 2 * s.k + 2;  // A [2, R]
    d_rows = rows + 2 * s.R;
    dots = d_rows + 2 * s.R;      // [2k + 2]
    memory = dots + 2 * s.k + 2;  // m', or the gradient D of m
  }
  static size_t bytes(const NruWriteSizes& s) {
    return sizeof(float) * (10 * s.k + 4 * s.r + 4 * s.R + 6 + s.m);
  }
};

// A warp's |x|_5 by way of the largest magnitude. Infinity says that x has no usable norm.
__device__ inline float safe_norm(float* x, float* origin, int n) {
  const float largest = usable_magnitude(x, origin, n);
  if (largest < FLT_MIN) return 0;
  if (largest > kLargestNorm) return largest;
  const float inverse = 1.f / largest;
  float sum = 0;
  for (int j = threadIdx.x % 32; j < n; j += 32) sum += pow5(fabsf(x[j] * inverse));
  return largest * fifth_root(warp_sum(sum));
}

__device__ inline void write_rows(const NruWriteSizes& s, const Shared& sh, bool live_only) {
  for (int t = threadIdx.x; t < 2 * s.R; t += blockDim.x) {
    const int side = t / s.R, a = t % s.R;
    const float* p = sh.u + p_at(s, side) + a;
    float sum = 0;
    for (int i = 0; i < s.k; ++i) {
      const float c =
          sign_of(s, side) * sh.u[side * s.k + i] * (live_only ? sh.live[side * s.k + i] : 1.f);
      sum = fmaf(c, sh.gain[side * s.k + i] * p[i * s.R], sum);
    }
    sh.rows[t] = sum;
  }
}

__global__ void linear_kernel(const NruWriteSizes s, const NruWriteRows rows) {
  extern __shared__ float base[];
  after_previous();
  const Shared sh(base, s);
  const int warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const size_t row = blockIdx.x;
  float* u = rows.heads + row * rows.ld_heads;
  float* aux = rows.aux + row * rows.ld_aux;
  for (int j = threadIdx.x; j < s.outputs; j += blockDim.x) sh.u[j] = u[j];
  for (int j = threadIdx.x; j < s.m; j += blockDim.x)
    sh.memory[j] = rows.m_prev[row * rows.ld_m + j];
  __syncthreads();
  for (int g = warp; g < 2 * s.k + 2; g += warps) {  // a warp per p_i and q
    const bool head = g < 2 * s.k;
    const int at = head ? p_at(s, g / s.k) + g % s.k * s.R : q_at(s, g - 2 * s.k);
    const float norm = safe_norm(sh.u + at, u + at, head ? s.R : s.r);
    if (threadIdx.x % 32 == 0) sh.norms[g] = norm;
  }
  __syncthreads();
  for (int t = threadIdx.x; t < 2 * s.k + 2; t += blockDim.x) {
    if (t >= 2 * s.k) {
      sh.scale[t - 2 * s.k] = sh.norms[t] > 0.f ? 1.f / sh.norms[t] : 0.f;
    } else {
      settle_head(sh.norms[t], sh.norms[2 * s.k + t / s.k], s.authors_overflow, sh.gain + t,
                  sh.live + t, rows.events + row * kEvents);
    }
  }
  __syncthreads();
  for (int t = threadIdx.x; t < 4 * s.k + 2; t += blockDim.x) aux[t] = sh.gain[t];
  write_rows(s, sh, false);
  __syncthreads();
  const float *q0 = sh.u + q_at(s, 0), *q1 = sh.u + q_at(s, 1);
  float* m = rows.m + row * rows.ld_m;
  for (int j = threadIdx.x; j < s.m; j += blockDim.x) {
    const int a = j / s.r, b = j % s.r;
    const float written = fmaf(sh.rows[a], q0[b] * sh.scale[0], sh.memory[j]);
    m[j] = fmaf(sh.rows[s.R + a], q1[b] * sh.scale[1], written);
  }
}

__global__ void linear_backward_kernel(const NruWriteSizes s, const NruWriteRows rows) {
  extern __shared__ float base[];
  after_previous();
  const Shared sh(base, s);
  const int warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const size_t row = blockIdx.x;
  const float *u = rows.heads + row * rows.ld_heads, *aux = rows.aux + row * rows.ld_aux;
  const float* D = sh.memory;
  float* d_u = rows.d_heads + row * rows.ld_heads;
  for (int j = threadIdx.x; j < s.outputs; j += blockDim.x) sh.u[j] = u[j];
  for (int t = threadIdx.x; t < 4 * s.k + 2; t += blockDim.x) sh.gain[t] = aux[t];
  for (int j = threadIdx.x; j < s.m; j += blockDim.x) sh.memory[j] = rows.d_m[row * rows.ld_m + j];
  __syncthreads();
  write_rows(s, sh, true);
  for (int g = warp; g < 2 * s.R; g += warps) {  // D Q, a warp per row of it
    const int side = g / s.R, a = g % s.R;
    const float* q = sh.u + q_at(s, side);
    float sum = 0;
    for (int b = threadIdx.x % 32; b < s.r; b += 32)
      sum = fmaf(D[a * s.r + b], q[b] * sh.scale[side], sum);
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) sh.d_rows[g] = sum;
  }
  __syncthreads();
  for (int t = threadIdx.x; t < 2 * s.k; t += blockDim.x) {  // <D, v_i>
    const int side = t / s.k, i = t % s.k;
    float dot = 0;
    for (int a = 0; a < s.R; ++a)
      dot = fmaf(sh.gain[t] * sh.u[p_at(s, side) + i * s.R + a], sh.d_rows[side * s.R + a], dot);
    sh.dots[t] = dot;
    d_u[t] = sign_of(s, side) * dot;
  }
  __syncthreads();
  for (int t = threadIdx.x; t < 2 * s.r; t += blockDim.x) {
    const int side = t / s.r, e = t % s.r, head = side * s.k + e / s.R;
    const float gain = sh.gain[head], x = gain * sh.u[p_at(s, side) + e];
    const float c = sign_of(s, side) * sh.u[head] * sh.live[head];
    d_u[p_at(s, side) + e] =
        c * gain * (sh.d_rows[side * s.R + e % s.R] - sh.dots[head] * signed_pow4(x));
  }
  if (threadIdx.x < 2) {
    const int side = threadIdx.x;
    float through_norm = 0;
    for (int i = 0; i < s.k; ++i) {
      const int head = side * s.k + i;
      through_norm += sign_of(s, side) * sh.u[head] * sh.live[head] * sh.dots[head];
    }
    sh.dots[2 * s.k + side] = through_norm;
  }
  __syncthreads();
  for (int t = threadIdx.x; t < 2 * s.r; t += blockDim.x) {
    const int side = t / s.r, b = t % s.r;
    const float scale = sh.scale[side], Q = sh.u[q_at(s, side) + b] * scale;
    float sum = 0;
    for (int a = 0; a < s.R; ++a) sum = fmaf(sh.rows[side * s.R + a], D[a * s.r + b], sum);
    d_u[q_at(s, side) + b] = scale * (sum - sh.dots[2 * s.k + side] * signed_pow4(Q));
  }
}

}  // namespace

void write_linear(const NruWriteSizes& s, const NruWriteRows& rows, cudaStream_t stream) {
  launch_write("nru_write_linear", linear_kernel, Shared::bytes(s), s, rows, stream);
}

void write_linear_backward(const NruWriteSizes& s, const NruWriteRows& rows, cudaStream_t stream) {
  launch_write("nru_write_linear_backward", linear_backward_kernel, Shared::bytes(s), s, rows,
               stream);
}

}  // namespace nru::kernels::cuda
