// The memory write of the NRU in its general form, for any number of heads and any way to make the
// directions: V = direction(u) [k*m], v_i = f(V_i) / max(|f(V_i)|_5, 1e-12). The heads' sum s is
// added to the memory, or multiplies it; then ds = D m' and dm' = D s, with D = dm.
//
// A row's V of both sides is kept in shared memory: its heads begin anywhere in the rows of p q^T,
// and to find p and q of a number takes divisions by sizes that no compiler knows. Where it does
// not fit, numbers are formed again from u wherever they are needed.
#pragma once

#include "kernels/cuda/nru_write.cuh"

namespace nru::kernels::cuda::general {

// Of one head, made by its warp.
struct Head {
  float factor;   // v = factor * f(V)
  float inverse;  // 1/norm where the direction gets a gradient, else 0
};

// What a CTA knows of its row. Heads count from 0 to 2k: those that write, then those that erase.
template <bool kStored>
struct Row {
  const NruWriteSizes& s;
  const float* u;  // head outputs
  Head* heads;     // [2k]
  float* numbers;  // [2, k*m], if stored: V, in the end dV

  __device__ const float* side(int i) const { return u + 2 * s.k + i * s.direction_size; }
  // c0 with the sign of the head's side.
  __device__ float combine(int head) const { return head < s.k ? s.combine : -s.combine; }
  __device__ float rectified(float x) const { return s.relu ? relu(x) : x; }

  // Number e of a side's k*m, from p and q or as it comes.
  __device__ float formed(int i, int e) const {
    if (s.direction == NruDirection::full) return side(i)[e];
    const int block = e / (s.root * s.root), within = e % (s.root * s.root);
    const float *p = side(i) + block * s.root, *q = p + s.direction_size / 2;
    return p[within / s.root] * q[within % s.root];
  }

  __device__ float V(int head, int j) const {
    if constexpr (kStored) return numbers[head * s.m + j];
    return formed(head / s.k, head % s.k * s.m + j);
  }

  // A head that writes nothing has factor 0, and its numbers may be infinite.
  __device__ float v(int head, int j) const {
    return heads[head].factor == 0.f ? 0.f : rectified(V(head, j)) * heads[head].factor;
  }

  __device__ void store() {
    if (s.direction == NruDirection::full) {
      for (int e = threadIdx.x; e < 2 * s.direction_size; e += blockDim.x) numbers[e] = side(0)[e];
      return;
    }
    const int half = s.direction_size / 2;  // numbers of p on a side, each with its row of p q^T
    for (int a = threadIdx.x / 32; a < 2 * half; a += blockDim.x / 32) {
      const float *p = side(a / half), *q = p + half + a % half / s.root * s.root;
      for (int i = threadIdx.x % 32; i < s.root; i += 32)
        numbers[a * s.root + i] = p[a % half] * q[i];
    }
  }

  __device__ Head settled(int head, std::int64_t* events) const;

  __device__ void settle_all(std::int64_t* events) {
    if constexpr (kStored) {
      store();
      __syncthreads();
    }
    for (int h = threadIdx.x / 32; h < 2 * s.k; h += blockDim.x / 32) {
      const Head head = settled(h, events);
      if (threadIdx.x % 32 == 0) heads[h] = head;
    }
    __syncthreads();
  }

