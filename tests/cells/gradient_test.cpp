// Every layer of the table: gradients against central differences, the kernels against the
// equations in torch operations, float against double, and derivatives of derivatives.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

#include "cases.h"
#include "float_errors.h"
#include "runs.h"

namespace nru {
namespace {

using torch::Tensor;

class Gradients : public testing::TestWithParam<Case> {
 protected:
  std::shared_ptr<LayerImpl> layer(Backend backend, const Shape& shape,
                                   torch::Dtype type = torch::kDouble) const {
    Variant variant(backend);
    variant.num_layers = shape.num_layers;
    auto made = GetParam().make(variant);
    made->to(type);
    set_weights(*made, 11);
    return made;
  }
};

INSTANTIATE_TEST_SUITE_P(Cells, Gradients, testing::ValuesIn(all_cases()), case_name);

struct Setting {
  const char* name;
  Shape shape;
  Through through;
  double gain = 0.7;  // of the weights; see set_weights()
};

// One row, one step, several slices of the batch (a slice has at least 5 rows), unequal lengths,
// stacked layers; the gradient comes through the output, the final state, or both.
std::vector<Setting> settings() {
  return {
      {"plain", {4, 2}, Through::both},
      {"one step of one row", {1, 1}, Through::both},
      {"one row, output only", {3, 1}, Through::output},
      {"several slices, final state only", {3, 11}, Through::final_state},
      {"lengths", {5, 3, 1, {2, 5, 1}}, Through::both},
      {"lengths, final state only", {3, 6, 1, {3, 1, 2, 2, 1, 3}}, Through::final_state},
      {"two layers", {3, 2, 2}, Through::both},
      {"two layers, lengths, output only", {4, 3, 2, {4, 1, 3}}, Through::output},
  };
}

// The derivative along one entry by central differences at two step sizes, extrapolated; `kinked`
// when the two disagree, as they do when a ReLU switches in between.
struct Difference {
  double value = 0;
  bool kinked = false;
};

Difference difference(const std::function<double()>& loss, double* entry, double scale) {
  const double kept = *entry, step = 1e-5;
  const auto slope = [&](double h) {
    *entry = kept + h;
    const double above = loss();
    *entry = kept - h;
    const double below = loss();
    *entry = kept;
    return (above - below) / (2 * h);
  };
  const double narrow = slope(step), wide = slope(2 * step);
  const double value = narrow + (narrow - wide) / 3;
  return {value, std::abs(narrow - wide) > 3e-7 * scale};
}

// All entries of tensors up to `most` entries, evenly spaced ones of larger tensors.
void check_against_differences(LayerImpl& layer, Problem& problem, std::int64_t most) {
  const std::vector<Named> leaves = all_leaves(layer, problem);
  const std::vector<Tensor> gradients = gradients_of(problem.loss(layer), leaves);
  const torch::NoGradGuard no_grad;
  const auto loss = [&] { return problem.loss(layer).item<double>(); };
  std::int64_t compared = 0, tried = 0;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const Tensor gradient = gradients[i].contiguous();
    const std::int64_t count = gradient.numel(), taken = std::min(count, most);
    const double scale = std::max(largest(gradient), 1e-2);
    for (std::int64_t n = 0; n < taken; ++n, ++tried) {
      const std::int64_t at = n * count / taken;
      const Difference d = difference(loss, leaves[i].value.data_ptr<double>() + at, scale);
      if (d.kinked) continue;
      ++compared;
      ASSERT_NEAR(gradient.data_ptr<double>()[at], d.value, 1e-6 * scale)
          << leaves[i].name << ", entry " << at;
    }
  }
  EXPECT_GE(static_cast<double>(compared), 0.9 * static_cast<double>(tried))
      << "too many entries lie at a kink";
}

TEST_P(Gradients, FusedIsTheSlope) {
  for (const Setting& s : settings()) {
    SCOPED_TRACE(s.name);
    const auto fused = layer(Backend::fused, s.shape);
    Problem problem(*fused, s.shape, s.through, 3);
    check_against_differences(*fused, problem, 40);
  }
}

TEST_P(Gradients, FusedIsTheSlopeInEveryEntry) {
  const auto fused = layer(Backend::fused, {3, 2});
  Problem problem(*fused, {3, 2}, Through::both, 5);
  check_against_differences(*fused, problem, 1500);
}

TEST_P(Gradients, ReferenceIsTheSlope) {
  for (const Setting& s : settings()) {
    SCOPED_TRACE(s.name);
    const auto reference = layer(Backend::reference, s.shape);
    Problem problem(*reference, s.shape, s.through, 3);
    check_against_differences(*reference, problem, 4);
  }
}

TEST_P(Gradients, FusedEqualsReference) {
  std::vector<Setting> all = settings();
  // Longer than the chunks in which weight gradients are formed. With smaller weights, so that
  // rounding errors do not grow from step to step.
  all.push_back({"many steps", {37, 11}, Through::both, 0.3});
  all.push_back(
      {"many steps, lengths, two layers", {30, 6, 2, {30, 1, 17, 8, 25, 9}}, Through::both, 0.3});
  for (const Setting& s : all) {
    SCOPED_TRACE(s.name);
    const auto fused = layer(Backend::fused, s.shape);
    const auto reference = layer(Backend::reference, s.shape);
    for (const auto& made : {fused, reference}) set_weights(*made, 11, s.gain);
    Problem problem(*fused, s.shape, s.through, 3);
    ASSERT_TRUE(fused->uses_kernels(problem.x));
    ASSERT_FALSE(reference->uses_kernels(problem.x));
    const Results expected = run(*reference, problem), got = run(*fused, problem);
    expect_close(got.values, expected.values, 1e-10);
    expect_close(got.gradients, expected.gradients, 1e-10);
  }
}

// Limited gradients have no loss that differences could be taken of: the equations in torch's
// operations say what they are.
TEST_P(Gradients, LimitedFusedEqualsReference) {
  bool any_limited = false;
  for (const Setting& s : settings()) {
    SCOPED_TRACE(s.name);
    const auto fused = layer(Backend::fused, s.shape);
    const auto reference = layer(Backend::reference, s.shape);
    Problem problem(*fused, s.shape, s.through, 3);
    const Results unlimited = run(*fused, problem);
    for (const double limit : {0.3, 1e6}) {
      for (const auto& made : {fused, reference}) made->set_state_gradient_limit(limit);
      const Results expected = run(*reference, problem), got = run(*fused, problem);
      expect_close(got.values, unlimited.values, 0);
      expect_close(got.gradients, expected.gradients, 1e-10);
      if (limit == 1e6) {
        expect_close(got.gradients, unlimited.gradients, 0);
        continue;
      }
      for (std::size_t i = 0; i < got.gradients.size(); ++i)
        any_limited |= !torch::equal(got.gradients[i].value, unlimited.gradients[i].value);
    }
  }
  EXPECT_TRUE(any_limited);
}

// Where the initial state is zero the kernels may skip work.
TEST_P(Gradients, FusedEqualsReferenceFromTheZeroState) {
  const Shape shape{4, 3};
  const auto fused = layer(Backend::fused, shape), reference = layer(Backend::reference, shape);
  Problem problem(*fused, shape, Through::both, 3);
  for (Tensor& part : problem.state.parts) part = torch::zeros_like(part).requires_grad_();
  const Results expected = run(*reference, problem), got = run(*fused, problem);
  expect_close(got.values, expected.values, 1e-10);
  expect_close(got.gradients, expected.gradients, 1e-10);
}

TEST_P(Gradients, FloatErrsNoMoreThanThePlainComposition) {
  const Shape shape{8, 7};
  const auto results = [&](Backend backend, torch::Dtype type, std::uint64_t seed) {
    const auto made = layer(backend, shape, type);
    set_weights(*made, seed, 0.5);  // small enough for a stable recurrence
    Problem problem(*made, shape, Through::both, seed + 50);
    return run(*made, problem);
  };
  FloatErrors values, gradients;
  Results exact;
  for (std::uint64_t problem = 0; problem < 25; ++problem) {
    exact = results(Backend::reference, torch::kDouble, 100 * problem);
    const Results plain = results(Backend::reference, torch::kFloat, 100 * problem);
    const Results fused = results(Backend::fused, torch::kFloat, 100 * problem);
    values.add(exact.values, plain.values, fused.values);
    gradients.add(exact.gradients, plain.gradients, fused.gradients);
  }
  values.check(exact.values, GetParam().float_bound);
  gradients.check(exact.gradients, 3);
}

TEST_P(Gradients, SecondDerivativesEqualTheReference) {
  for (const Setting& s : settings()) {
    SCOPED_TRACE(s.name);
    std::vector<Named> results[2];
    for (const Backend backend : {Backend::reference, Backend::fused}) {
      const auto made = layer(backend, s.shape);
      Problem problem(*made, s.shape, s.through, 3);
      const std::vector<Named> leaves = all_leaves(*made, problem);
      const auto first = gradients_of(problem.loss(*made), leaves, /*create_graph=*/true);
      Tensor along = torch::zeros({}, torch::kDouble);
      for (std::size_t i = 0; i < first.size(); ++i)
        along = along + (first[i] * normal_values(first[i].sizes(), 70 + i)).sum();
      const auto second = gradients_of(along, leaves);
      auto& to = results[backend == Backend::fused];
      for (std::size_t i = 0; i < leaves.size(); ++i) {
        to.push_back({"gradient of " + leaves[i].name, first[i].detach()});
        to.push_back({"second derivative of " + leaves[i].name, second[i]});
      }
    }
    expect_close(results[1], results[0], 1e-10);
  }
}

// A graph may be walked again, as torch promises with retain_graph.
TEST_P(Gradients, BackwardTwiceGivesTheSameTwice) {
  const Shape shape{3, 2};
  const auto fused = layer(Backend::fused, shape);
  Problem problem(*fused, shape, Through::both, 3);
  const Tensor loss = problem.loss(*fused);
  loss.backward({}, /*retain_graph=*/true);
  std::vector<Tensor> once;
  const auto leaves = all_leaves(*fused, problem);
  for (const Named& leaf : leaves) once.push_back(leaf.value.grad().clone());
  loss.backward();
  for (std::size_t i = 0; i < leaves.size(); ++i)
    EXPECT_TRUE(torch::equal(leaves[i].value.grad(), 2 * once[i])) << leaves[i].name;
}

TEST_P(Gradients, FrozenLeavesGetNone) {
  const Shape shape{3, 2};
  const auto fused = layer(Backend::fused, shape);
  Problem problem(*fused, shape, Through::both, 3);
  const Results all = run(*fused, problem);
  for (const std::size_t kept : {std::size_t{0}, std::size_t{2}, all.gradients.size() - 1}) {
    const auto leaves = all_leaves(*fused, problem);
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      leaves[i].value.mutable_grad() = Tensor();
      leaves[i].value.set_requires_grad(i == kept);
    }
    problem.loss(*fused).backward();
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      ASSERT_EQ(leaves[i].value.grad().defined(), i == kept) << leaves[i].name;
    }
    EXPECT_TRUE(torch::equal(leaves[kept].value.grad(), all.gradients[kept].value))
        << leaves[kept].name;
  }
}

