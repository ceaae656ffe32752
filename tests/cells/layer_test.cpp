// What every layer does whatever its cell, over the table of cases: layouts, states, lengths,
// stacking, dropout, copies, seeds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "cases.h"
#include "runs.h"

namespace nru {
namespace {

using torch::Tensor;
using torch::indexing::Slice;

class Layers : public testing::TestWithParam<Case> {
 protected:
  double initial_value(std::size_t part) const {
    return part == 1 && GetParam().name.find("multiply") != std::string::npos ? 1 : 0;
  }
  std::shared_ptr<LayerImpl> layer(Variant variant, std::int64_t num_layers = 2) const {
    variant.num_layers = num_layers;
    auto made = GetParam().make(variant);
    made->to(torch::kDouble);
    set_weights(*made, 11);
    return made;
  }
};

INSTANTIATE_TEST_SUITE_P(Cells, Layers, testing::ValuesIn(all_cases()), case_name);

constexpr Backend kBackends[] = {Backend::fused, Backend::reference};

// Both backends compute a row or a step alike however it is asked for, up to the order of sums.
constexpr double kSame = 1e-12;

void expect_same(const State& a, const State& b, const char* what) {
  ASSERT_EQ(a.parts.size(), b.parts.size());
  for (std::size_t p = 0; p < a.parts.size(); ++p)
    expect_close(a.parts[p], b.parts[p], kSame, what);
}

State rows_of(const State& state, std::int64_t first, std::int64_t count) {
  State rows;
  for (const Tensor& part : state.parts) rows.parts.push_back(part.narrow(1, first, count));
  return rows;
}

TEST_P(Layers, BatchFirstIsTheTranspose) {
  for (const Backend backend : kBackends) {
    const auto time_first = layer(backend);
    Variant transposed(backend);
    transposed.batch_first = true;
    const auto batch_first = layer(transposed);
    Problem p(*time_first, {5, 3, 2, {5, 2, 4}}, Through::both, 3);
    const auto [output, last] = time_first->forward(p.x, p.state, p.lengths);
    const auto [output_b, last_b] = batch_first->forward(p.x.transpose(0, 1), p.state, p.lengths);
    EXPECT_TRUE(torch::equal(output_b.transpose(0, 1), output));
    expect_same(last_b, last, "final state");
    const auto states = time_first->states(p.x, p.state);
    const auto states_b = batch_first->states(p.x.transpose(0, 1).contiguous(), p.state);
    for (std::size_t i = 0; i < states.size(); ++i)
      EXPECT_TRUE(torch::equal(states_b[i].transpose(0, 1), states[i]));
  }
}

TEST_P(Layers, TwoHalvesMakeTheWhole) {
  for (const Backend backend : kBackends) {
    const auto made = layer(backend);
    Problem p(*made, {9, 6, 2}, Through::both, 3);
    const auto [output, last] = made->forward(p.x, p.state);
    const auto [first, middle] = made->forward(p.x.narrow(0, 0, 4), p.state);
    const auto [second, end] = made->forward(p.x.narrow(0, 4, 5), middle);
    expect_close(torch::cat({first, second}), output, kSame, "output");
    expect_same(end, last, "final state");
    const auto [cut, end_of_cut] = made->forward(p.x.narrow(0, 4, 5), middle.detach());
    EXPECT_TRUE(torch::equal(cut, second));
    for (const Tensor& part : middle.detach().parts) EXPECT_FALSE(part.requires_grad());
    // The gradient reaches the first half through the state.
    const auto through = torch::autograd::grad({second.sum()}, {p.x})[0];
    const auto whole = torch::autograd::grad({output.narrow(0, 4, 5).sum()}, {p.x})[0];
    expect_close(through, whole, 1e-10, "gradient through the state");
  }
}

TEST_P(Layers, StepsMakeTheSequence) {
  for (const Backend backend : kBackends) {
    // Without gradients a step may go through the kernels.
    for (const bool gradients : {true, false}) {
      const torch::AutoGradMode mode(gradients);
      const auto made = layer(backend);
      Problem p(*made, {6, 3, 2}, Through::both, 3);
      const auto [output, last] = made->forward(p.x, p.state);
      State state = p.state;
      std::vector<Tensor> outputs;
      for (std::int64_t t = 0; t < 6; ++t) {
        auto [y, next] = made->step(p.x[t], state);
        ASSERT_EQ(y.sizes(), output[0].sizes());
        outputs.push_back(y);
        state = next;
      }
      expect_close(torch::stack(outputs), output, kSame, "output");
      expect_same(state, last, "final state");
    }
  }
}

// A stream of steps has the gradients of a stream of sequences of one step each, limits included.
TEST_P(Layers, StepsLimitTheirGradients) {
  const auto made = layer(Backend::fused);
  const auto gradients = [&](double limit, bool by_step) {
    made->set_state_gradient_limit(limit);
    Problem p(*made, {4, 3, 2}, Through::both, 3);
    State state = p.state;
    Tensor loss = torch::zeros({}, torch::kDouble);
    for (std::int64_t t = 0; t < 4; ++t) {
      const Tensor x = p.x[t];
      auto [y, next] = by_step ? made->step(x, state) : made->forward(x.unsqueeze(0), state);
      loss = loss + y.sum();
      state = next;
    }
    return torch::autograd::grad({loss}, p.state.parts);
  };
  const auto found = gradients(0.01, true), expected = gradients(0.01, false),
             unlimited = gradients(0, true);
  for (std::size_t i = 0; i < found.size(); ++i) {
    expect_close(found[i], expected[i], 1e-10, "limited");
    EXPECT_FALSE(torch::allclose(found[i], unlimited[i])) << "the limit is too high to act";
  }
}

TEST_P(Layers, AnEmptyStateIsTheInitialOne) {
  for (const Backend backend : kBackends) {
    const auto made = layer(backend);
    Problem p(*made, {4, 3, 2}, Through::both, 3);
    const auto [output, last] = made->forward(p.x);
    const State initial = made->initial_state(3);
    const auto [from_initial, last_from_initial] = made->forward(p.x, initial);
    EXPECT_TRUE(torch::equal(output, from_initial));
    expect_same(last, last_from_initial, "final state");
    for (std::size_t i = 0; i < initial.parts.size(); ++i)  // zero, but for a memory to multiply
      EXPECT_EQ(largest(initial.parts[i] - initial_value(i)), 0) << made->state_names()[i];
    const auto [y, next] = made->step(p.x[0]);
    expect_close(y, output[0], kSame, "a first step");
  }
}

TEST_P(Layers, StatesAreThoseOfEveryStep) {
  for (const Backend backend : kBackends) {
    const auto made = layer(backend);
    Problem p(*made, {5, 3, 2}, Through::both, 3);
    const auto [output, last] = made->forward(p.x, p.state);
    const auto states = made->states(p.x, p.state);
    ASSERT_EQ(states.size(), last.parts.size());
    for (std::size_t i = 0; i < states.size(); ++i) {
      EXPECT_FALSE(states[i].requires_grad());
      for (std::int64_t t = 0; t < 5; ++t) {  // of the top layer
        const auto [ignored, at_t] = made->forward(p.x.narrow(0, 0, t + 1), p.state);
        expect_close(states[i][t], at_t.parts[i][1], kSame, made->state_names()[i].c_str());
      }
      expect_close(states[i][4], last.parts[i][1], kSame, "last");
    }
    // The complex EURNN's h is Re h and Im h, its output Re h.
    if (made->state_names()[0] == "h")
      expect_close(states[0].narrow(2, 0, output.size(2)), output, kSame, "h");
  }
}

TEST_P(Layers, RowsEndAtTheirLengths) {
  const std::vector<std::int64_t> lengths{3, 7, 1, 5, 7, 2, 6};
  for (const Backend backend : kBackends) {
    const auto made = layer(backend);
    Problem p(*made, {7, 7, 2, lengths}, Through::both, 3);
    const auto [output, last] = made->forward(p.x, p.state, p.lengths);
    const auto [short_type, ignored] = made->forward(p.x, p.state, p.lengths.to(torch::kInt));
    EXPECT_TRUE(torch::equal(short_type, output));
    for (std::int64_t row = 0; row < 7; ++row) {
      const std::int64_t n = lengths[row];
      const auto [alone, alone_last] =
          made->forward(p.x.narrow(0, 0, n).narrow(1, row, 1), rows_of(p.state, row, 1));
      expect_close(output.narrow(0, 0, n).narrow(1, row, 1), alone, kSame, "output");
      expect_same(rows_of(last, row, 1), alone_last, "final state");
      if (n == 7) continue;
      EXPECT_EQ(largest(output.narrow(0, n, 7 - n).narrow(1, row, 1)), 0);
    }
  }
}

// What lies behind a row's length may be anything, NaN included.
TEST_P(Layers, PaddingIsNeverRead) {
  for (const Backend backend : kBackends) {
    const auto made = layer(backend);
    Problem p(*made, {4, 3, 2, {1, 4, 2}}, Through::both, 3);
    const Results clean = run(*made, p);
    {
      const torch::NoGradGuard no_grad;
      p.x.index_put_({Slice(1), 0}, std::nan(""));
      p.x.index_put_({Slice(2), 2}, 1e300);
    }
    const Results found = run(*made, p);
    const auto expect_equal = [](const std::vector<Named>& a, const std::vector<Named>& b) {
      for (std::size_t i = 0; i < a.size(); ++i)
        EXPECT_TRUE(torch::equal(a[i].value, b[i].value)) << a[i].name;
    };
    expect_equal(found.values, clean.values);
    expect_equal(found.gradients, clean.gradients);
  }
}

TEST_P(Layers, StatesStayAtTheLengths) {
  const std::vector<std::int64_t> lengths{3, 5, 1};
  for (const Backend backend : kBackends) {
    const auto made = layer(backend);
    Problem p(*made, {5, 3, 2, lengths}, Through::both, 3);
    const auto whole = made->states(p.x, p.state), held = made->states(p.x, p.state, p.lengths);
    for (std::size_t i = 0; i < held.size(); ++i) {
      for (std::int64_t row = 0; row < 3; ++row) {
        for (std::int64_t t = 0; t < 5; ++t)
          expect_close(held[i][t][row], whole[i][std::min(t, lengths[row] - 1)][row], kSame,
                       "state");
      }
    }
  }
}

// As torch's layers do it: results of no rows, and gradients of zero.
TEST_P(Layers, ABatchMayBeEmpty) {
  for (const Backend backend : kBackends) {
    const auto made = layer(backend);
    made->set_state_gradient_limit(0.5);
    const Tensor x = torch::zeros({4, 0, made->settings().input_size}, torch::kDouble);
    const State start = made->initial_state(0);
    EXPECT_FALSE(made->uses_kernels(x));
    for (const Tensor& lengths : {Tensor(), torch::empty({0}, torch::kInt64)}) {
      made->zero_grad();
      const auto [output, last] = made->forward(x, start, lengths);
      EXPECT_EQ(output.sizes(), (std::vector<std::int64_t>{4, 0, made->settings().hidden_size}));
      for (std::size_t p = 0; p < last.parts.size(); ++p)
        EXPECT_EQ(last.parts[p].sizes(), start.parts[p].sizes());
      output.sum().backward();
      for (const auto& parameter : made->named_parameters()) {
        const Tensor& gradient = parameter.value().grad();
        EXPECT_EQ(gradient.defined() ? largest(gradient) : 0, 0) << parameter.key();
      }
      EXPECT_TRUE(made->parameters().front().grad().defined());
      EXPECT_EQ(made->states(x, start, lengths)[0].size(1), 0);
    }
    EXPECT_EQ(std::get<0>(made->step(x[0], start)).size(0), 0);
  }
}

TEST_P(Layers, WithoutGradientsTheValuesAreTheSame) {
  const auto made = layer(Backend::fused);
  Problem p(*made, {30, 11, 2}, Through::both, 3);
  const auto [output, last] = made->forward(p.x, p.state);
  EXPECT_TRUE(output.requires_grad());
  const torch::NoGradGuard no_grad;
  const auto [plain, plain_last] = made->forward(p.x, p.state);
  EXPECT_FALSE(plain.requires_grad());
  EXPECT_TRUE(torch::equal(plain, output));
  for (std::size_t i = 0; i < last.parts.size(); ++i)
    EXPECT_TRUE(torch::equal(plain_last.parts[i], last.parts[i]));
}

TEST_P(Layers, DropoutActsBetweenLayersInTraining) {
  for (const Backend backend : kBackends) {
    Variant dropping(backend);
    dropping.dropout = 0.5;
    const auto with = layer(dropping), without = layer(backend);
    Problem p(*with, {5, 4, 2}, Through::both, 3);
    const Tensor expected = std::get<0>(without->forward(p.x, p.state));
    const auto output = [&] { return std::get<0>(with->forward(p.x, p.state)); };
    with->eval();
    EXPECT_TRUE(torch::equal(output(), expected));
    with->train();
    torch::manual_seed(1);
    const Tensor dropped = output();
    EXPECT_FALSE(torch::equal(dropped, output())) << "another draw drops others";
    torch::manual_seed(1);
    EXPECT_TRUE(torch::equal(dropped, output()));
    EXPECT_FALSE(torch::equal(dropped, expected));
    // Nothing is dropped below the first layer, above the last, or from the state: the first
    // layer's state is as it was, and a single layer knows no dropout at all.
    const auto last = std::get<1>(with->forward(p.x, p.state)),
               last_without = std::get<1>(without->forward(p.x, p.state));
    for (std::size_t i = 0; i < last.parts.size(); ++i)
      EXPECT_TRUE(torch::equal(last.parts[i][0], last_without.parts[i][0]));
    const auto single = layer(dropping, 1), plain = layer(backend, 1);
    Problem q(*single, {5, 4}, Through::both, 3);
    EXPECT_TRUE(torch::equal(std::get<0>(single->forward(q.x, q.state)),
                             std::get<0>(plain->forward(q.x, q.state))));
  }
}

TEST_P(Layers, CloneIsDeepAndEqual) {
  const auto made = layer(Backend::fused);
  made->eval();
  const auto copy = std::dynamic_pointer_cast<LayerImpl>(made->clone());
  ASSERT_TRUE(copy);
  EXPECT_FALSE(copy->is_training());
  Problem p(*made, {4, 3, 2}, Through::both, 3);
  const Tensor before = std::get<0>(made->forward(p.x, p.state));
  EXPECT_TRUE(torch::equal(std::get<0>(copy->forward(p.x, p.state)), before));
  {
    const torch::NoGradGuard no_grad;
    for (const Tensor& parameter : copy->parameters()) parameter.add_(1);
  }
  EXPECT_TRUE(torch::equal(std::get<0>(made->forward(p.x, p.state)), before));
  EXPECT_FALSE(torch::equal(std::get<0>(copy->forward(p.x, p.state)), before));
}

TEST_P(Layers, CloneKeepsWhatWasSet) {
  const auto made = layer(Backend::fused);
  made->set_backend(Backend::reference);
  made->set_state_gradient_limit(0.25);
  const auto copy = std::dynamic_pointer_cast<LayerImpl>(made->clone());
  EXPECT_EQ(copy->settings().backend, Backend::reference);
  EXPECT_EQ(copy->settings().state_gradient_limit, 0.25);
}

TEST_P(Layers, CloneDrawsNothing) {
  const auto made = layer(Backend::fused);
  torch::manual_seed(3);
  const Tensor next = torch::rand({4});
  torch::manual_seed(3);
  made->clone();
  EXPECT_TRUE(torch::equal(torch::rand({4}), next));
}

TEST_P(Layers, SeedsMeanNetworks) {
  const auto values = [](LayerImpl& from) {
    std::vector<Tensor> flat;
    for (const Tensor& p : from.parameters()) flat.push_back(p.detach().reshape({-1}));
    return torch::cat(flat);
  };
  const auto a = layer(Backend::fused), b = layer(Backend::reference);
  a->reset_parameters(5);
  b->reset_parameters(5);
  EXPECT_TRUE(torch::equal(values(*a), values(*b)));
  const auto in_float = layer(Backend::fused);
  in_float->to(torch::kFloat);
  in_float->reset_parameters(5);
  EXPECT_EQ(values(*in_float).scalar_type(), torch::kFloat);
  EXPECT_TRUE(torch::equal(values(*in_float), values(*a).to(torch::kFloat)));
  b->reset_parameters(6);
  EXPECT_FALSE(torch::equal(values(*a), values(*b)));

  torch::manual_seed(3);
  const auto c = GetParam().make(Backend::fused), d = GetParam().make(Backend::fused);
  torch::manual_seed(3);
  const auto e = GetParam().make(Backend::fused);
  EXPECT_TRUE(torch::equal(values(*c), values(*e)));
  EXPECT_FALSE(torch::equal(values(*c), values(*d)));
  torch::manual_seed(3);
  d->reset_parameters();
  EXPECT_TRUE(torch::equal(values(*c), values(*d)));
}

TEST_P(Layers, EveryTypeWorks) {
  const auto made = GetParam().make(Backend::fused);  // float by default, as torch's modules
  for (const auto type : {torch::kFloat, torch::kDouble, torch::kFloat}) {
    made->to(type);
    Problem p(*made, {3, 2}, Through::both, 3);
    const auto [output, last] = made->forward(p.x, p.state);
    EXPECT_EQ(output.scalar_type(), type);
    for (const Tensor& part : last.parts) EXPECT_EQ(part.scalar_type(), type);
    EXPECT_TRUE(torch::isfinite(output).all().item<bool>());
    EXPECT_TRUE(made->uses_kernels(p.x));
  }
}

// Views and transposes reach the kernels as values, not as memory.
TEST_P(Layers, StridesDoNotMatter) {
  const auto made = layer(Backend::fused);
  Problem p(*made, {4, 3, 2}, Through::both, 3);
  const Tensor strided = p.x.detach().permute({2, 1, 0}).contiguous().permute({2, 1, 0});
  State state;
  for (const Tensor& part : p.state.parts)
    state.parts.push_back(part.detach().transpose(1, 2).contiguous().transpose(1, 2));
  EXPECT_TRUE(torch::equal(std::get<0>(made->forward(strided, state)),
                           std::get<0>(made->forward(p.x, p.state))));
  const auto [output, last] = made->forward(p.x, p.state);
  const Tensor weights = p.output_weights.permute({2, 0, 1}).contiguous().permute({1, 2, 0});
  const auto g = torch::autograd::grad({output}, {p.x}, {p.output_weights}, true)[0];
  EXPECT_TRUE(torch::equal(torch::autograd::grad({output}, {p.x}, {weights})[0], g));
}

}  // namespace
}  // namespace nru
