// GORU, pointwise part on the device. Two phases: [x, h'] -> gates r g, and [x] -> u.
//
//   r = s(a_r)   g = s(a_g)
//   u = r (Q h') + U_c x   c = modReLU(u; b)   h = g h' + (1 - g) c
//
// The butterfly Q (butterfly.cuh) is part of the pointwise function. Kept for the backward pass:
// the activated gates and u, in place of the pre-activations, and h; c and Q h' are computed again.
#include "kernels/goru.h"

#include "kernels/cuda/angles.h"
#include "kernels/cuda/butterfly.cuh"
#include "kernels/cuda/device_cell.h"
#include "kernels/cuda/each.cuh"
#include "kernels/cuda/math.cuh"

namespace nru::kernels::cuda {
namespace {

constexpr int kH = 1, kGates = 2, kU = 3;      // parts
constexpr int kTheta = 0, kBiasCandidate = 5;  // parameters

struct GatesForward {
  float* gates;
  int ld;
  __device__ void operator()(long long row, int j) const {
    gates[row * ld + j] = sigmoid(gates[row * ld + j]);
  }
};

struct GatesBackward {
  const float *gates, *d_gates;
  float* da;
  int ld;
  __device__ void operator()(long long row, int j) const {
    const float s = gates[row * ld + j];
    da[row * ld + j] = d_gates[row * ld + j] * s * (1.f - s);
  }
};

struct Operands {
  ModRelu form;
  float eps;
  int ld, ld_gates;  // h and u have the same
  const float *derived, *bias, *h_prev, *gates;
  float *u, *h;
  float *dh, *d_gates, *du, *d_bias, *d_theta;  // backward; the last two [rows, size]
};

__global__ void candidate_forward(const Wiring w, const Operands o) {
  extern __shared__ float x[];  // [n]
  after_previous();
  const size_t row = blockIdx.x;
  const float *h_prev = o.h_prev + row * o.ld, *gates = o.gates + row * o.ld_gates;
  for (int j = threadIdx.x; j < w.n; j += blockDim.x) x[j] = h_prev[j];
  butterfly_forward<1>(w, Angles(o.derived, w), x);
  for (int j = threadIdx.x; j < w.n; j += blockDim.x) {
    const float r = gates[j], g = gates[w.n + j];
    const Value<1> u{{fmaf(r, x[j], o.u[row * o.ld + j])}};
    o.u[row * o.ld + j] = u.part[0];
    const float c = modrelu(o.form, o.eps, o.bias[j], u).part[0];
    o.h[row * o.ld + j] = fmaf(g, h_prev[j] - c, c);
  }
}

__global__ void candidate_backward(const Wiring w, const Operands o) {
  extern __shared__ float x[];  // [n], and dx [n]
  after_previous();
  float* dx = x + w.n;
  const size_t row = blockIdx.x;
  const Angles angles(o.derived, w);
  const float *h_prev = o.h_prev + row * o.ld, *gates = o.gates + row * o.ld_gates;
  float *dh_row = o.dh + row * o.ld, *d_gates = o.d_gates + row * o.ld_gates;
  for (int j = threadIdx.x; j < w.n; j += blockDim.x) x[j] = h_prev[j];
  butterfly_forward<1>(w, angles, x);
  for (int j = threadIdx.x; j < w.n; j += blockDim.x) {
    const float r = gates[j], g = gates[w.n + j], dh = dh_row[j];
    const Value<1> u{{o.u[row * o.ld + j]}};
    const float c = modrelu(o.form, o.eps, o.bias[j], u).part[0];
    Value<1> du{{fmaf(-g, dh, dh)}};  // dc
    o.d_bias[row * w.n + j] += modrelu_backward(o.form, o.eps, o.bias[j], u, du);
    o.du[row * o.ld + j] = du.part[0];
    d_gates[j] = du.part[0] * x[j];
    d_gates[w.n + j] = dh * (h_prev[j] - c);
    dh_row[j] = dh * g;
    dx[j] = du.part[0] * r;
  }
  butterfly_backward<1>(w, angles, x, dx, {o.d_theta + row * w.angles, nullptr, nullptr});
  for (int j = threadIdx.x; j < w.n; j += blockDim.x) dh_row[j] += dx[j];
}

Operands operands(const GoruShape& shape, const Rows<float>& rows) {
  Operands o{};
  o.form = shape.modrelu;
  o.eps = static_cast<float>(shape.epsilon);
  o.ld = rows.ld[kH];
  o.ld_gates = rows.ld[kGates];
  o.derived = rows.derived;
  o.bias = rows.parameters[kBiasCandidate];
  o.h_prev = rows.previous[kH];
  o.gates = rows.current[kGates];
  o.u = rows.current[kU];
  o.h = rows.current[kH];
  if (rows.gradient) {
    o.dh = rows.gradient[kH];
    o.d_gates = rows.gradient[kGates];
    o.du = rows.d_pre;
    o.d_bias = rows.parameter_gradients[kBiasCandidate];
    o.d_theta = rows.parameter_gradients[kTheta];
  }
  return o;
}

DeviceCell cell(const Program<float>& program) {
  const auto shape = std::any_cast<GoruShape>(program.shape);
  const int n = shape.hidden;
  const Wiring w = wiring_of(n);
  DeviceCell c;
  c.phases = {{[=](const Rows<float>& rows, cudaStream_t stream) {
                 for_each("goru_gates", rows.count, 2 * n, stream,
                          GatesForward{rows.current[kGates], rows.ld[kGates]});
               },
               [=](const Rows<float>& rows, cudaStream_t stream) {
                 for_each("goru_gates_backward", rows.count, 2 * n, stream,
                          GatesBackward{rows.current[kGates], rows.gradient[kGates], rows.d_pre,
                                        rows.ld[kGates]});
               }},
              {[=](const Rows<float>& rows, cudaStream_t stream) {
                 launch_rows("goru", candidate_forward, w, operands(shape, rows), rows.count, 1,
                             stream);
               },
               [=](const Rows<float>& rows, cudaStream_t stream) {
                 launch_rows("goru_backward", candidate_backward, w, operands(shape, rows),
                             rows.count, 2, stream);
               }}};
  c.row_sums = {kTheta, kBiasCandidate};
  c.derived = angles_size(w, 1);
  c.prepare = [w](const float* const* parameters, float* derived, cudaStream_t stream) {
    cosines_and_sines(parameters[kTheta], w.angles, derived, stream);
  };
  return c;
}

const DeviceCellEntry entry("goru", cell);

}  // namespace
}  // namespace nru::kernels::cuda
