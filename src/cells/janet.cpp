// JANET: its equations in torch operations, its initialisation, its row in the table.
#include <nru/cells/janet.h>

#include <cmath>

#include "cells/cell.h"
#include "cells/forget_gate.h"
#include "kernels/janet.h"

namespace nru {

template <>
struct Cell<JANETOptions> : CellOf<JANETOptions> {
  using CellOf::CellOf;
  static constexpr double kLargestBeta = 30;  // e^beta times the smallest 1-f: a number in float

  static void check(const JANETOptions& o) {
    check_chrono(o.chrono_t_max());
    if (!(std::abs(o.beta()) <= kLargestBeta)) {
      throw Error(fmt::format("beta must be between {} and {} (JANET's own code has 1), got {}",
                              -kLargestBeta, +kLargestBeta, o.beta()));
    }
  }

  static void read(const OptionMap& map, JANETOptions& o) {
    o.beta(get<double>(map, "beta"));
    read_forget_options(map, o);
  }

  template <class T>
  static kernels::Program<T> program(const JANETOptions& o, int input_size) {
    return kernels::janet_program<T>({input_size, static_cast<int>(o.hidden_size()), o.beta()});
  }

  StepValues step(const Tensor& x, const Tensors& state, const Weights& w) const {
    const Tensor& h_prev = state[0];  // [B,H]
    const Tensor a =
        torch::linear(x, w("weight_ih"), w("bias_ih")) + torch::linear(h_prev, w("weight_hh"));
    const auto gate = a.chunk(2, 1);
    const Tensor f = gate[0].sigmoid(), g = gate[1].tanh();
    const Tensor s2 = options.beta() == 0 ? f : (gate[0] - options.beta()).sigmoid();
    const Tensor h = f * h_prev + (1 - s2) * g;
    return {h, {h}};
  }

  void initialise(Initializer& init, const Weights& w) const {
    init.gates(w("weight_ih"), w("weight_hh"));
    init.constant(w("bias_ih"), 0);
    const torch::NoGradGuard no_grad;
    w("bias_ih").narrow(0, 0, options.hidden_size()).copy_(draw_forget_bias(init, options));
  }
};

template class CellLayer<JANETImpl, JANETOptions>;

namespace {

const CellRegistrar registrar(cell_row<JANETImpl>({
    .name = "janet",
    .summary = "JANET: an LSTM with a forget gate only, chrono-initialised",
    .options = joined(
        {{"hidden_size", std::int64_t{101}, "units of h", {}},
         {"beta", 0.0, "shift of the gate before the new input; JANET's own code has 1", {}}},
        forget_options()),
    .sizes = hidden_sizes(101, 283, 930),
    .chrono = true,
    .presets = {{"authors", {{"char-lm", {{"clip_norm", 5.0}}}}}},
}));

}  // namespace
}  // namespace nru
