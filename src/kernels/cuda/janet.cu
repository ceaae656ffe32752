// JANET, pointwise part on the device. One phase: [x, h'] -> gates.
//
//   f = s(a_f)   s2 = s(a_f - beta)   g = tanh(a_c)   h = f h' + (1 - s2) g
//
// Kept for the backward pass: f and g, in place of their pre-activations, and h. s2 is a function
// of f: s2 = f / (f + (1-f) e^beta), which is f itself without beta.
#include "kernels/janet.h"

#include "kernels/cuda/device_cell.h"
#include "kernels/cuda/each.cuh"
#include "kernels/cuda/janet.cuh"

namespace nru::kernels::cuda {
namespace {

constexpr int kH = 1, kGates = 2;  // parts; gates = f, g

struct JanetForward {
  int H, ld, ld_gates;
  JanetBeta beta;
  const float* h_prev;
  float *gates, *h;
  __device__ void operator()(long long row, int j) const {
    float* gate = gates + row * ld_gates + j;
    const JanetUnit u = janet_gates(gate[0], gate[H]);
    gate[0] = u.f;
    gate[H] = u.g;
    h[row * ld + j] = janet_forward(u, h_prev[row * ld + j], beta);
  }
};

struct JanetBackward {
  int H, ld, ld_gates;
  JanetBeta beta;
  const float *h_prev, *gates;
  float *dh, *da;
  __device__ void operator()(long long row, int j) const {
    const long long at = row * ld + j, gate = row * ld_gates + j;
    const JanetGradient d =
        janet_backward({gates[gate], gates[gate + H]}, h_prev[at], dh[at], beta);
    da[gate] = d.f;
    da[gate + H] = d.g;
    dh[at] = d.h0;
  }
};

DeviceCell cell(const Program<float>& program) {
  const auto shape = std::any_cast<JanetShape>(program.shape);
  const int H = shape.hidden;
  const JanetBeta beta(shape);
  DeviceCell c;
  c.phases = {{[=](const Rows<float>& rows, cudaStream_t stream) {
                 for_each("janet", rows.count, H, stream,
                          JanetForward{H, rows.ld[kH], rows.ld[kGates], beta, rows.previous[kH],
                                       rows.current[kGates], rows.current[kH]});
               },
               [=](const Rows<float>& rows, cudaStream_t stream) {
                 for_each("janet_backward", rows.count, H, stream,
                          JanetBackward{H, rows.ld[kH], rows.ld[kGates], beta, rows.previous[kH],
                                        rows.current[kGates], rows.gradient[kH], rows.d_pre});
               }}};
  return c;
}

const DeviceCellEntry entry("janet", cell);

}  // namespace
}  // namespace nru::kernels::cuda
