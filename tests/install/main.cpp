// Uses the installed headers and library: makes an NRU, trains it for a few updates, and carries
// its state on. Exits with 1 if anything is not as promised.
#include <nru/nru.h>
// Not part of nru.h, but installed: it must stand on its own.
#include <nru/options.h>

#include <iostream>
#include <string>

namespace {

int failures = 0;

void expect(bool holds, const std::string& what) {
  if (holds) return;
  std::cerr << "does not hold: " << what << "\n";
  ++failures;
}

// Learns the running sum of its inputs; returns the first and the last loss.
std::pair<double, double> train(nru::NRU layer) {
  torch::nn::Linear output(16, 1);
  std::vector<torch::Tensor> parameters = layer->parameters();
  for (const auto& p : output->parameters()) parameters.push_back(p);
  torch::optim::Adam optimizer(parameters, torch::optim::AdamOptions(1e-2));
  double first = 0, last = 0;
  for (int update = 0; update < 50; ++update) {
    const torch::Tensor x = torch::randn({8, 16, 3});
    const torch::Tensor target = x.sum(2).cumsum(0);
    const auto hidden = std::get<0>(layer->forward(x));
    const torch::Tensor loss = torch::mse_loss(output->forward(hidden).squeeze(2), target);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    last = loss.item<double>();
    if (update == 0) first = last;
  }
  return {first, last};
}

}  // namespace

int main() {
  torch::manual_seed(1);
  nru::NRU layer(nru::NRUOptions(/*input_size=*/3, /*hidden_size=*/16).memory_size(16).heads(4));
  const torch::Tensor x = torch::randn({6, 2, 3});
  const auto [output, state] = layer->forward(x);
  expect(output.sizes() == torch::IntArrayRef({6, 2, 16}), "output is [T,B,H]");
  expect(state.m().sizes() == torch::IntArrayRef({1, 2, 16}), "m is [1,B,M]");
  expect(layer->uses_kernels(x), "the kernels are used");
  const auto first = layer->forward(x.slice(0, 0, 2));
  const auto second = layer->forward(x.slice(0, 2), std::get<1>(first));
  expect(torch::allclose(std::get<0>(second), output.slice(0, 2)), "the state carries on");

  const auto [before, after] = train(layer);
  expect(after < 0.5 * before, "fifty updates halve the loss");

  nru::LSTM lstm(nru::LSTMOptions(3, 5).num_layers(2));
  expect(std::get<0>(lstm->forward(x)).size(2) == 5, "the LSTM works, too");
  try {
    nru::NRU impossible(nru::NRUOptions(3, 5).memory_size(63));
    expect(false, "impossible sizes throw");
  } catch (const nru::Error&) {
  }
  expect(nru::to_string(nru::OptionValue(true)) == "true", "options work");
  std::cout << "nru " << nru::version() << ": loss " << before << " to " << after << "\n";
  return failures == 0 ? 0 : 1;
}
