// The LSTM: its equations in torch operations, its initialisation, its rows in the table.
#include <nru/cells/lstm.h>

#include "cells/cell.h"
#include "cells/forget_gate.h"
#include "kernels/lstm.h"

namespace nru {

template <>
struct Cell<LSTMOptions> : CellOf<LSTMOptions> {
  using CellOf::CellOf;

  static void check(const LSTMOptions& o) { check_chrono(o.chrono_t_max()); }

  static void read(const OptionMap& map, LSTMOptions& o) {
    o.peephole(get<bool>(map, "peephole"));
    read_forget_options(map, o);
  }

  template <class T>
  static kernels::Program<T> program(const LSTMOptions& o, int input_size) {
    return kernels::lstm_program<T>({input_size, static_cast<int>(o.hidden_size()), o.peephole()});
  }

  StepValues step(const Tensor& x, const Tensors& state, const Weights& w) const {
    const Tensor &h_prev = state[0], &c_prev = state[1];  // [B,H]
    const Tensor a =
        torch::linear(x, w("weight_ih"), w("bias_ih")) + torch::linear(h_prev, w("weight_hh"));
    const auto gate = a.chunk(4, 1);
    if (!options.peephole()) {
      const Tensor c = gate[1].sigmoid() * c_prev + gate[0].sigmoid() * gate[2].tanh();
      const Tensor h = gate[3].sigmoid() * c.tanh();
      return {h, {h, c}};
    }
    const Tensor p = w("weight_peephole");  // [3,H]
    const Tensor i = (gate[0] + p[0] * c_prev).sigmoid(), f = (gate[1] + p[1] * c_prev).sigmoid();
    const Tensor c = f * c_prev + i * gate[2].tanh();
    const Tensor h = (gate[3] + p[2] * c).sigmoid() * c.tanh();
    return {h, {h, c}};
  }

  void initialise(Initializer& init, const Weights& w) const {
    const std::int64_t H = options.hidden_size();
    init.gates(w("weight_ih"), w("weight_hh"));
    init.constant(w("bias_ih"), 0);
    if (options.peephole()) init.uniform(w("weight_peephole"), 0, 1);
    const torch::NoGradGuard no_grad;
    const Tensor b_f = draw_forget_bias(init, options);
    w("bias_ih").narrow(0, H, H).copy_(b_f);
    if (options.chrono_t_max() > 0) w("bias_ih").narrow(0, 0, H).copy_(-b_f);
  }
};

template class CellLayer<LSTMImpl, LSTMOptions>;

namespace {

CellInfo row(const std::string& name, const std::string& summary, bool chrono) {
  return cell_row<LSTMImpl>({
      .name = name,
      .summary = summary,
      .options = joined({{"hidden_size", std::int64_t{70}, "units of h and c", {}},
                         {"peephole",
                          true,
                          "diagonal peepholes from c to the gates, as in the authors' code",
                          {}}},
                        forget_options()),
      .sizes = hidden_sizes(70, 200, 630),
      .chrono = chrono,
      .presets = {{"authors", {{"char-lm", {{"clip_norm", 5.0}}}}}},
      .class_defaults = {{"peephole", false}},
  });
}

const CellRegistrar lstm(row("lstm", "LSTM with peepholes and forget bias 1", false));
const CellRegistrar lstm_chrono(row("lstm-chrono", "LSTM with chrono-initialised gate biases",
                                    true));

}  // namespace
}  // namespace nru
