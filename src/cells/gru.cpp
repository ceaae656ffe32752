// The GRU: its equations in torch operations, its initialisation, its row in the table.
#include <nru/cells/gru.h>

#include "cells/cell.h"
#include "kernels/gru.h"

namespace nru {

template <>
struct Cell<GRUOptions> : CellOf<GRUOptions> {
  using CellOf::CellOf;

  static void read(const OptionMap& map, GRUOptions& o) {
    o.reset_after(get<bool>(map, "reset_after"));
  }

  template <class T>
  static kernels::Program<T> program(const GRUOptions& o, int input_size) {
    return kernels::gru_program<T>(
        {input_size, static_cast<int>(o.hidden_size()), o.reset_after()});
  }

  StepValues step(const Tensor& x, const Tensors& state, const Weights& w) const {
    const Tensor& h_prev = state[0];                                            // [B,H]
    const auto a = torch::linear(x, w("weight_ih"), w("bias_ih")).chunk(3, 1);  // U x + b: r, z, n
    const auto W = w("weight_hh").chunk(3, 0);
    const Tensor r = (a[0] + torch::linear(h_prev, W[0])).sigmoid();
    const Tensor z = (a[1] + torch::linear(h_prev, W[1])).sigmoid();
    const Tensor inner = options.reset_after() ? r * torch::linear(h_prev, W[2], w("bias_hn"))
                                               : torch::linear(r * h_prev, W[2]);
    const Tensor n = (a[2] + inner).tanh();
    const Tensor h = (1 - z) * n + z * h_prev;
    return {h, {h}};
  }

  void initialise(Initializer& init, const Weights& w) const {
    init.gates(w("weight_ih"), w("weight_hh"));
    init.constant(w("bias_ih"), 0);
    if (options.reset_after()) init.constant(w("bias_hn"), 0);
  }
};

template class CellLayer<GRUImpl, GRUOptions>;

namespace {

const CellRegistrar registrar(cell_row<GRUImpl>({
    .name = "gru",
    .summary = "Gated Recurrent Unit",
    .options = {{"hidden_size", std::int64_t{82}, "units of h", {}},
                {"reset_after",
                 false,
                 "the reset gate acts behind the recurrent product, as in torch and cuDNN",
                 {}}},
    .sizes = hidden_sizes(82, 232, 750),
    .presets = {{"authors", {{"char-lm", {{"clip_norm", 5.0}}}}}},
}));

}  // namespace
}  // namespace nru
