// A layer beside torch's own of the same function: outputs, final states and gradients.
#pragma once

#include <gtest/gtest.h>
#include <nru/torch_all.h>

#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "runs.h"

namespace nru {

using torch::Tensor;
using TorchValues = torch::OrderedDict<std::string, Tensor>;

// torch's two biases of a layer: only their sum matters to us, but for the last `own` rows of the
// hidden one, which the GRU keeps.
inline Tensor torchs_value(const TorchValues& theirs, std::string name, std::int64_t own) {
  if (name.starts_with("bias_hn")) {
    const Tensor b = theirs[name.replace(0, 7, "bias_hh")];
    return b.narrow(0, b.size(0) - own, own);
  }
  const Tensor value = theirs[name];
  if (!name.starts_with("bias_ih")) return value;
  Tensor other = theirs[name.replace(0, 7, "bias_hh")].clone();
  if (own > 0) other.narrow(0, other.size(0) - own, own).zero_();
  return value + other;
}

// torch's LSTM takes and gives its state as a tuple, the others as a tensor.
template <class Torchs>
std::tuple<Tensor, State> forward_of(Torchs& layer, const Tensor& x, const State& state) {
  if constexpr (std::is_same_v<Torchs, torch::nn::LSTM>) {
    const auto [output, last] =
        state.empty() ? layer->forward(x)
                      : layer->forward(x, std::make_tuple(state.parts[0], state.parts[1]));
    return {output, State{{std::get<0>(last), std::get<1>(last)}}};
  } else {
    const auto [output, last] = state.empty() ? layer->forward(x) : layer->forward(x, state.h());
    return {output, State{{last}}};
  }
}

template <class Ours, class Torchs>
void expect_equal_to_torch(Ours& ours, Torchs& torchs, bool with_state, std::int64_t own = 0) {
  const bool batch_first = ours->settings().batch_first;
  for (torch::nn::Module* m :
       {static_cast<torch::nn::Module*>(ours.get()), static_cast<torch::nn::Module*>(torchs.get())})
    m->to(torch::kDouble);
  TorchValues theirs = torchs->named_parameters();
  {
    const torch::NoGradGuard no_grad;
    std::uint64_t seed = 1;
    for (const auto& p : theirs) p.value().copy_(normal_values(p.value().sizes(), seed++, 0.5));
    for (const auto& p : ours->named_parameters())
      p.value().copy_(torchs_value(theirs, p.key(), own));
  }
  Problem p(*ours, {6, 4, ours->settings().num_layers}, Through::both, 9);
  if (batch_first) {
    p.x = p.x.detach().transpose(0, 1).contiguous().requires_grad_();
    p.output_weights = p.output_weights.transpose(0, 1).contiguous();
  }
  const State initial = with_state ? p.state : State{};
  const auto [output, last] = ours->forward(p.x, initial);
  const auto [expected, expected_last] = forward_of(torchs, p.x, initial);
  expect_close(output, expected, 1e-12, "output");
  for (std::size_t i = 0; i < last.parts.size(); ++i)
    expect_close(last.parts[i], expected_last.parts[i], 1e-12, "final " + ours->state_names()[i]);

  std::vector<Tensor> inputs{p.x}, their_inputs{p.x};
  std::vector<std::string> names{"x"};
  for (std::size_t i = 0; i < initial.parts.size(); ++i) {
    names.push_back("initial " + ours->state_names()[i]);
    inputs.push_back(initial.parts[i]);
    their_inputs.push_back(initial.parts[i]);
  }
  std::vector<std::string> parameters;
  for (const auto& q : ours->named_parameters()) {
    parameters.push_back(q.key());
    inputs.push_back(q.value());
  }
  for (const auto& q : theirs) their_inputs.push_back(q.value());
  const auto got = torch::autograd::grad({p.loss(output, last)}, inputs);
  const auto want = torch::autograd::grad({p.loss(expected, expected_last)}, their_inputs);
  for (std::size_t i = 0; i < names.size(); ++i) expect_close(got[i], want[i], 1e-12, names[i]);
  TorchValues gradients;
  for (std::size_t i = 0; i < theirs.size(); ++i)
    gradients.insert(theirs[i].key(), want[names.size() + i]);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    std::string name = parameters[i];  // the gradient of a sum is that of its first term
    const Tensor expected_gradient =
        name.starts_with("bias_hn") ? torchs_value(gradients, name, own) : gradients[name];
    expect_close(got[names.size() + i], expected_gradient, 1e-12, name);
  }
}

}  // namespace nru
