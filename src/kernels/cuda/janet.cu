// JANET, pointwise part on the device. One phase: [x, h'] -> gates.
//
//   f = s(a_f)   s2 = s(a_f - beta)   g = tanh(a_c)   h = f h' + (1 - s2) g
//
// Kept for the backward pass: f and g, in place of their pre-activations, and h. s2 is a function
// of f: s2 = f / (f + (1-f) e^beta), which is f itself without beta.
#include "kernels/janet.h"

#include <cmath>

#include "kernels/cuda/device_cell.h"
#include "kernels/cuda/each.cuh"
#include "kernels/cuda/math.cuh"

namespace nru::kernels::cuda {
namespace {

constexpr int kH = 1, kGates = 2;  // parts; gates = f, g

__device__ inline float shifted(bool beta, float f, float exp_beta) {
  return beta ? f / fmaf(1.f - f, exp_beta, f) : f;
}

struct JanetForward {
  int H, ld, ld_gates;
  bool beta;
  float exp_beta;
  const float* h_prev;
  float *gates, *h;
  __device__ void operator()(long long row, int j) const {
    float* gate = gates + row * ld_gates + j;
    const float f = sigmoid(gate[0]), g = tanhf(gate[H]);
    gate[0] = f;
    gate[H] = g;
    h[row * ld + j] = fmaf(f, h_prev[row * ld + j], (1.f - shifted(beta, f, exp_beta)) * g);
  }
};

struct JanetBackward {
  int H, ld, ld_gates;
  bool beta;
  float exp_beta;
  const float *h_prev, *gates;
  float *dh, *da;
  __device__ void operator()(long long row, int j) const {
    const long long at = row * ld + j, gate = row * ld_gates + j;
    const float f = gates[gate], g = gates[gate + H], h0 = h_prev[at], d = dh[at];
    const float s2 = shifted(beta, f, exp_beta), input = 1.f - s2, slope = f * (1.f - f);
    da[gate] = d * (beta ? h0 * slope - g * (s2 * input) : (h0 - g) * slope);
    da[gate + H] = d * input * (1.f - g * g);
    dh[at] = d * f;
  }
};

DeviceCell cell(const Program<float>& program) {
  const auto shape = std::any_cast<JanetShape>(program.shape);
  const int H = shape.hidden;
  const bool beta = shape.beta != 0;
  const float e = static_cast<float>(std::exp(shape.beta));
  DeviceCell c;
  c.phases = {{[=](const Rows<float>& rows, cudaStream_t stream) {
                 for_each("janet", rows.count, H, stream,
                          JanetForward{H, rows.ld[kH], rows.ld[kGates], beta, e, rows.previous[kH],
                                       rows.current[kGates], rows.current[kH]});
               },
               [=](const Rows<float>& rows, cudaStream_t stream) {
                 for_each("janet_backward", rows.count, H, stream,
                          JanetBackward{H, rows.ld[kH], rows.ld[kGates], beta, e, rows.previous[kH],
                                        rows.current[kGates], rows.gradient[kH], rows.d_pre});
               }}};
  return c;
}

const DeviceCellEntry entry("janet", cell);

}  // namespace
}  // namespace nru::kernels::cuda
