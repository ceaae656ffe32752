// The LSTM as a torch module: its options, its equations in torch operations, its initialisation,
// its rows in the table.
#include <nru/cells/lstm.h>

#include "cells/forget_gate.h"
#include "cells/initializer.h"
#include "cells/registry.h"
#include "kernels/lstm.h"

namespace nru {
namespace {

using torch::Tensor;

kernels::LstmShape shape(const LSTMOptions& o, std::int64_t input_size) {
  return {static_cast<int>(input_size), static_cast<int>(o.hidden_size()), o.peephole()};
}

}  // namespace

LSTMImpl::LSTMImpl(const LSTMOptions& o) : LayerImpl(LayerSettings::from(o)), options(o) {
  check_chrono(o.chrono_t_max());
  build();
}

StepValues LSTMImpl::reference_step(const Tensor& x, const std::vector<Tensor>& state,
                                    const Weights& w) const {
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

void LSTMImpl::initialise(Initializer& init, const Weights& w) const {
  const std::int64_t H = options.hidden_size();
  for (int gate = 0; gate < 4; ++gate) init.xavier_normal(w("weight_ih").narrow(0, gate * H, H));
  for (int gate = 0; gate < 4; ++gate) init.orthogonal(w("weight_hh").narrow(0, gate * H, H));
  init.constant(w("bias_ih"), 0);
  if (options.peephole()) init.uniform(w("weight_peephole"), 0, 1);
  const torch::NoGradGuard no_grad;
  const Tensor b_f = draw_forget_bias(init, options);
  w("bias_ih").narrow(0, H, H).copy_(b_f);
  if (options.chrono_t_max() > 0) w("bias_ih").narrow(0, 0, H).copy_(-b_f);
}

kernels::Program<float> LSTMImpl::float_program(std::int64_t input_size) const {
  return kernels::lstm_program<float>(shape(options, input_size));
}
kernels::Program<double> LSTMImpl::double_program(std::int64_t input_size) const {
  return kernels::lstm_program<double>(shape(options, input_size));
}

std::shared_ptr<torch::nn::Module> LSTMImpl::clone(const OptionalDevice& device) const {
  return copy_into(std::make_shared<LSTMImpl>(options), device);
}

namespace {

LSTMOptions from_map(std::int64_t input_size, const OptionMap& map) {
  LSTMOptions o(input_size, get<std::int64_t>(map, "hidden_size"));
  o.peephole(get<bool>(map, "peephole"));
  read_forget_options(map, o);
  return o;
}

CellInfo row(const std::string& name, const std::string& summary, bool chrono) {
  const auto size = [](std::int64_t hidden) { return OptionMap{{"hidden_size", hidden}}; };
  std::vector<OptionSpec> options{
      {"hidden_size", std::int64_t{70}, "units of h and c", {}},
      {"peephole", true, "diagonal peepholes from c to the gates, as in the authors' code", {}}};
  for (const OptionSpec& spec : forget_options()) options.push_back(spec);
  return {
      .name = name,
      .summary = summary,
      .options = options,
      .sizes = {{"copy", size(70)}, {"psmnist", size(200)}, {"char-lm", size(630)}},
      .chrono = chrono,
      .class_defaults = {{"peephole", false}},
      .make = [](std::int64_t input_size, const OptionMap& map) -> std::shared_ptr<LayerImpl> {
        return std::make_shared<LSTMImpl>(from_map(input_size, map));
      },
      .parameters =
          [](std::int64_t input_size, const OptionMap& map) {
            return kernels::lstm_program<float>(shape(from_map(input_size, map), input_size))
                .parameters;
          },
  };
}

const CellRegistrar lstm(row("lstm", "LSTM with peepholes and forget bias 1", false));
const CellRegistrar lstm_chrono(row("lstm-chrono", "LSTM with chrono-initialised gate biases",
                                    true));

}  // namespace
}  // namespace nru
