// The example of CONTRIBUTING.md: a cell in one file. In src/cells/ it would be an eleventh cell of
// the library; here a test compiles it, checks its gradients and trains it.
//
// The update-gate RNN (Collins, Sohl-Dickstein and Sussillo, "Capacity and Trainability in
// Recurrent Neural Networks", 2017):
//
//   n = tanh(U_n x + W_n h' + b_n)    z = s(U_z x + W_z h' + b_z)    h = z*h' + (1-z)*n
//
// Parameters: weight_ih [2H, I] (rows n, z), weight_hh [2H, H], bias [2H]. Initialisation: U
// Xavier-normal and W orthogonal per gate, b_n = 0, b_z = gate_bias.
#include <nru/layer.h>

#include <cmath>

#include "cells/cell.h"

namespace nru {
namespace {

// ---- 1. The kernel: parts, phases and the pointwise functions ----

constexpr int kH = 1, kGates = 2;                              // parts; part 0 is the input
constexpr int kWeightInput = 0, kWeightHidden = 1, kBias = 2;  // parameters

// Gets the pre-activations of n and z in `gates`; leaves n and z there for backward(), and makes h.
template <class T>
void forward(int H, const kernels::Rows<T>& rows) {
  for (int r = 0; r < rows.count; ++r) {
    T* gates = rows.current[kGates] + r * rows.ld[kGates];
    const T* h_prev = rows.previous[kH] + r * rows.ld[kH];
    T* h = rows.current[kH] + r * rows.ld[kH];
    for (int j = 0; j < H; ++j) {
      const T n = std::tanh(gates[j]);
      const T z = 1 / (1 + std::exp(-gates[H + j]));
      h[j] = z * h_prev[j] + (1 - z) * n;
      gates[j] = n;
      gates[H + j] = z;
    }
  }
}

// Gets dL/dh; makes the gradients of the pre-activations, and turns dL/dh into what of it reaches
// h' directly. What reaches h' through W is added by the skeleton.
template <class T>
void backward(int H, const kernels::Rows<T>& rows) {
  for (int r = 0; r < rows.count; ++r) {
    const T* gates = rows.current[kGates] + r * rows.ld[kGates];
    const T* h_prev = rows.previous[kH] + r * rows.ld[kH];
    T* dh = rows.gradient[kH] + r * rows.ld[kH];
    T* d_pre = rows.d_pre + r * rows.ld[kGates];
    for (int j = 0; j < H; ++j) {
      const T n = gates[j], z = gates[H + j];
      d_pre[j] = dh[j] * (1 - z) * (1 - n * n);
      d_pre[H + j] = dh[j] * (h_prev[j] - n) * z * (1 - z);
      dh[j] *= z;
    }
  }
}

template <class T>
kernels::Program<T> ugrnn_program(int I, int H) {
  kernels::Program<T> p;
  p.parts = {{"x", I, kernels::PartKind::input},
             {"h", H, kernels::PartKind::state, /*carries=*/true},
             {"gates", 2 * H}};
  p.parameters = {{"weight_ih", 2 * H, I}, {"weight_hh", 2 * H, H}, {"bias", 2 * H}};
  p.phases = {{kGates,
               {{kernels::kInput, false, kWeightInput, 0}, {kH, true, kWeightHidden, 0}},
               kBias,
               [H](const kernels::Rows<T>& rows) { forward(H, rows); },
               [H](const kernels::Rows<T>& rows) { backward(H, rows); }}};
  p.output = kH;
  return p;
}

}  // namespace

// ---- 2. The module: options, equations in torch operations, initialisation ----

struct UGRNNOptions : LayerOptions<UGRNNOptions> {
  using LayerOptions::LayerOptions;

  NRU_OPTION(double, gate_bias, 1.0);
};

NRU_LAYER(UGRNN);

template <>
struct Cell<UGRNNOptions> : CellOf<UGRNNOptions> {
  using CellOf::CellOf;

  static void read(const OptionMap& map, UGRNNOptions& o) {
    o.gate_bias(get<double>(map, "gate_bias"));
  }

  template <class T>
  static kernels::Program<T> program(const UGRNNOptions& o, int input_size) {
    return ugrnn_program<T>(input_size, static_cast<int>(o.hidden_size()));
  }

  StepValues step(const Tensor& x, const Tensors& state, const Weights& w) const {
    const Tensor& h_prev = state[0];  // [B,H]
    const Tensor a =
        torch::linear(x, w("weight_ih"), w("bias")) + torch::linear(h_prev, w("weight_hh"));
    const auto gates = a.chunk(2, 1);
    const Tensor n = gates[0].tanh(), z = gates[1].sigmoid();
    const Tensor h = z * h_prev + (1 - z) * n;
    return {h, {h}};
  }

  void initialise(Initializer& init, const Weights& w) const {
    const auto b = w("bias").chunk(2);
    init.gates(w("weight_ih"), w("weight_hh"));
    init.constant(b[0], 0);
    init.constant(b[1], options.gate_bias());
  }
};

template class CellLayer<UGRNNImpl, UGRNNOptions>;

// ---- 3. The row in the table of cells ----

namespace {

const CellRegistrar registrar(cell_row<UGRNNImpl>({
    .name = "ugrnn",
    .summary = "Update-gate RNN",
    .options = {{"hidden_size", std::int64_t{100}, "units of h", {}},
                {"gate_bias", 1.0, "initial bias of the update gate", {}}},
    .sizes = {{"copy", {{"hidden_size", std::int64_t{101}}}}},
}));

}  // namespace
}  // namespace nru
