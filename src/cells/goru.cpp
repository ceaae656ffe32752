// The GORU: its equations in torch operations, its initialisation, its row in the table.
#include <nru/cells/goru.h>

#include <cmath>
#include <numbers>

#include "cells/butterfly.h"
#include "cells/cell.h"
#include "kernels/goru.h"

namespace nru {

template <>
struct Cell<GORUOptions> : CellOf<GORUOptions> {
  using CellOf::CellOf;

  const TorchButterfly butterfly{options.hidden_size()};

  static void check(const GORUOptions& o) {
    check_butterfly(o.hidden_size(), o.strict_fft(), o.modrelu(), o.epsilon());
  }

  static void read(const OptionMap& map, GORUOptions& o) {
    read_butterfly_options(map, o);
    o.zero_gate_bias(get<bool>(map, "zero_gate_bias"));
  }

  template <class T>
  static kernels::Program<T> program(const GORUOptions& o, int input_size) {
    return kernels::goru_program<T>(
        {input_size, static_cast<int>(o.hidden_size()), kernel_form(o.modrelu()), o.epsilon()});
  }

  StepValues step(const Tensor& x, const Tensors& state, const Weights& w) const {
    const Tensor& h_prev = state[0];  // [B,n]
    const Tensor a =
        torch::linear(x, w("weight_ih"), w("bias_ih")) + torch::linear(h_prev, w("weight_hh"));
    const auto gate = a.sigmoid().chunk(2, 1);
    const Tensor &r = gate[0], &g = gate[1];
    const Tensor u =
        r * butterfly.apply(h_prev, w("theta")) + torch::linear(x, w("weight_candidate"));
    const Tensor c = mod_relu(u, w("bias_candidate"), options.modrelu(), options.epsilon());
    const Tensor h = g * h_prev + (1 - g) * c;
    return {h, {h}};
  }

  void initialise(Initializer& init, const Weights& w) const {
    const std::int64_t n = options.hidden_size();
    init.uniform(w("theta"), -std::numbers::pi, std::numbers::pi);
    for (const char* name : {"weight_candidate", "weight_ih", "weight_hh"})
      init.uniform(w(name), -0.01, 0.01);
    init.constant(w("bias_ih"), 2);
    const double bound = options.zero_gate_bias() ? 0 : std::sqrt(3.0 / static_cast<double>(n));
    init.uniform(w("bias_ih").narrow(0, n, n), -bound, bound);
    init.constant(w("bias_candidate"), 0.01);
  }
};

template class CellLayer<GORUImpl, GORUOptions>;

namespace {

const CellRegistrar registrar(cell_row<GORUImpl>({
    .name = "goru",
    .summary = "Gated Orthogonal Recurrent Unit: gates around a butterfly of rotations",
    .options = joined({{"hidden_size", std::int64_t{98}, "units n of h", {}},
                       {"zero_gate_bias", false, "b_g starts at 0 instead of U(+-sqrt(3/n))", {}}},
                      butterfly_options(0.001)),
    .sizes = hidden_sizes(98, 282, 883),
    .clip = false,
    .initialise_output = initialise_butterfly_output,
}));

}  // namespace
}  // namespace nru
