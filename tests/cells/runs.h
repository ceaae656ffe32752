// Runs a layer on a reproducible problem and gathers all that can be compared: output, final state
// and the gradient of every leaf.
#pragma once

#include <gtest/gtest.h>
#include <nru/layer.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/philox.h"
#include "kernels/program.h"

namespace nru {

// Normal numbers, the same for every type: they are rounded to float first, so that float and
// double networks differ in their arithmetic alone.
inline torch::Tensor normal_values(at::IntArrayRef sizes, std::uint64_t seed, double scale = 1,
                                   torch::Dtype type = torch::kDouble) {
  const kernels::Philox random(seed, kernels::Stream::initial_weights);
  torch::Tensor values = torch::empty(sizes, torch::kFloat);
  for (std::int64_t i = 0; i < values.numel(); ++i)
    values.data_ptr<float>()[i] = static_cast<float>(scale * random.normal(0, i));
  return values.to(type);
}

// Gives a layer weights about as large as its own initialisation's, but none of them zero or one:
// `gain` / sqrt(columns) per entry of a matrix, 0.3 of a vector, angles all the way round.
inline void set_weights(LayerImpl& layer, std::uint64_t seed, double gain = 0.7) {
  const torch::NoGradGuard no_grad;
  const auto program = layer.program<float>(0);
  const auto is_angle = [&](const std::string& name) {
    for (const auto& parameter : program->parameters)
      if (name.starts_with(parameter.name + "_l")) return parameter.rotations > 0;
    return false;
  };
  for (const auto& entry : layer.named_parameters()) {
    const torch::Tensor& p = entry.value();
    const double scale = is_angle(entry.key())           ? 2
                         : p.dim() == 2 && p.size(0) > 3 ? gain / std::sqrt(p.size(1))
                                                         : 0.3;
    p.copy_(normal_values(p.sizes(), seed++, scale));
  }
}

struct Shape {
  std::int64_t steps = 4, batch = 2, num_layers = 1;
  std::vector<std::int64_t> lengths = {};
};

// What the loss is made of: its gradient reaches the layer through these.
enum class Through { output, final_state, both };

// loss = sum of weights * output + sum of weights * final state
struct Problem {
  torch::Tensor x;
  State state;
  torch::Tensor lengths;
  torch::Tensor output_weights;              // undefined: not part of the loss
  std::vector<torch::Tensor> state_weights;  // empty: not part of the loss

  Problem(const LayerImpl& layer, const Shape& shape, Through through, std::uint64_t seed) {
    const auto type = layer.parameters().front().scalar_type();
    const auto& s = layer.settings();
    x = normal_values({shape.steps, shape.batch, s.input_size}, seed++, 1, type);
    if (!shape.lengths.empty()) lengths = torch::tensor(shape.lengths);
    for (const torch::Tensor& zero : layer.initial_state(shape.batch).parts) {
      state.parts.push_back(normal_values(zero.sizes(), seed++, 0.5, type));
      if (through != Through::output)
        state_weights.push_back(normal_values(zero.sizes(), seed++, 1, type));
    }
    if (through != Through::final_state)
      output_weights = normal_values({shape.steps, shape.batch, s.hidden_size}, seed++, 1, type);
    for (torch::Tensor* t : leaves()) t->requires_grad_();
  }

  std::vector<torch::Tensor*> leaves() {
    std::vector<torch::Tensor*> all{&x};
    for (torch::Tensor& part : state.parts) all.push_back(&part);
    return all;
  }

  torch::Tensor loss(const torch::Tensor& output, const State& last) const {
    torch::Tensor sum = torch::zeros({}, x.options().requires_grad(false));
    if (output_weights.defined()) sum = sum + (output * output_weights).sum();
    for (std::size_t p = 0; p < state_weights.size(); ++p)
      sum = sum + (last.parts[p] * state_weights[p]).sum();
    return sum;
  }
  torch::Tensor loss(LayerImpl& layer) const {
    const auto [output, last] = layer.forward(x, state, lengths);
    return loss(output, last);
  }
};

struct Named {
  std::string name;
  torch::Tensor value;
};

// x, the initial state, and the parameters.
inline std::vector<Named> all_leaves(const LayerImpl& layer, Problem& problem) {
  std::vector<Named> all{{"x", problem.x}};
  for (std::size_t p = 0; p < problem.state.parts.size(); ++p)
    all.push_back({"initial " + layer.state_names()[p], problem.state.parts[p]});
  for (const auto& p : layer.named_parameters()) all.push_back({p.key(), p.value()});
  return all;
}

struct Results {
  std::vector<Named> values;     // output, final state
  std::vector<Named> gradients;  // by leaf; zeros where the loss does not depend on it
};

inline std::vector<torch::Tensor> gradients_of(const torch::Tensor& loss,
                                               const std::vector<Named>& leaves,
                                               bool create_graph = false) {
  std::vector<torch::Tensor> inputs;
  for (const Named& leaf : leaves) inputs.push_back(leaf.value);
  auto found = torch::autograd::grad({loss}, inputs, {}, create_graph, create_graph, true);
  for (std::size_t i = 0; i < found.size(); ++i)
    if (!found[i].defined()) found[i] = torch::zeros_like(inputs[i]);
  return found;
}

inline Results run(LayerImpl& layer, Problem& problem) {
  const auto [output, last] = layer.forward(problem.x, problem.state, problem.lengths);
  Results results;
  results.values.push_back({"output", output.detach()});
  for (std::size_t p = 0; p < last.parts.size(); ++p)
    results.values.push_back({"final " + layer.state_names()[p], last.parts[p].detach()});
  const std::vector<Named> leaves = all_leaves(layer, problem);
  const auto found = gradients_of(problem.loss(output, last), leaves);
  for (std::size_t i = 0; i < leaves.size(); ++i)
    results.gradients.push_back({leaves[i].name, found[i]});
  return results;
}

inline double largest(const torch::Tensor& t) { return t.abs().max().item<double>(); }

// |a - b| <= tolerance * (largest |b|), everywhere.
inline void expect_close(const torch::Tensor& a, const torch::Tensor& b, double tolerance,
                         const std::string& what) {
  ASSERT_EQ(a.sizes(), b.sizes()) << what;
  const double scale = largest(b), error = largest(a - b);
  EXPECT_LE(error, tolerance * scale) << what << ", whose largest magnitude is " << scale;
}

inline void expect_close(const std::vector<Named>& a, const std::vector<Named>& b,
                         double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    expect_close(a[i].value, b[i].value, tolerance, b[i].name);
}

}  // namespace nru
