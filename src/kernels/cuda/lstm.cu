// LSTM, pointwise part on the device. One phase: [x, h'] -> gates.
//
//   i = s(a_i + p_i c')   f = s(a_f + p_f c')   g = tanh(a_g)
//   c = f c' + i g        o = s(a_o + p_o c)    h = o tanh(c)
//
// Kept for the backward pass: the activated gates, in place of the pre-activations, c and h.
#include "kernels/lstm.h"

#include "kernels/cuda/device_cell.h"
#include "kernels/cuda/each.cuh"
#include "kernels/cuda/lstm.cuh"

namespace nru::kernels::cuda {
namespace {

constexpr int kH = 1, kC = 2, kGates = 3;  // parts
constexpr int kPeephole = 3;               // parameter

__device__ inline LstmPeephole peephole_of(const float* weights, int H, int j) {
  if (!weights) return {};
  return {weights[j], weights[H + j], weights[2 * H + j]};
}

struct LstmForward {
  int H, ld, ld_gates;
  const float *peephole, *c_prev;
  float *gates, *c, *h;
  __device__ void operator()(long long row, int j) const {
    float* gate = gates + row * ld_gates + j;
    const LstmUnit u = lstm_forward(gate[0], gate[H], gate[2 * H], gate[3 * H],
                                    c_prev[row * ld + j], peephole_of(peephole, H, j));
    gate[0] = u.i;
    gate[H] = u.f;
    gate[2 * H] = u.g;
    gate[3 * H] = u.o;
    c[row * ld + j] = u.c;
    h[row * ld + j] = u.h;
  }
};

struct LstmBackward {
  int H, ld, ld_gates;
  const float *peephole, *c_prev, *gates, *c, *dh;
  float *dc, *da, *d_peephole;  // d_peephole [rows, 3, H]
  __device__ void operator()(long long row, int j) const {
    const float* gate = gates + row * ld_gates + j;
    float* d_gate = da + row * ld_gates + j;
    const long long at = row * ld + j;
    const LstmUnit u{gate[0], gate[H], gate[2 * H], gate[3 * H], c[at], 0.f};
    const float c0 = c_prev[at];
    const LstmGradient d = lstm_backward(u, c0, dh[at], dc[at], peephole_of(peephole, H, j));
    d_gate[0] = d.i;
    d_gate[H] = d.f;
    d_gate[2 * H] = d.g;
    d_gate[3 * H] = d.o;
    dc[at] = d.c0;
    if (!peephole) return;
    float* sum = d_peephole + row * 3 * H + j;
    sum[0] = fmaf(d.i, c0, sum[0]);
    sum[H] = fmaf(d.f, c0, sum[H]);
    sum[2 * H] = fmaf(d.o, u.c, sum[2 * H]);
  }
};

void forward(const LstmShape& shape, const Rows<float>& rows, cudaStream_t stream) {
  for_each("lstm", rows.count, shape.hidden, stream,
           LstmForward{shape.hidden, rows.ld[kH], rows.ld[kGates],
                       shape.peephole ? rows.parameters[kPeephole] : nullptr, rows.previous[kC],
                       rows.current[kGates], rows.current[kC], rows.current[kH]});
}

void backward(const LstmShape& shape, const Rows<float>& rows, cudaStream_t stream) {
  for_each(
      "lstm_backward", rows.count, shape.hidden, stream,
      LstmBackward{shape.hidden, rows.ld[kH], rows.ld[kGates],
                   shape.peephole ? rows.parameters[kPeephole] : nullptr, rows.previous[kC],
                   rows.current[kGates], rows.current[kC], rows.gradient[kH], rows.gradient[kC],
                   rows.d_pre, shape.peephole ? rows.parameter_gradients[kPeephole] : nullptr});
}

DeviceCell cell(const Program<float>& program) {
  const auto shape = std::any_cast<LstmShape>(program.shape);
  DeviceCell c;
  c.phases = {{[=](const Rows<float>& rows, cudaStream_t s) { forward(shape, rows, s); },
               [=](const Rows<float>& rows, cudaStream_t s) { backward(shape, rows, s); }}};
  if (shape.peephole) c.row_sums = {kPeephole};
  return c;
}

const DeviceCellEntry entry("lstm", cell);

}  // namespace
}  // namespace nru::kernels::cuda
