// The EURNN: its equations in torch operations, its initialisation, its row in the table.
#include <nru/cells/eurnn.h>

#include <numbers>

#include "cells/butterfly.h"
#include "cells/cell.h"
#include "kernels/eurnn.h"

namespace nru {

template <>
struct Cell<EURNNOptions> : CellOf<EURNNOptions> {
  using CellOf::CellOf;

  const TorchButterfly butterfly{options.hidden_size()};

  static void check(const EURNNOptions& o) {
    check_butterfly(o.hidden_size(), o.strict_fft(), o.modrelu(), o.epsilon());
    if (o.complex() && o.modrelu() == ModReLU::sign)
      throw Error("modrelu = sign is for real numbers; use modrelu = smooth, or complex = false");
  }

  static void read(const OptionMap& map, EURNNOptions& o) {
    read_butterfly_options(map, o);
    o.complex(get<bool>(map, "complex"));
  }

  template <class T>
  static kernels::Program<T> program(const EURNNOptions& o, int input_size) {
    return kernels::eurnn_program<T>({input_size, static_cast<int>(o.hidden_size()), o.complex(),
                                      kernel_form(o.modrelu()), o.epsilon()});
  }

  StepValues step(const Tensor& x, const Tensors& state, const Weights& w) const {
    const Tensor& h_prev = state[0];  // [B,n], complex: [B,2n]
    const Tensor Ux = torch::linear(x, w("weight_ih"));
    if (!options.complex()) {
      const Tensor z = butterfly.apply(h_prev, w("theta")) + Ux;
      const Tensor h = mod_relu(z, w("bias"), options.modrelu(), options.epsilon());
      return {h, {h}};
    }
    const auto parts = [](const Tensor& t) {  // Re, Im
      return t.reshape({t.size(0), 2, t.size(1) / 2});
    };
    const Tensor z =
        butterfly.apply(parts(h_prev), w("theta"), w("phi"), w("omega")) + parts(Ux);  // [B,2,n]
    const Tensor h = mod_relu(z, w("bias"), options.modrelu(), options.epsilon());
    return {h.select(1, 0), {h.flatten(1)}};
  }

  void initialise(Initializer& init, const Weights& w) const {
    constexpr double pi = std::numbers::pi;
    init.uniform(w("theta"), -pi, pi);
    if (options.complex()) {
      init.uniform(w("phi"), -pi, pi);
      init.uniform(w("omega"), -pi, pi);
    }
    init.uniform(w("weight_ih"), -0.01, 0.01);
    init.constant(w("bias"), 0);
  }
};

template class CellLayer<EURNNImpl, EURNNOptions>;

namespace {

OptionMap size(std::int64_t hidden, bool complex) {
  return {{"hidden_size", hidden}, {"complex", complex}};
}

const CellRegistrar registrar(cell_row<EURNNImpl>({
    .name = "eurnn",
    .summary = "Efficient Unitary RNN: a butterfly of rotations and modReLU",
    .options = joined(
        {{"hidden_size", std::int64_t{589}, "units n of h", {}},
         {"complex", true, "complex h and unitary Q; otherwise real h and orthogonal Q", {}}},
        butterfly_options(0.01)),
    .sizes = {{"copy", size(589, true)},
              {"psmnist", size(1024, false)},
              {"char-lm", size(8192, false)}},
    .clip = false,
    .class_defaults = {{"complex", false}},
    .initialise_output = initialise_butterfly_output,
}));

}  // namespace
}  // namespace nru
