// GRU, pointwise part on the device.
//
//   reset before the product (the default)         reset after it (torch's)
//   [x, h']  -> r, z:  r, z = s(a);  rh = r h'     [x, h'] -> r, z
//   [x, rh]  -> n:     n = tanh(a)                 [h']    -> hn
//                      h = (1-z) n + z h'          [x]     -> n:  r, z = s(a);  n = tanh(a + r hn)
//                                                                 h = (1-z) n + z h'
//
// Kept for the backward pass: the activated gates and n, in place of their pre-activations, and rh
// or hn. What the last phase knows about the gates' gradients waits in the gradient of part rz
// until their phase is reached.
#include "kernels/gru.h"

#include "kernels/cuda/device_cell.h"
#include "kernels/cuda/each.cuh"
#include "kernels/cuda/gru.cuh"

namespace nru::kernels::cuda {
namespace {

constexpr int kH = 1, kGates = 2, kInner = 3, kN = 4;  // parts; gates = r, z; inner = rh or hn

// The parts' rows; h, inner and n have the same distance between rows.
struct Operands {
  int H, ld, ld_gates;
  const float* h_prev;
  float *gates, *inner, *n, *h;
  float *d_gates, *d_inner, *dh, *d_pre;  // backward
};

Operands operands(int H, const Rows<float>& rows) {
  Operands o{};
  o.H = H;
  o.ld = rows.ld[kH];
  o.ld_gates = rows.ld[kGates];
  o.h_prev = rows.previous[kH];
  o.gates = rows.current[kGates];
  o.inner = rows.current[kInner];
  o.n = rows.current[kN];
  o.h = rows.current[kH];
  if (rows.gradient) {
    o.d_gates = rows.gradient[kGates];
    o.d_inner = rows.gradient[kInner];
    o.dh = rows.gradient[kH];
    o.d_pre = rows.d_pre;
  }
  return o;
}

// ---- reset before the product ----

struct GatesForward {
  Operands o;
  __device__ void operator()(long long row, int j) const {
    float* gate = o.gates + row * o.ld_gates + j;
    const float r = sigmoid(gate[0]);
    gate[0] = r;
    gate[o.H] = sigmoid(gate[o.H]);
    o.inner[row * o.ld + j] = r * o.h_prev[row * o.ld + j];
  }
};

struct GatesBackward {
  Operands o;
  __device__ void operator()(long long row, int j) const {
    const long long at = row * o.ld + j, gate = row * o.ld_gates + j;
    const float r = o.gates[gate], q = o.d_inner[at];
    o.dh[at] = fmaf(q, r, o.dh[at]);  // already that of h'
    o.d_pre[gate] = gru_reset_backward(r, o.h_prev[at], q);
    o.d_pre[gate + o.H] = o.d_gates[gate + o.H];
  }
};

struct BlendForward {
  Operands o;
  __device__ void operator()(long long row, int j) const {
    const long long at = row * o.ld + j;
    const float z = o.gates[row * o.ld_gates + o.H + j], c = tanhf(o.n[at]);
    o.n[at] = c;
    o.h[at] = gru_blend(z, c, o.h_prev[at]);
  }
};

struct BlendBackward {
  Operands o;
  __device__ void operator()(long long row, int j) const {
    const long long at = row * o.ld + j, gate = row * o.ld_gates + j;
    const GruBlendGradient d =
        gru_blend_backward(o.gates[gate + o.H], o.n[at], o.h_prev[at], o.dh[at]);
    o.d_pre[at] = d.n;
    o.d_gates[gate + o.H] = d.z;
    o.dh[at] = d.h0;
  }
};

// ---- reset after the product ----

struct AfterForward {
  Operands o;
  __device__ void operator()(long long row, int j) const {
    float* gate = o.gates + row * o.ld_gates + j;
    const long long at = row * o.ld + j;
    const float r = sigmoid(gate[0]), z = sigmoid(gate[o.H]);
    const float c = tanhf(fmaf(r, o.inner[at], o.n[at]));
    gate[0] = r;
    gate[o.H] = z;
    o.n[at] = c;
    o.h[at] = gru_blend(z, c, o.h_prev[at]);
  }
};

struct AfterBackward {
  Operands o;
  __device__ void operator()(long long row, int j) const {
    const long long at = row * o.ld + j, gate = row * o.ld_gates + j;
    const float r = o.gates[gate];
    const GruBlendGradient d =
        gru_blend_backward(o.gates[gate + o.H], o.n[at], o.h_prev[at], o.dh[at]);
    o.d_pre[at] = d.n;
    o.d_inner[at] = d.n * r;
    o.d_gates[gate] = gru_reset_backward(r, o.inner[at], d.n);
    o.d_gates[gate + o.H] = d.z;
    o.dh[at] = d.h0;
  }
};

template <class F>
DevicePointwise pointwise(const char* name, int H) {
  return [name, H](const Rows<float>& rows, cudaStream_t stream) {
    for_each(name, rows.count, H, stream, F{operands(H, rows)});
  };
}

DeviceCell cell(const Program<float>& program) {
  const auto shape = std::any_cast<GruShape>(program.shape);
  const int H = shape.hidden;
  DeviceCell c;
  if (!shape.reset_after) {
    c.phases = {{pointwise<GatesForward>("gru_gates", H),
                 pointwise<GatesBackward>("gru_gates_backward", H)},
                {pointwise<BlendForward>("gru_blend", H),
                 pointwise<BlendBackward>("gru_blend_backward", H)}};
  } else {  // the last phase uses up the results of the first two, and leaves their d_pre
    c.phases = {{},
                {},
                {pointwise<AfterForward>("gru_after", H),
                 pointwise<AfterBackward>("gru_after_backward", H)}};
  }
  return c;
}

const DeviceCellEntry entry("gru", cell);

}  // namespace
}  // namespace nru::kernels::cuda