  // Number j of c0 sum_i (alpha_i v_i^w - beta_i v_i^e).
  __device__ float heads_sum(int j) const {
    float sum = 0;
    for (int h = 0; h < 2 * s.k; ++h) sum = fmaf(combine(h) * rectified(u[h]), v(h, j), sum);
    return sum;
  }
};

template <bool kStored>
__device__ Head Row<kStored>::settled(int head, std::int64_t* events) const {
  const int lane = threadIdx.x % 32;
  float largest = 0;
  for (int j = lane; j < s.m; j += 32) {
    // With ReLU heads -inf, too, before it becomes 0.
    const float x = V(head, j);
    const float a = s.relu && !finite(x) ? infinity() : fabsf(rectified(x));
    largest = a <= largest ? largest : a;
    if (a != a) break;
  }
  largest = warp_largest(largest);
  float norm = largest, inverse = 0;
  if (largest < FLT_MIN) {
    norm = 0;
  } else if (largest <= kLargestNorm) {
    float sum = 0;
    for (int j = lane; j < s.m; j += 32) sum += pow5(fabsf(rectified(V(head, j)) / largest));
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

// The forward pass of a CTA's row. `heads`, in shared memory: [2k], then V.
template <bool kStored>
__device__ inline void forward(const NruWriteSizes& s, const NruWriteRows& rows, Head* heads) {
  const size_t at = blockIdx.x;
  Row<kStored> row{s, rows.heads + at * rows.ld_heads, heads,
                   reinterpret_cast<float*>(heads + 2 * s.k)};
  row.settle_all(rows.events + at * kEvents);
  for (int j = threadIdx.x; j < s.m; j += blockDim.x) {
    const float sum = row.heads_sum(j), m_prev = rows.m_prev[at * rows.ld_m + j];
    rows.m[at * rows.ld_m + j] = s.multiply ? m_prev * sum : m_prev + sum;
  }
}

template <bool kStored>
struct Backward {
  const Row<kStored>& row;
  const float* d_sum;  // [m], of the heads' sum
  float* dots;         // [2k], <d_sum, v_i>

  // A warp's: of alpha_i or beta_i. Returns the gradient.
  __device__ float strength_gradient(int head) const {
    const NruWriteSizes& s = row.s;
    float dot = 0;
    for (int j = threadIdx.x % 32; j < s.m; j += 32) dot = fmaf(d_sum[j], row.v(head, j), dot);
    dots[head] = dot = warp_sum(dot);
    return s.relu && !(row.u[head] > 0.f) ? 0.f : row.combine(head) * dot;
  }

  // Of number j of a head's direction.
  __device__ float formed(int head, int j) const {
    const float alpha = row.u[head], inverse = row.heads[head].inverse;
    if (inverse == 0.f || (row.s.relu && !(alpha > 0.f))) return 0;
    const float x = row.v(head, j);
    if (row.s.relu && !(x > 0.f)) return 0;
    return row.combine(head) * alpha * inverse * (d_sum[j] - dots[head] * signed_pow4(x));
  }

  // Of number e of all 2*k*m.
  __device__ float dV(int e) const {
    if constexpr (kStored) return row.numbers[e];
    return formed(e / row.s.m, e % row.s.m);
  }

  // Of number t of both sides' p and q (or V itself): its row or column of dV times the other.
  __device__ float direction_gradient(int t) const {
    const NruWriteSizes& s = row.s;
    if (s.direction == NruDirection::full) return dV(t);
    const int half = s.direction_size / 2, side = t / s.direction_size;
    const bool is_q = t % s.direction_size >= half;
    const int at = t % half, block = at / s.root, index = at % s.root;
    const float* other = row.side(side) + (is_q ? 0 : half) + block * s.root;
    const int first = (side * half + block * s.root) * s.root + (is_q ? index : index * s.root);
    // The rows of neighbours are an even or odd number of banks apart: where it is even, each
    // begins one further on than the one before.
    int i = is_q || s.root % 2 ? 0 : index;
    const int stride = is_q ? s.root : 1;
    float sum = 0;
    for (int n = 0; n < s.root; ++n) {
      // An infinite p or q belongs to heads that write nothing: it passes on gradient zero.
      const float factor = finite(other[i]) ? other[i] : 0.f;
      sum = fmaf(dV(first + i * stride), factor, sum);
      if (++i == s.root) i = 0;
    }
    return sum;
  }
};

// `heads`: [2k], then dots, d_sum, V.
template <bool kStored>
__device__ inline void backward(const NruWriteSizes& s, const NruWriteRows& rows, Head* heads) {
  float *dots = reinterpret_cast<float*>(heads + 2 * s.k), *d_sum = dots + 2 * s.k;
  const size_t at = blockIdx.x;
  const float* m_prev = rows.m_prev + at * rows.ld_m;
  float *D = rows.d_m + at * rows.ld_m, *d_u = rows.d_heads + at * rows.ld_heads;
  for (int j = threadIdx.x; j < s.m; j += blockDim.x)
    d_sum[j] = s.multiply ? D[j] * m_prev[j] : D[j];
  Row<kStored> row{s, rows.heads + at * rows.ld_heads, heads, d_sum + s.m};
  row.settle_all(nullptr);  // the forward pass has counted
  if (s.multiply) {
    for (int j = threadIdx.x; j < s.m; j += blockDim.x) D[j] *= row.heads_sum(j);
    __syncthreads();  // V is overwritten next
  }
  const Backward<kStored> back{row, d_sum, dots};
  const int lane = threadIdx.x % 32;
  for (int h = threadIdx.x / 32; h < 2 * s.k; h += blockDim.x / 32) {
    const float gradient = back.strength_gradient(h);
    if (lane == 0) d_u[h] = gradient;
    if constexpr (kStored) {
      for (int j = lane; j < s.m; j += 32) row.numbers[h * s.m + j] = back.formed(h, j);
    }
  }
  __syncthreads();
  for (int t = threadIdx.x; t < 2 * s.direction_size; t += blockDim.x)
    d_u[2 * s.k + t] = back.direction_gradient(t);
}

// Bytes of shared memory besides V, and V's.
inline std::size_t forward_bytes(const NruWriteSizes& s) { return 2 * s.k * sizeof(Head); }
inline std::size_t backward_bytes(const NruWriteSizes& s) {
  return forward_bytes(s) + (2 * s.k + s.m) * sizeof(float);
}
inline std::size_t stored_bytes(const NruWriteSizes& s) { return 2 * s.k * s.m * sizeof(float); }

}  // namespace nru::kernels::cuda::general
