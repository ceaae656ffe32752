// LSTM, pointwise part on the device. One phase: [x, h'] -> gates.
//
//   i = s(a_i + p_i c')   f = s(a_f + p_f c')   g = tanh(a_g)
//   c = f c' + i g        o = s(a_o + p_o c)    h = o tanh(c)
//
// Kept for the backward pass: the activated gates, in place of the pre-activations, c and h.
#include "kernels/lstm.h"

#include "kernels/cuda/device_cell.h"
#include "kernels/cuda/each.cuh"
#include "kernels/cuda/math.cuh"

namespace nru::kernels::cuda {
namespace {

constexpr int kH = 1, kC = 2, kGates = 3;  // parts
constexpr int kPeephole = 3;               // parameter

struct LstmForward {
  int H, ld, ld_gates;
  const float *peephole, *c_prev;
  float *gates, *c, *h;
  __device__ void operator()(long long row, int j) const {
    float* gate = gates + row * ld_gates + j;
    float i = gate[0], f = gate[H], o = gate[3 * H];
    const float c0 = c_prev[row * ld + j];
    if (peephole) {
      i = fmaf(peephole[j], c0, i);
      f = fmaf(peephole[H + j], c0, f);
    }
    i = sigmoid(i);
    f = sigmoid(f);
    const float g = tanhf(gate[2 * H]), c1 = fmaf(f, c0, i * g);
    if (peephole) o = fmaf(peephole[2 * H + j], c1, o);
    o = sigmoid(o);
    gate[0] = i;
    gate[H] = f;
    gate[2 * H] = g;
    gate[3 * H] = o;
    c[row * ld + j] = c1;
    h[row * ld + j] = o * tanhf(c1);
  }
};

struct LstmBackward {
  int H, ld, ld_gates;
  const float *peephole, *c_prev, *gates, *c, *dh;
  float *dc, *da, *d_peephole;  // d_peephole [rows, 3, H]
  __device__ void operator()(long long row, int j) const {
    const float* gate = gates + row * ld_gates + j;
    float* d_gate = da + row * ld_gates + j;
    const float i = gate[0], f = gate[H], g = gate[2 * H], o = gate[3 * H];
    const long long at = row * ld + j;
    const float c0 = c_prev[at], c1 = c[at], tc = tanhf(c1);
    const float da_o = dh[at] * tc * o * (1.f - o);
    float d = fmaf(dh[at] * o, 1.f - tc * tc, dc[at]);
    if (peephole) d = fmaf(da_o, peephole[2 * H + j], d);
    const float da_f = d * c0 * f * (1.f - f), da_i = d * g * i * (1.f - i);
    float dc0 = d * f;
    if (peephole) {
      dc0 = fmaf(da_i, peephole[j], dc0);
      dc0 = fmaf(da_f, peephole[H + j], dc0);
      float* sum = d_peephole + row * 3 * H + j;
      sum[0] = fmaf(da_i, c0, sum[0]);
      sum[H] = fmaf(da_f, c0, sum[H]);
      sum[2 * H] = fmaf(da_o, c1, sum[2 * H]);
    }
    d_gate[0] = da_i;
    d_gate[H] = da_f;
    d_gate[2 * H] = d * i * (1.f - g * g);
    d_gate[3 * H] = da_o;
    dc[at] = dc0;
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
