// The factored memory write with ReLU heads: rank two.
//
// f(p_i q^T) = p_i+ q+^T + p_i- q-^T with f = max(., 0), so the write splits into one outer product
// for the columns with q > 0 and one for those with q < 0.
#include "kernels/cuda/nru_write.cuh"

namespace nru::kernels::cuda {
namespace {

struct SignedSums {  // S(x+) and S(x-), S(y) = sum y^5
  float plus, minus;
};

// Views of a row's shared memory.
struct Shared {
  float *u, *gain, *live, *scale, *magnitude, *along, *plus, *minus, *d_plus, *d_minus, *memory;
  SignedSums* sums;
  __device__ Shared(float* base, const NruWriteSizes& s) {
    sums = reinterpret_cast<SignedSums*>(base);  // [2k + 2]: the p_i, then the q
    u = base + 2 * (2 * s.k + 2);
    gain = u + 2 * s.k + 4 * s.r;  // gain, live, scale: as aux
    live = gain + 2 * s.k;
    scale = live + 2 * s.k;
    magnitude = scale + 2;            // [2k + 2]
    along = magnitude + 2 * s.k + 2;  // [2k]
    plus = along + 2 * s.k;           // each [2, R]
    minus = plus + 2 * s.R;
    d_plus = minus + 2 * s.R;
    d_minus = d_plus + 2 * s.R;
    memory = d_minus + 2 * s.R;  // m', or the gradient D of m
  }
  static size_t bytes(const NruWriteSizes& s) {
    return sizeof(float) * (14 * s.k + 4 * s.r + 8 * s.R + 8 + s.m);
  }
};

// Of scale * x, by a warp.
__device__ inline SignedSums signed_sums(const float* x, int n, float scale) {
  float plus = 0, minus = 0;
  for (int j = threadIdx.x % 32; j < n; j += 32) {
    const float y = pow5(scale * x[j]);
    plus += fmaxf(y, 0.f);
    minus += fmaxf(-y, 0.f);
  }
  return {warp_sum(plus), warp_sum(minus)};
}

// sum_i c_i gain_i p_i+ and the same of p_i-, which keeps its sign.
__device__ inline void write_rows(const NruWriteSizes& s, const Shared& sh, bool live_only) {
  for (int t = threadIdx.x; t < 2 * s.R; t += blockDim.x) {
    const int side = t / s.R, a = t % s.R;
    float plus = 0, minus = 0;
    for (int i = 0; i < s.k; ++i) {
      const int head = side * s.k + i;
      const float c = sign_of(s, side) * relu(sh.u[head]) * (live_only ? sh.live[head] : 1.f);
      const float x = sh.gain[head] * sh.u[p_at(s, side) + i * s.R + a];
      plus = fmaf(c, fmaxf(x, 0.f), plus);
      minus = fmaf(c, fminf(x, 0.f), minus);
    }
    sh.plus[t] = plus;
    sh.minus[t] = minus;
  }
}

__global__ void relu_kernel(const NruWriteSizes s, const NruWriteRows rows) {
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
    const int n = head ? s.R : s.r;
    const float largest = usable_magnitude(sh.u + at, u + at, n);
    const float scale = largest >= FLT_MIN ? 1.f / largest : 0.f;
    const SignedSums sums = signed_sums(sh.u + at, n, scale);
    if (threadIdx.x % 32 == 0) {
      sh.magnitude[g] = largest;
      sh.sums[g] = sums;
      if (!head) sh.scale[g - 2 * s.k] = scale;
    }
  }
  __syncthreads();
  for (int t = threadIdx.x; t < 2 * s.k; t += blockDim.x) {
    const int q = 2 * s.k + t / s.k;
    const float root =
        fifth_root(sh.sums[t].plus * sh.sums[q].plus + sh.sums[t].minus * sh.sums[q].minus);
    settle_head(sh.magnitude[t] * root, sh.magnitude[q], s.authors_overflow, sh.gain + t,
                sh.live + t, rows.events + row * kEvents);
  }
  __syncthreads();
  for (int t = threadIdx.x; t < 4 * s.k + 2; t += blockDim.x) aux[t] = sh.gain[t];
  write_rows(s, sh, false);
  __syncthreads();
  float* m = rows.m + row * rows.ld_m;
  for (int j = threadIdx.x; j < s.m; j += blockDim.x) {
    const int a = j / s.r, b = j % s.r;
    float value = sh.memory[j];
    for (int side = 0; side < 2; ++side) {
      const float Q = sh.scale[side] * sh.u[q_at(s, side) + b];
      value = fmaf(Q > 0.f ? sh.plus[side * s.R + a] : sh.minus[side * s.R + a], Q, value);
    }
    m[j] = value;
  }
}

__global__ void relu_backward_kernel(const NruWriteSizes s, const NruWriteRows rows) {
  extern __shared__ float base[];
  after_previous();
  const Shared sh(base, s);
  const int warp = threadIdx.x / 32, warps = blockDim.x / 32, lane = threadIdx.x % 32;
  const size_t row = blockIdx.x;
  const float *u = rows.heads + row * rows.ld_heads, *aux = rows.aux + row * rows.ld_aux;
  const float* D = sh.memory;
  float* d_u = rows.d_heads + row * rows.ld_heads;
  for (int j = threadIdx.x; j < s.outputs; j += blockDim.x) sh.u[j] = u[j];
  for (int t = threadIdx.x; t < 4 * s.k + 2; t += blockDim.x) sh.gain[t] = aux[t];
  for (int j = threadIdx.x; j < s.m; j += blockDim.x) sh.memory[j] = rows.d_m[row * rows.ld_m + j];
  __syncthreads();
  write_rows(s, sh, true);
  for (int g = warp; g < 2 * s.R; g += warps) {  // D Q over q > 0 and over q < 0
    const int side = g / s.R, a = g % s.R;
    float plus = 0, minus = 0;
    for (int b = lane; b < s.r; b += 32) {
      const float Q = sh.scale[side] * sh.u[q_at(s, side) + b], d = D[a * s.r + b] * Q;
      Q > 0.f ? plus += d : minus += d;
    }
    plus = warp_sum(plus);
    minus = warp_sum(minus);
    if (lane == 0) {
      sh.d_plus[g] = plus;
      sh.d_minus[g] = minus;
    }
  }
  for (int g = warp; g < 2 * s.k + 2; g += warps) {
    const bool head = g < 2 * s.k;
    const int at = head ? p_at(s, g / s.k) + g % s.k * s.R : q_at(s, g - 2 * s.k);
    const SignedSums sums =
        signed_sums(sh.u + at, head ? s.R : s.r, head ? sh.gain[g] : sh.scale[g - 2 * s.k]);
    if (lane == 0) sh.sums[g] = sums;
  }
  __syncthreads();
  for (int t = threadIdx.x; t < 2 * s.k; t += blockDim.x) {
    const int side = t / s.k;
    const float* p = sh.u + p_at(s, side) + t % s.k * s.R;
    const SignedSums sums = sh.sums[t], q = sh.sums[2 * s.k + side];
    float dot = 0;  // <D, v_i>
    for (int a = 0; a < s.R; ++a) {
      const int at = side * s.R + a;
      dot = fmaf(sh.gain[t] * p[a], p[a] > 0.f ? sh.d_plus[at] : sh.d_minus[at], dot);
    }
    d_u[t] = sh.u[t] > 0.f ? sign_of(s, side) * dot : 0.f;
    // The gradient through the norm is divided by |v|_5^5 as it came out (one, but for a few units
    // in the last place), so that what ought to cancel against it does.
    const float power = sums.plus * q.plus + sums.minus * q.minus;
    sh.along[t] = sh.live[t] > 0.f ? dot / power : 0.f;
  }
  __syncthreads();
  for (int t = threadIdx.x; t < 2 * s.r; t += blockDim.x) {
    const int side = t / s.r, e = t % s.r, head = side * s.k + e / s.R, at = side * s.R + e % s.R;
    const float p = sh.u[p_at(s, side) + e], gain = sh.gain[head], x = gain * p;
    const float c = sign_of(s, side) * relu(sh.u[head]) * sh.live[head];
    const float x4 = (x * x) * (x * x), along = sh.along[head];
    const SignedSums q = sh.sums[2 * s.k + side];
    d_u[p_at(s, side) + e] = p > 0.f   ? c * gain * (sh.d_plus[at] - along * x4 * q.plus)
                             : p < 0.f ? c * gain * (sh.d_minus[at] + along * x4 * q.minus)
                                       : 0.f;
  }
  for (int t = threadIdx.x; t < 2 * s.r; t += blockDim.x) {
    const int side = t / s.r, b = t % s.r;
    const float scale = sh.scale[side], Q = scale * sh.u[q_at(s, side) + b], Q4 = (Q * Q) * (Q * Q);
    float sum = 0, through = 0;  // of the side of q that b is on
    for (int a = 0; a < s.R; ++a)
      sum = fmaf(Q > 0.f ? sh.plus[side * s.R + a] : sh.minus[side * s.R + a], D[a * s.r + b], sum);
    for (int i = 0; i < s.k; ++i) {
      const int head = side * s.k + i;
      const float c = sign_of(s, side) * relu(sh.u[head]) * sh.live[head];
      through += c * sh.along[head] * (Q > 0.f ? sh.sums[head].plus : sh.sums[head].minus);
    }
    d_u[q_at(s, side) + b] = Q > 0.f   ? scale * (sum - Q4 * through)
                             : Q < 0.f ? scale * (sum + Q4 * through)
                                       : 0.f;
  }
}

}  // namespace

void write_relu(const NruWriteSizes& s, const NruWriteRows& rows, cudaStream_t stream) {
  launch_write("nru_write_relu", relu_kernel, Shared::bytes(s), s, rows, stream);
}

void write_relu_backward(const NruWriteSizes& s, const NruWriteRows& rows, cudaStream_t stream) {
  launch_write("nru_write_relu_backward", relu_backward_kernel, Shared::bytes(s), s, rows, stream);
}

}  // namespace nru::kernels::cuda
