// The statistical recurrent unit as a torch module: its options, its equations in torch operations,
// its initialisation, its row in the table.
#include <nru/cells/sru.h>
#include <nru/error.h>

#include <fmt/format.h>

#include <cmath>

#include "cells/checks.h"
#include "cells/initializer.h"
#include "cells/registry.h"
#include "kernels/sru.h"

namespace nru {
namespace {

using torch::Tensor;

void check(const SRUOptions& o) {
  check_size("stat_size", o.stat_size());
  check_size("recur_size", o.recur_size());
  check_size("the number of scales", static_cast<std::int64_t>(o.scales().size()));
  check_size("stat_size times the number of scales",
             o.stat_size() * static_cast<std::int64_t>(o.scales().size()));
  for (const double alpha : o.scales()) {
    if (!(alpha >= 0 && alpha <= 1))
      throw Error(fmt::format("scales must be in [0, 1], got {}", alpha));
  }
}

kernels::SruShape shape(const SRUOptions& o, std::int64_t input_size) {
  return {static_cast<int>(input_size), static_cast<int>(o.hidden_size()),
          static_cast<int>(o.stat_size()), static_cast<int>(o.recur_size()), o.scales()};
}

}  // namespace

SRUImpl::SRUImpl(const SRUOptions& o) : LayerImpl(LayerSettings::from(o)), options(o) {
  check(o);
  build();
}

StepValues SRUImpl::reference_step(const Tensor& x, const std::vector<Tensor>& state,
                                   const Weights& w) const {
  const std::int64_t B = x.size(0), P = options.stat_size();
  const Tensor& mu_prev = state[0];  // [B, K*P]
  const Tensor r = torch::linear(mu_prev, w("weight_r"), w("bias_r")).relu();
  const Tensor phi =
      torch::linear(torch::cat({x, r}, 1), w("weight_phi"), w("bias_phi")).relu();  // [B,P]
  const Tensor alpha = torch::tensor(options.scales(), x.options()).unsqueeze(1);   // [K,1]
  const Tensor mu =
      (alpha * mu_prev.reshape({B, -1, P}) + (1 - alpha) * phi.unsqueeze(1)).reshape({B, -1});
  const Tensor h = torch::linear(mu, w("weight_o"), w("bias_o")).relu();
  return {h, {mu}};
}

void SRUImpl::initialise(Initializer& init, const Weights& w) const {
  for (const char* name : {"weight_r", "weight_phi", "weight_o"})
    init.xavier_uniform(w(name), std::sqrt(2.0));
  for (const char* name : {"bias_r", "bias_phi", "bias_o"}) init.constant(w(name), 0);
}

kernels::Program<float> SRUImpl::float_program(std::int64_t input_size) const {
  return kernels::sru_program<float>(shape(options, input_size));
}
kernels::Program<double> SRUImpl::double_program(std::int64_t input_size) const {
  return kernels::sru_program<double>(shape(options, input_size));
}

std::shared_ptr<torch::nn::Module> SRUImpl::clone(const OptionalDevice& device) const {
  return copy_into(std::make_shared<SRUImpl>(options), device);
}

namespace {

SRUOptions from_map(std::int64_t input_size, const OptionMap& map) {
  SRUOptions o(input_size, get<std::int64_t>(map, "hidden_size"));
  o.stat_size(get<std::int64_t>(map, "stat_size"));
  o.recur_size(get<std::int64_t>(map, "recur_size"));
  if (get<std::string>(map, "scales") == "original") o.scales(SRUOptions::original_scales());
  return o;
}

OptionMap size(std::int64_t hidden, std::int64_t statistics, std::int64_t recurrent) {
  return {{"hidden_size", hidden}, {"stat_size", statistics}, {"recur_size", recurrent}};
}

const CellRegistrar registrar({
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
    .make = [](std::int64_t input_size, const OptionMap& map) -> std::shared_ptr<LayerImpl> {
      return std::make_shared<SRUImpl>(from_map(input_size, map));
    },
    .parameters =
        [](std::int64_t input_size, const OptionMap& map) {
          const SRUOptions o = from_map(input_size, map);
          check(o);
          return kernels::sru_program<float>(shape(o, input_size)).parameters;
        },
});

}  // namespace
}  // namespace nru
