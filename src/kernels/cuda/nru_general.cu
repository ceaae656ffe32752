// The memory write of the NRU in its general form, for any number of heads and any way to make the
// directions: V = direction(u) [k*m], v_i = f(V_i) / max(|f(V_i)|_5, 1e-12). The heads' sum s is
// added to the memory, or multiplies it; then ds = D m' and dm' = D s, with D = dm.
//
// V is never stored: its numbers are formed again from u (cached) wherever they are needed, so the
// size of a row has no limit but that of the norms in shared memory.
#include "kernels/cuda/nru_write.cuh"

namespace nru::kernels::cuda {
namespace {

// Number e of all k*m of one side, as it comes; `u` is that side's part of the head outputs.
__device__ inline float direction(const NruWriteSizes& s, const float* u, int e) {
  if (s.direction == NruDirection::full) return u[e];
  const int block = e / (s.root * s.root), within = e % (s.root * s.root);  // p q^T of one block
  const int q = s.direction_size / 2;
  return u[block * s.root + within / s.root] * u[q + block * s.root + within % s.root];
}

// Of one head, made by its warp in the forward pass.
struct Head {
  float factor;   // v = factor * f(V)
  float inverse;  // 1/norm where the direction gets a gradient, else 0
};

__device__ inline float rectified(const NruWriteSizes& s, float x) { return s.relu ? relu(x) : x; }

__device__ Head settle(const NruWriteSizes& s, const float* u, int head, std::int64_t* events) {
  const int lane = threadIdx.x % 32, first = head * s.m;
  float largest = 0;
  for (int j = lane; j < s.m; j += 32) {
    // With ReLU heads -inf, too, before it becomes 0.
    const float x = direction(s, u, first + j);
    const float a = s.relu && !finite(x) ? infinity() : fabsf(rectified(s, x));
    largest = a <= largest ? largest : a;
    if (a != a) break;
  }
  largest = warp_largest(largest);
  float norm = largest, inverse = 0;
  if (largest < FLT_MIN) {
    norm = 0;
  } else if (largest <= kLargestNorm) {
    float sum = 0;
    for (int j = lane; j < s.m; j += 32)
      sum += pow5(fabsf(rectified(s, direction(s, u, first + j)) / largest));
    sum = warp_sum(sum);
    norm = largest * fifth_root(sum);
    // Not 1 / norm: each rounding counts five times where the gradient should cancel.
    inverse = reciprocal_fifth_root(sum) / largest;
  }
  if (!(norm <= (s.authors_overflow ? kAuthorsLargest : kLargestNorm))) {
    if (events && lane == 0) count_event(events, kOverflow);
    return {0, 0};
  }
  if (norm <= kClamp) {
    if (events && lane == 0) count_event(events, kClamped);
    return {1.f / kClamp, 0};
  }
  return {inverse, inverse};
}

// A head that writes nothing has factor 0, and its numbers may be infinite.
__device__ inline float direction_of_head(const NruWriteSizes& s, const float* u, const Head& head,
                                          int e) {
  return head.factor == 0.f ? 0.f : rectified(s, direction(s, u, e)) * head.factor;
}

__device__ inline const float* side_of(const NruWriteSizes& s, const float* u, int side) {
  return u + 2 * s.k + side * s.direction_size;
}

__device__ inline void settle_all(const NruWriteSizes& s, const float* u, Head* heads,
                                  std::int64_t* events) {
  for (int h = threadIdx.x / 32; h < 2 * s.k; h += blockDim.x / 32) {
    const Head head = settle(s, side_of(s, u, h / s.k), h % s.k, events);
    if (threadIdx.x % 32 == 0) heads[h] = head;
  }
}

// Number j of c0 sum_i (alpha_i v_i^w - beta_i v_i^e).
__device__ inline float heads_sum(const NruWriteSizes& s, const float* u, const Head* heads,
                                  int j) {
  float sum = 0;
  for (int h = 0; h < 2 * s.k; ++h) {
    const float c = (h < s.k ? s.combine : -s.combine) * rectified(s, u[h]);
    sum = fmaf(c, direction_of_head(s, side_of(s, u, h / s.k), heads[h], h % s.k * s.m + j), sum);
  }
  return sum;
}

__global__ void general_kernel(const NruWriteSizes s, const NruWriteRows rows) {
  extern __shared__ Head heads[];  // [2k]
  after_previous();
  const size_t row = blockIdx.x;
  const float* u = rows.heads + row * rows.ld_heads;
  settle_all(s, u, heads, rows.events + row * kEvents);
  __syncthreads();
  for (int j = threadIdx.x; j < s.m; j += blockDim.x) {
    const float sum = heads_sum(s, u, heads, j), m_prev = rows.m_prev[row * rows.ld_m + j];
    rows.m[row * rows.ld_m + j] = s.multiply ? m_prev * sum : m_prev + sum;
  }
}

struct Backward {
  const NruWriteSizes& s;
  const float *u, *m_prev, *D;
  const Head* heads;
  const float* dots;
  // Gradient of number j of the heads' sum.
  __device__ float sum_gradient(int j) const { return s.multiply ? D[j] * m_prev[j] : D[j]; }
  // Gradient of number e of a side's directions.
  __device__ float direction_gradient(int side, int e) const {
    const int head = side * s.k + e / s.m;
    const float alpha = u[head];
    if (heads[head].inverse == 0.f || (s.relu && !(alpha > 0.f))) return 0;
    const float x = direction_of_head(s, side_of(s, u, side), heads[head], e);
    if (s.relu && !(x > 0.f)) return 0;
    const float c = (side ? -s.combine : s.combine) * alpha * heads[head].inverse;
    return c * (sum_gradient(e % s.m) - dots[head] * signed_pow4(x));
  }
};

// An infinite p or q belongs to heads that write nothing: it gets and passes on gradient zero.
__device__ inline float finite_or_zero(float x) { return finite(x) ? x : 0.f; }

__global__ void general_backward_kernel(const NruWriteSizes s, const NruWriteRows rows) {
  extern __shared__ Head heads[];
  after_previous();
  float* dots = reinterpret_cast<float*>(heads + 2 * s.k);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const size_t row = blockIdx.x;
  const float* u = rows.heads + row * rows.ld_heads;
  float *D = rows.d_m + row * rows.ld_m, *d_u = rows.d_heads + row * rows.ld_heads;
  const Backward back{s, u, rows.m_prev + row * rows.ld_m, D, heads, dots};
  settle_all(s, u, heads, nullptr);  // the forward pass has counted
  __syncthreads();
  for (int h = warp; h < 2 * s.k; h += warps) {  // <ds, v_i>
    float dot = 0;
    for (int j = lane; j < s.m; j += 32) {
      dot = fmaf(back.sum_gradient(j),
                 direction_of_head(s, side_of(s, u, h / s.k), heads[h], h % s.k * s.m + j), dot);
    }
    dot = warp_sum(dot);
    if (lane == 0) {
      dots[h] = dot;
      d_u[h] = s.relu && !(u[h] > 0.f) ? 0.f : (h < s.k ? s.combine : -s.combine) * dot;
    }
  }
  __syncthreads();
  const int half = s.direction_size / 2, block_size = s.root * s.root;
  for (int side = 0; side < 2; ++side) {
    const float* from = side_of(s, u, side);
    float* to = d_u + 2 * s.k + side * s.direction_size;
    if (s.direction == NruDirection::full) {
      for (int e = threadIdx.x; e < s.direction_size; e += blockDim.x)
        to[e] = back.direction_gradient(side, e);
      continue;
    }
    for (int t = warp; t < s.direction_size; t += warps) {  // a warp per number of p and q
      const bool is_q = t >= half;
      const int at = is_q ? t - half : t, block = at / s.root, index = at % s.root;
      const float* other = from + (is_q ? 0 : half) + block * s.root;
      float sum = 0;
      for (int i = lane; i < s.root; i += 32) {
        const int e = block * block_size + (is_q ? i * s.root + index : index * s.root + i);
        sum = fmaf(back.direction_gradient(side, e), finite_or_zero(other[i]), sum);
      }
      sum = warp_sum(sum);
      if (lane == 0) to[t] = sum;
    }
  }
  if (!s.multiply) return;
  __syncthreads();  // all have read D
  for (int j = threadIdx.x; j < s.m; j += blockDim.x) D[j] *= heads_sum(s, u, heads, j);
}

}  // namespace

void write_general(const NruWriteSizes& s, const NruWriteRows& rows, cudaStream_t stream) {
  launch_write("nru_write_general", general_kernel, 2 * s.k * sizeof(Head), s, rows, stream);
}

void write_general_backward(const NruWriteSizes& s, const NruWriteRows& rows, cudaStream_t stream) {
  const size_t bytes = 2 * s.k * (sizeof(Head) + sizeof(float));
  launch_write("nru_write_general_backward", general_backward_kernel, bytes, s, rows, stream);
}

}  // namespace nru::kernels::cuda