// Outputs that are still held keep no activations once they were used. The activations come with
// the module, which whoever keeps them can be seen to hold.
TEST_P(Gradients, ActivationsGoWithTheBackwardPass) {
  const Shape shape{3, 2};
  const auto fused = layer(Backend::fused, shape);
  Problem problem(*fused, shape, Through::both, 3);
  const long holders = fused.use_count();
  const Tensor output = std::get<0>(fused->forward(problem.x, problem.state));
  const auto backward = [&](bool keep) { output.backward(problem.output_weights, keep); };
  EXPECT_GT(fused.use_count(), holders);
  backward(/*keep=*/true);
  EXPECT_GT(fused.use_count(), holders);
  const Tensor once = problem.x.grad().clone();
  backward(/*keep=*/false);
  EXPECT_EQ(fused.use_count(), holders);
  EXPECT_TRUE(torch::equal(problem.x.grad(), 2 * once));
  try {
    backward(/*keep=*/false);
    ADD_FAILURE() << "a third backward pass has no activations";
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what()).find("second time"), std::string::npos) << error.what();
  }
}

// The tensor is the caller's; the layer has its own.
TEST_P(Gradients, LengthsMayChangeBeforeTheBackwardPass) {
  const Shape shape{4, 3, 1, {2, 4, 1}};
  const auto fused = layer(Backend::fused, shape);
  Problem problem(*fused, shape, Through::both, 3);
  const Results wanted = run(*fused, problem);
  const Tensor loss = problem.loss(*fused);
  problem.lengths.fill_(4);
  const auto found = gradients_of(loss, all_leaves(*fused, problem));
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(torch::equal(found[i], wanted.gradients[i].value)) << wanted.gradients[i].name;
  }
}

// As torch's own layers do: a gradient at weights that are no longer there would be wrong.
TEST_P(Gradients, WeightsMustNotChangeBeforeTheBackwardPass) {
  const Shape shape{3, 2};
  const auto fused = layer(Backend::fused, shape);
  Problem problem(*fused, shape, Through::both, 3);
  const Tensor loss = problem.loss(*fused);
  {
    const torch::NoGradGuard no_grad;
    fused->parameters().back().add_(1);
  }
  EXPECT_THROW(loss.backward(), c10::Error);
}

}  // namespace
}  // namespace nru
