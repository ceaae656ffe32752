// The butterfly y = Q x of one row by one CTA, in shared memory: layer after layer with a barrier
// in between. Wiring: kernels/butterfly.h; mathematics: kernels/cpu/butterfly-inl.h.
//
// Nothing is kept for the backward pass but the input x: it repeats the layers forward, then walks
// them back, turning y and its gradient together, because every layer is invertible. The gradients
// of the angles are added up per row of the batch, one thread per pair.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <string>

#include "kernels/butterfly.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/modrelu.cuh"

namespace nru::kernels::cuda {

inline constexpr int kMaxLayers = 24;

// What a kernel needs to know of the wiring; P = 1: real, P = 2: complex numbers.
struct Wiring {
  int n = 0, layers = 0, angles = 0;
  int shift[kMaxLayers];  // the stride is 2^shift
  int first[kMaxLayers], pairs[kMaxLayers];
};

inline Wiring wiring_of(int n) {
  const Butterfly butterfly(n);
  Wiring w;
  w.n = n;
  w.angles = butterfly.angles();
  for (const ButterflyLayer& layer : butterfly.layers()) {
    int shift = 0;
    while ((1 << shift) < layer.stride) ++shift;
    w.shift[w.layers] = shift;
    w.first[w.layers] = layer.first;
    w.pairs[w.layers++] = layer.pairs;
  }
  return w;
}

// Cosines and sines of theta [angles], phi [angles] and omega [n]; the last two complex only.
struct Angles {
  const float2 *theta, *phi, *omega;
  __host__ __device__ Angles(const float* derived, const Wiring& w)
      : theta(reinterpret_cast<const float2*>(derived)),
        phi(theta + w.angles),
        omega(phi + w.angles) {}
};

inline std::size_t angles_size(const Wiring& w, int planes) {
  return 2 * static_cast<std::size_t>(planes == 1 ? w.angles : 2 * w.angles + w.n);
}

// Gradients of the angles of one row.
struct AngleSums {
  float *theta, *phi, *omega;
};

// (a, b) <- (c a - s b, s a + c b), and back.
__device__ inline void turn(float2 angle, float& a, float& b) {
  const float first = fmaf(-angle.y, b, angle.x * a);
  b = fmaf(angle.y, a, angle.x * b);
  a = first;
}
__device__ inline void turn_back(float2 angle, float& a, float& b) {
  const float first = fmaf(angle.y, b, angle.x * a);
  b = fmaf(-angle.y, a, angle.x * b);
  a = first;
}

__device__ inline int lower(int pair, int shift) {
  return (pair >> shift << (shift + 1)) | (pair & ((1 << shift) - 1));
}

// <g, i x>
__device__ inline float phase_product(float g_re, float g_im, float x_re, float x_im) {
  return g_im * x_re - g_re * x_im;
}

// x [P, n] in shared memory becomes Q x. Begins and ends with a barrier.
template <int P>
__device__ inline void butterfly_forward(const Wiring& w, const Angles& angles, float* x) {
  float* im = x + w.n;  // complex only
  __syncthreads();
  for (int l = 0; l < w.layers; ++l) {
    for (int p = threadIdx.x; p < w.pairs[l]; p += blockDim.x) {
      const int a = lower(p, w.shift[l]), b = a + (1 << w.shift[l]);
      const float2 theta = __ldg(angles.theta + w.first[l] + p);
      if constexpr (P == 2) {
        turn(__ldg(angles.phi + w.first[l] + p), x[b], im[b]);
        turn(theta, im[a], im[b]);
      }
      turn(theta, x[a], x[b]);
    }
    __syncthreads();
  }
  if constexpr (P == 2) {
    for (int j = threadIdx.x; j < w.n; j += blockDim.x) turn(__ldg(angles.omega + j), x[j], im[j]);
    __syncthreads();
  }
}

// y = Q x and dy, both [P, n], become x and dx; adds to the gradients of the angles. Begins and
// ends with a barrier.
template <int P>
__device__ inline void butterfly_backward(const Wiring& w, const Angles& angles, float* y, float* g,
                                          const AngleSums& sums) {
  float *y_im = y + w.n, *g_im = g + w.n;
  __syncthreads();
  if constexpr (P == 2) {
    for (int j = threadIdx.x; j < w.n; j += blockDim.x) {
      sums.omega[j] += phase_product(g[j], g_im[j], y[j], y_im[j]);
      const float2 omega = __ldg(angles.omega + j);
      turn_back(omega, y[j], y_im[j]);
      turn_back(omega, g[j], g_im[j]);
    }
    __syncthreads();
  }
  for (int l = w.layers; l-- > 0;) {
    for (int p = threadIdx.x; p < w.pairs[l]; p += blockDim.x) {
      const int a = lower(p, w.shift[l]), b = a + (1 << w.shift[l]), angle = w.first[l] + p;
      const float2 theta = __ldg(angles.theta + angle);
      float d_theta = g[b] * y[a] - g[a] * y[b];
      turn_back(theta, y[a], y[b]);
      turn_back(theta, g[a], g[b]);
      if constexpr (P == 2) {
        d_theta += g_im[b] * y_im[a] - g_im[a] * y_im[b];
        turn_back(theta, y_im[a], y_im[b]);
        turn_back(theta, g_im[a], g_im[b]);
        const float2 phi = __ldg(angles.phi + angle);
        turn_back(phi, y[b], y_im[b]);
        turn_back(phi, g[b], g_im[b]);
        sums.phi[angle] += phase_product(g[b], g_im[b], y[b], y_im[b]);
      }
      sums.theta[angle] += d_theta;
    }
    __syncthreads();
  }
}

// Launches a kernel of a CTA per row with `planes` rows of n values in shared memory.
template <class Operands>
void launch_rows(const char* name, void (*kernel)(Wiring, Operands), const Wiring& w,
                 const Operands& operands, int rows, int planes, cudaStream_t stream) {
  const std::size_t bytes = static_cast<std::size_t>(planes) * w.n * sizeof(float);
  allow_shared_memory(std::string(name) + " of " + std::to_string(w.n) + " units",
                      reinterpret_cast<const void*>(kernel), bytes);
  const int threads = std::min(1024, std::max(32, (w.n / 2 + 31) / 32 * 32));
  launch(name, rows, w.n, kernel, {dim3(rows), dim3(threads), bytes}, stream, w, operands);
}

}  // namespace nru::kernels::cuda
