// The GRU as a torch module: its options, its equations in torch operations, its initialisation,
// its row in the table.
#include <nru/cells/gru.h>

#include "cells/initializer.h"
#include "cells/registry.h"
#include "kernels/gru.h"

namespace nru {
namespace {

using torch::Tensor;

kernels::GruShape shape(const GRUOptions& o, std::int64_t input_size) {
  return {static_cast<int>(input_size), static_cast<int>(o.hidden_size()), o.reset_after()};
}

}  // namespace

GRUImpl::GRUImpl(const GRUOptions& o) : LayerImpl(LayerSettings::from(o)), options(o) { build(); }

StepValues GRUImpl::reference_step(const Tensor& x, const std::vector<Tensor>& state,
                                   const Weights& w) const {
  const Tensor& h_prev = state[0];                                            // [B,H]
  const auto a = torch::linear(x, w("weight_ih"), w("bias_ih")).chunk(3, 1);  // U x + b of r, z, n
  const auto W = w("weight_hh").chunk(3, 0);
  const Tensor r = (a[0] + torch::linear(h_prev, W[0])).sigmoid();
  const Tensor z = (a[1] + torch::linear(h_prev, W[1])).sigmoid();
  const Tensor inner = options.reset_after() ? r * torch::linear(h_prev, W[2], w("bias_hn"))
                                             : torch::linear(r * h_prev, W[2]);
  const Tensor n = (a[2] + inner).tanh();
  const Tensor h = (1 - z) * n + z * h_prev;
  return {h, {h}};
}

void GRUImpl::initialise(Initializer& init, const Weights& w) const {
  const std::int64_t H = options.hidden_size();
  for (int gate = 0; gate < 3; ++gate) init.xavier_normal(w("weight_ih").narrow(0, gate * H, H));
  for (int gate = 0; gate < 3; ++gate) init.orthogonal(w("weight_hh").narrow(0, gate * H, H));
  init.constant(w("bias_ih"), 0);
  if (options.reset_after()) init.constant(w("bias_hn"), 0);
}

kernels::Program<float> GRUImpl::float_program(std::int64_t input_size) const {
  return kernels::gru_program<float>(shape(options, input_size));
}
kernels::Program<double> GRUImpl::double_program(std::int64_t input_size) const {
  return kernels::gru_program<double>(shape(options, input_size));
}

std::shared_ptr<torch::nn::Module> GRUImpl::clone(const OptionalDevice& device) const {
  return copy_into(std::make_shared<GRUImpl>(options), device);
}

namespace {

GRUOptions from_map(std::int64_t input_size, const OptionMap& map) {
  return GRUOptions(input_size, get<std::int64_t>(map, "hidden_size"))
      .reset_after(get<bool>(map, "reset_after"));
}

OptionMap size(std::int64_t hidden) { return {{"hidden_size", hidden}}; }

const CellRegistrar registrar({
    .name = "gru",
    .summary = "Gated Recurrent Unit",
    .options = {{"hidden_size", std::int64_t{82}, "units of h", {}},
                {"reset_after",
                 false,
                 "the reset gate acts behind the recurrent product, as in torch and cuDNN",
                 {}}},
    .sizes = {{"copy", size(82)}, {"psmnist", size(232)}, {"char-lm", size(750)}},
    .make = [](std::int64_t input_size, const OptionMap& map) -> std::shared_ptr<LayerImpl> {
      return std::make_shared<GRUImpl>(from_map(input_size, map));
    },
    .parameters =
        [](std::int64_t input_size, const OptionMap& map) {
          return kernels::gru_program<float>(shape(from_map(input_size, map), input_size))
              .parameters;
        },
});

}  // namespace
}  // namespace nru
