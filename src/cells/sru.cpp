// The statistical recurrent unit: its equations in torch operations, its initialisation, its row in
// the table.
#include <nru/cells/sru.h>

#include <cmath>

#include "cells/cell.h"
#include "kernels/sru.h"

namespace nru {

template <>
struct Cell<SRUOptions> : CellOf<SRUOptions> {
  using CellOf::CellOf;

  static void check(const SRUOptions& o) {
    const auto scales = static_cast<std::int64_t>(o.scales().size());
    check_size("stat_size", o.stat_size());
    check_size("recur_size", o.recur_size());
    check_size("the number of scales", scales);
    check_size("stat_size times the number of scales", o.stat_size() * scales);
    for (const double alpha : o.scales()) {
      if (!(alpha >= 0 && alpha <= 1))
        throw Error(fmt::format("scales must be in [0, 1], got {}", alpha));
    }
  }

  static void read(const OptionMap& map, SRUOptions& o) {
    o.stat_size(get<std::int64_t>(map, "stat_size"));
    o.recur_size(get<std::int64_t>(map, "recur_size"));
    if (get<std::string>(map, "scales") == "original") o.scales(SRUOptions::original_scales());
  }

  template <class T>
  static kernels::Program<T> program(const SRUOptions& o, int input_size) {
    return kernels::sru_program<T>({input_size, static_cast<int>(o.hidden_size()),
                                    static_cast<int>(o.stat_size()),
                                    static_cast<int>(o.recur_size()), o.scales()});
  }

  StepValues step(const Tensor& x, const Tensors& state, const Weights& w) const {
    const std::int64_t B = x.size(0), P = options.stat_size();
    const Tensor& mu_prev = state[0];  // [B, K*P]
    const Tensor r = torch::linear(mu_prev, w("weight_r"), w("bias_r")).relu();
    const Tensor phi =
        torch::linear(torch::cat({x, r}, 1), w("weight_phi"), w("bias_phi")).relu();  // [B,P]
    // Not by torch::tensor(), which writes into memory that a tensor of functorch has not.
    Tensors scales;
    for (const double scale : options.scales())
      scales.push_back(torch::full({1}, scale, x.options()));
    const Tensor alpha = torch::stack(scales);  // [K,1]
    const Tensor by_scale = mu_prev.reshape({B, alpha.size(0), P});
    const Tensor mu = (alpha * by_scale + (1 - alpha) * phi.unsqueeze(1)).flatten(1);
    const Tensor h = torch::linear(mu, w("weight_o"), w("bias_o")).relu();
    return {h, {mu}};
  }

  void initialise(Initializer& init, const Weights& w) const {
    for (const char* name : {"weight_r", "weight_phi", "weight_o"})
      init.xavier_uniform(w(name), std::sqrt(2.0));
    for (const char* name : {"bias_r", "bias_phi", "bias_o"}) init.constant(w(name), 0);
  }
};

template class CellLayer<SRUImpl, SRUOptions>;

namespace {

OptionMap size(std::int64_t hidden, std::int64_t statistics, std::int64_t recurrent) {
  return {{"hidden_size", hidden}, {"stat_size", statistics}, {"recur_size", recurrent}};
}

const CellRegistrar registrar(cell_row<SRUImpl>({
    .name = "sru",
    .summary = "Statistical Recurrent Unit: moving averages at several time scales",
    .options = {{"hidden_size", std::int64_t{60}, "units of the output h", {}},
                {"stat_size", std::int64_t{55}, "statistics phi", {}},
                {"recur_size", std::int64_t{16}, "units of r, what the past says", {}},
                {"scales",
                 std::string("authors"),
                 "0 .5 .9 .99 .999 as in the NRU authors' code, or 0 .25 .5 .9 .99 as in SRU's own",
                 {"authors", "original"}}},
    .sizes = {{"copy", size(60, 55, 16)},
              {"psmnist", size(150, 155, 50)},
              {"char-lm", size(500, 600, 128)}},
}));

}  // namespace
}  // namespace nru
