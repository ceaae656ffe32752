// The example cell of CONTRIBUTING.md has all that a cell of the library has, from its one file: it
// is found by name, its gradients are right on both backends, and the trainer trains it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <sstream>

#include "../support/test_files.h"
#include "cells/functional.h"
#include "cells/registry.h"
#include "training/metrics.h"
#include "training/trainer.h"

namespace nru {
namespace {

using torch::Tensor;

// Two stacked layers of 3 to 5, batches of unequal length, a loss through output and final state.
struct Problem {
  FunctionalLayer layer;
  std::vector<Tensor> leaves;  // x, h, the parameters
  Tensor lengths = torch::tensor({4, 1, 3}, torch::kLong);

  static FunctionalLayer make(Backend backend) {
    LayerSettings settings;
    settings.input_size = 3;
    settings.num_layers = 2;
    settings.backend = backend;
    return FunctionalLayer("ugrnn", settings, {{"hidden_size", std::int64_t{5}}});
  }

  explicit Problem(Backend backend) : layer(make(backend)) {
    torch::manual_seed(3);
    leaves = {torch::randn({4, 3, 3}, torch::kDouble), torch::randn({2, 3, 5}, torch::kDouble)};
    for (const auto& p : layer.parameter_shapes())
      leaves.push_back(0.5 * torch::randn(p.shape, torch::kDouble));
    for (Tensor& leaf : leaves) leaf.requires_grad_();
  }

  Tensor loss(const std::vector<Tensor>& at) const {
    const auto [output, state] =
        layer.forward({at.begin() + 2, at.end()}, at[0], State{{at[1]}}, lengths, true);
    return output.pow(2).sum() + state.h().sin().sum();
  }
  std::vector<Tensor> gradients() const { return torch::autograd::grad({loss(leaves)}, leaves); }
};

TEST(Ugrnn, IsInTheTable) {
  const CellInfo& info = find_cell("ugrnn");
  const OptionMap options = resolve_options(info.options, {}, "cell ugrnn");
  EXPECT_EQ(info.make(10, options)->state_names(), std::vector<std::string>{"h"});
}

TEST(Ugrnn, GradientsAreSlopes) {
  for (const Backend backend : {Backend::fused, Backend::reference}) {
    const Problem problem(backend);
    const std::vector<Tensor> gradients = problem.gradients();
    for (std::size_t i = 0; i < problem.leaves.size(); ++i) {
      const torch::NoGradGuard no_grad;
      const Tensor direction = torch::randn_like(problem.leaves[i]);
      const auto moved = [&](double step) {
        std::vector<Tensor> at = problem.leaves;
        at[i] = at[i] + step * direction;
        return problem.loss(at).item<double>();
      };
      const double step = 1e-5, slope = (moved(step) - moved(-step)) / (2 * step);
      EXPECT_NEAR((gradients[i] * direction).sum().item<double>(), slope,
                  1e-7 * (1 + std::abs(slope)))
          << "leaf " << i;
    }
  }
}

TEST(Ugrnn, KernelAndReferenceAgree) {
  const Problem fused(Backend::fused), reference(Backend::reference);
  EXPECT_TRUE(torch::allclose(fused.loss(fused.leaves), reference.loss(reference.leaves), 1e-12));
  const auto a = fused.gradients(), b = reference.gradients();
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_TRUE(torch::allclose(a[i], b[i], 1e-11, 1e-12)) << "leaf " << i;
}

TEST(Ugrnn, Trains) {
  for (const char* backend : {"fused", "reference"}) {
    const test::TempDir directory;
    const std::string out = (directory / "run").string();
    const auto config = training::resolve_config({{},
                                                  {"cell.hidden_size=16", "learning_rate=0.01"},
                                                  {{"task", "copy"},
                                                   {"cell", "ugrnn"},
                                                   {"lag", "2"},
                                                   {"updates", "40"},
                                                   {"backend", backend},
                                                   {"out", out}}},
                                                 training::cell_defaults);
    training::Trainer trainer(config, /*resume=*/false);
    std::ostringstream silent;
    training::Progress progress("ugrnn", 0, 40, {}, silent);
    const auto outcome = trainer.run(progress);
    EXPECT_EQ(outcome.result.updates, 40);
    EXPECT_EQ(outcome.result.cell, "ugrnn");
    const auto rows = training::read_metrics(trainer.paths().metrics());
    ASSERT_GE(rows.size(), 2u);
    EXPECT_LT(*outcome.result.final.train->loss, 0.9 * *rows.front().loss);
  }
}

}  // namespace
}  // namespace nru
