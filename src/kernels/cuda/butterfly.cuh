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

// The two numbers that a pair of a layer turns, and by what.
template <int P>
struct NumberPair {
  Value<P> a, b;
};
struct PairAngles {
  float2 theta, phi;  // phi: complex only
};
template <int P>
__device__ inline PairAngles pair_angles(const Angles& angles, int index) {
  const float2 theta = __ldg(angles.theta + index);
  return {theta, P == 2 ? __ldg(angles.phi + index) : theta};
}

template <int P>
__device__ inline void turn_pair(const PairAngles& angles, NumberPair<P>& x) {
  if constexpr (P == 2) turn(angles.phi, x.b.part[0], x.b.part[1]);
  for (int p = 0; p < P; ++p) turn(angles.theta, x.a.part[p], x.b.part[p]);
}

// From the layer's output y and its gradient g to its input; adds to the gradients of the angles.
template <int P>
__device__ inline void turn_pair_back(const PairAngles& angles, NumberPair<P>& y, NumberPair<P>& g,
                                      float& d_theta, float& d_phi) {
  float d = 0;
  for (int p = 0; p < P; ++p) {
    d += g.b.part[p] * y.a.part[p] - g.a.part[p] * y.b.part[p];
    turn_back(angles.theta, y.a.part[p], y.b.part[p]);
    turn_back(angles.theta, g.a.part[p], g.b.part[p]);
  }
  d_theta += d;
  if constexpr (P == 2) {
    turn_back(angles.phi, y.b.part[0], y.b.part[1]);
    turn_back(angles.phi, g.b.part[0], g.b.part[1]);
    d_phi += phase_product(g.b.part[0], g.b.part[1], y.b.part[0], y.b.part[1]);
  }
}

// The diagonal of a complex butterfly, back; returns the gradient of the angle.
__device__ inline float turn_phase_back(float2 omega, Value<2>& y, Value<2>& g) {
  const float d = phase_product(g.part[0], g.part[1], y.part[0], y.part[1]);
  turn_back(omega, y.part[0], y.part[1]);
  turn_back(omega, g.part[0], g.part[1]);
  return d;
}

// Numbers of x [P, size] in shared memory.
template <int P>
__device__ inline Value<P> load_value(const float* x, int size, int j) {
  Value<P> value;
  for (int p = 0; p < P; ++p) value.part[p] = x[p * size + j];
  return value;
}
template <int P>
__device__ inline void store_value(const Value<P>& value, float* x, int size, int j) {
  for (int p = 0; p < P; ++p) x[p * size + j] = value.part[p];
}
template <int P>
__device__ inline NumberPair<P> load_pair(const float* x, int size, int a, int b) {
  return {load_value<P>(x, size, a), load_value<P>(x, size, b)};
}
template <int P>
__device__ inline void store_pair(const NumberPair<P>& pair, float* x, int size, int a, int b) {
  store_value(pair.a, x, size, a);
  store_value(pair.b, x, size, b);
}

// x [P, n] in shared memory becomes Q x. Begins and ends with a barrier.
template <int P>
__device__ inline void butterfly_forward(const Wiring& w, const Angles& angles, float* x) {
  __syncthreads();
  for (int l = 0; l < w.layers; ++l) {
    for (int p = threadIdx.x; p < w.pairs[l]; p += blockDim.x) {
      const int a = lower(p, w.shift[l]), b = a + (1 << w.shift[l]);
      NumberPair<P> pair = load_pair<P>(x, w.n, a, b);
      turn_pair(pair_angles<P>(angles, w.first[l] + p), pair);
      store_pair(pair, x, w.n, a, b);
    }
    __syncthreads();
  }
  if constexpr (P == 2) {
    for (int j = threadIdx.x; j < w.n; j += blockDim.x)
      turn(__ldg(angles.omega + j), x[j], x[w.n + j]);
    __syncthreads();
  }
}

// y = Q x and dy, both [P, n], become x and dx; adds to the gradients of the angles. Begins and
// ends with a barrier.
template <int P>
__device__ inline void butterfly_backward(const Wiring& w, const Angles& angles, float* y, float* g,
                                          const AngleSums& sums) {
  __syncthreads();
  if constexpr (P == 2) {
    for (int j = threadIdx.x; j < w.n; j += blockDim.x) {
      Value<2> y_j = load_value<2>(y, w.n, j), g_j = load_value<2>(g, w.n, j);
      sums.omega[j] += turn_phase_back(__ldg(angles.omega + j), y_j, g_j);
      store_value(y_j, y, w.n, j);
      store_value(g_j, g, w.n, j);
    }
    __syncthreads();
  }
  for (int l = w.layers; l-- > 0;) {
    for (int p = threadIdx.x; p < w.pairs[l]; p += blockDim.x) {
      const int a = lower(p, w.shift[l]), b = a + (1 << w.shift[l]), angle = w.first[l] + p;
      NumberPair<P> y_pair = load_pair<P>(y, w.n, a, b), g_pair = load_pair<P>(g, w.n, a, b);
      float d_theta = 0, d_phi = 0;
      turn_pair_back(pair_angles<P>(angles, angle), y_pair, g_pair, d_theta, d_phi);
      store_pair(y_pair, y, w.n, a, b);
      store_pair(g_pair, g, w.n, a, b);
      sums.theta[angle] += d_theta;
      if constexpr (P == 2) sums.phi[angle] += d_phi;
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
