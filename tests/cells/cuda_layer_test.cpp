// Layers whose tensors lie on a CUDA device: the table of cases through the CUDA kernels, on
// torch's streams and in its graphs, and the reference where there are no kernels.
#include <gtest/gtest.h>

#include <functional>

#include "cases.h"
#include "cells/torch_cuda.h"
#include "float_errors.h"
#include "runs.h"

namespace nru {
namespace {

using torch::Tensor;

const torch::Device kCuda(torch::kCUDA, 0);

// Empty: layers on the GPU run through the kernels here.
std::string missing() {
  if (!torch::cuda::is_available()) return "torch has no CUDA device";
  std::string why;
  NRUImpl layer(NRUOptions(1, 1));
  layer.to(kCuda);
  return layer.uses_kernels(torch::zeros({1, 1, 1}, kCuda), &why) ? "" : why;
}

#define NRU_NEEDS_CUDA_LAYERS() \
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why

std::shared_ptr<LayerImpl> make_layer(const Case& c, Backend backend, torch::Dtype type,
                                      std::int64_t num_layers, std::uint64_t seed) {
  Variant variant(backend);
  variant.num_layers = num_layers;
  auto made = c.make(variant);
  made->to(type);
  set_weights(*made, seed, 0.5);  // small enough for a stable recurrence
  return made;
}

void move(Problem& problem) {
  for (Tensor* leaf : problem.leaves()) *leaf = leaf->detach().to(kCuda).requires_grad_();
  if (problem.output_weights.defined()) problem.output_weights = problem.output_weights.to(kCuda);
  for (Tensor& weights : problem.state_weights) weights = weights.to(kCuda);
}

std::vector<Named> on_cpu(std::vector<Named> all) {
  for (Named& named : all) named.value = named.value.cpu();
  return all;
}

Results run_on_device(LayerImpl& layer, Problem& problem) {
  const Results there = run(layer, problem);
  return {on_cpu(there.values), on_cpu(there.gradients)};
}

struct Setting {
  const char* name;
  Shape shape;
  Through through;
  int problems;
};

std::vector<Setting> settings() {
  return {
      {"plain", {8, 7}, Through::both, 25},
      {"one step of one row", {1, 1}, Through::both, 1},
      {"final state only", {3, 11}, Through::final_state, 1},
      {"lengths", {5, 3, 1, {2, 5, 1}}, Through::both, 1},
      {"two layers, lengths, output only", {4, 3, 2, {4, 1, 3}}, Through::output, 1},
  };
}

// The rule needs many problems; where one alone is to show that all is connected, a bound that no
// wrong connection keeps does.
TEST(CudaLayers, AreAsCloseToDoubleAsThePlainComposition) {
  NRU_NEEDS_CUDA_LAYERS();
  for (const Case& c : all_cases()) {
    for (const Setting& s : settings()) {
      SCOPED_TRACE(c.name + ", " + s.name);
      FloatErrors values, gradients;
      Results exact;
      for (int i = 0; i < s.problems; ++i) {
        const std::uint64_t seed = 100 * i;
        const auto results = [&](Backend backend, torch::Dtype type, bool on_device) {
          const auto made = make_layer(c, backend, type, s.shape.num_layers, seed);
          Problem problem(*made, s.shape, s.through, seed + 50);
          if (!on_device) return run(*made, problem);
          made->to(kCuda);
          move(problem);
          EXPECT_TRUE(made->uses_kernels(problem.x));
          return run_on_device(*made, problem);
        };
        exact = results(Backend::reference, torch::kDouble, false);
        const Results fused = results(Backend::fused, torch::kFloat, true);
        if (s.problems == 1) {
          const auto in_double = [](std::vector<Named> all) {
            for (Named& named : all) named.value = named.value.to(torch::kDouble);
            return all;
          };
          expect_close(in_double(fused.values), exact.values, 1e-4);
          expect_close(in_double(fused.gradients), exact.gradients, 1e-4);
          continue;
        }
        const Results plain = results(Backend::reference, torch::kFloat, false);
        values.add(exact.values, plain.values, fused.values);
        gradients.add(exact.gradients, plain.gradients, fused.gradients);
      }
      if (s.problems == 1) continue;
      values.check(exact.values, c.float_bound);
      gradients.check(exact.gradients, 3);
    }
  }
}

const Case& some_case() {
  static const Case c = make_case<NRUImpl>("nru", NRUOptions(3, 17).heads(4).memory_size(64));
  return c;
}

// In the whole-sequence kernels, and step by step.
TEST(CudaLayers, LimitedGradientsAreThoseOfTheCpu) {
  NRU_NEEDS_CUDA_LAYERS();
  for (bool layer_norm : {false, true}) {
    const auto options = NRUOptions(3, 17).heads(4).memory_size(64).layer_norm(layer_norm);
    const auto made =
        make_layer(make_case<NRUImpl>("nru", options), Backend::fused, torch::kFloat, 1, 11);
    made->set_state_gradient_limit(0.3);
    Problem problem(*made, {4, 3}, Through::both, 3);
    const Results expected = run(*made, problem);
    made->to(kCuda);
    move(problem);
    expect_close(run_on_device(*made, problem).gradients, expected.gradients, 1e-4);
  }
}

TEST(CudaLayers, DoubleFallsBackToTheReference) {
  NRU_NEEDS_CUDA_LAYERS();
  const auto made = make_layer(some_case(), Backend::fused, torch::kDouble, 2, 11);
  Problem problem(*made, {4, 3, 2, {4, 1, 3}}, Through::both, 3);
  const Results expected = run(*made, problem);
  made->to(kCuda);
  move(problem);
  std::string why;
  EXPECT_FALSE(made->uses_kernels(problem.x, &why));
  EXPECT_NE(why.find("float32"), std::string::npos) << why;
  const Results got = run_on_device(*made, problem);
  expect_close(got.values, expected.values, 1e-10);
  expect_close(got.gradients, expected.gradients, 1e-10);
}

TEST(CudaLayers, AreMadeCopiedAndAskedThere) {
  NRU_NEEDS_CUDA_LAYERS();
  const auto here = make_layer(some_case(), Backend::fused, torch::kFloat, 2, 11);
  here->reset_parameters(5);
  const auto there = std::dynamic_pointer_cast<LayerImpl>(here->clone(kCuda));
  EXPECT_TRUE(there->parameters().front().is_cuda());
  there->reset_parameters(6);
  there->reset_parameters(5);
  const auto expected = here->parameters();
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(torch::equal(there->parameters()[i].cpu(), expected[i]));
  Problem problem(*here, {6, 3, 2}, Through::both, 3);
  const torch::NoGradGuard no_grad;
  const auto states = there->states(problem.x.to(kCuda));
  const auto wanted = here->states(problem.x);
  for (std::size_t p = 0; p < states.size(); ++p)
    expect_close(states[p].cpu(), wanted[p], 1e-5, here->state_names()[p]);
}

// The lengths may lie on either side.
TEST(CudaLayers, LengthsMayBeOnTheDevice) {
  NRU_NEEDS_CUDA_LAYERS();
  const auto made = make_layer(some_case(), Backend::fused, torch::kFloat, 1, 11);
  Problem problem(*made, {5, 3, 1, {2, 5, 1}}, Through::both, 3);
  made->to(kCuda);
  move(problem);
  const Results with_host = run_on_device(*made, problem);
  problem.lengths = problem.lengths.to(kCuda);
  const Results with_device = run_on_device(*made, problem);
  for (std::size_t i = 0; i < with_host.gradients.size(); ++i)
    EXPECT_TRUE(torch::equal(with_host.gradients[i].value, with_device.gradients[i].value));
}

// Two backward passes over one forward pass, and a derivative of the derivative.
TEST(CudaLayers, GraphsOfAutogradMayBeWalkedAgain) {
  NRU_NEEDS_CUDA_LAYERS();
  std::vector<std::vector<Named>> results;
  for (const bool on_device : {false, true}) {
    const auto made = make_layer(some_case(), Backend::fused, torch::kFloat, 1, 11);
    Problem problem(*made, {4, 2}, Through::both, 3);
    if (on_device) {
      made->to(kCuda);
      move(problem);
    }
    const std::vector<Named> leaves = all_leaves(*made, problem);
    const Tensor loss = problem.loss(*made);
    loss.backward({}, /*retain_graph=*/true);
    std::vector<Tensor> once;
    for (const Named& leaf : leaves) once.push_back(leaf.value.grad().clone());
    loss.backward();
    for (std::size_t i = 0; i < leaves.size(); ++i)
      EXPECT_TRUE(torch::equal(leaves[i].value.grad(), 2 * once[i])) << leaves[i].name;
    const auto first = gradients_of(problem.loss(*made), leaves, /*create_graph=*/true);
    Tensor along = torch::zeros({}, problem.x.options().requires_grad(false));
    for (const Tensor& g : first) along = along + (g * g).sum();
    std::vector<Named> second;
    const auto found = gradients_of(along, leaves);
    for (std::size_t i = 0; i < leaves.size(); ++i)
      second.push_back({leaves[i].name, found[i].cpu()});
    results.push_back(second);
  }
  expect_close(results[1], results[0], 1e-4);
}

#ifdef NRU_TORCH_CUDA

// Gradients of a fixed problem, left in .grad of leaves that keep their memory.
struct Work {
  std::shared_ptr<LayerImpl> layer;
  Problem problem;
  std::vector<Named> leaves;

  Work()
      : layer(make_layer(some_case(), Backend::fused, torch::kFloat, 2, 11)),
        problem(*layer, {9, 5, 2}, Through::both, 3) {
    layer->to(kCuda);
    move(problem);
    leaves = all_leaves(*layer, problem);
    for (const Named& leaf : leaves) leaf.value.mutable_grad() = torch::zeros_like(leaf.value);
  }
  void run() {
    for (const Named& leaf : leaves) leaf.value.mutable_grad().zero_();
    problem.loss(*layer).backward();
  }
  std::vector<Tensor> gradients() {
    c10::cuda::getCurrentCUDAStream().synchronize();
    std::vector<Tensor> all;
    for (const Named& leaf : leaves) all.push_back(leaf.value.grad().cpu());
    return all;
  }
  void change_input() {
    const torch::NoGradGuard no_grad;
    problem.x.mul_(0.5);
  }
};

void expect_same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(torch::equal(a[i], b[i])) << i;
}

TEST(CudaLayers, WorkOnTheCurrentStream) {
  NRU_NEEDS_CUDA_LAYERS();
  Work plain, streamed;
  plain.run();
  torch::cuda::synchronize();
  {
    const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
    // The kernels must wait for what the stream does before them.
    const Tensor kept = streamed.problem.x.detach().clone();
    const torch::NoGradGuard no_grad;
    for (int i = 0; i < 50; ++i) streamed.problem.x.copy_(torch::randn({9, 5, 3}, kCuda));
    streamed.problem.x.copy_(kept);
    const torch::AutoGradMode enabled(true);
    streamed.run();
    expect_same(streamed.gradients(), plain.gradients());
  }
}

// Recorded once, replayed with other values in the same memory, while other calls come and go.
TEST(CudaLayers, CanBeRecordedInTorchsGraphs) {
  NRU_NEEDS_CUDA_LAYERS();
  Work plain, recorded;
  at::cuda::CUDAGraph graph;
  torch::cuda::synchronize();
  {
    const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
    for (int i = 0; i < 3; ++i) recorded.run();  // as torch asks before a capture
    torch::cuda::synchronize();
    graph.capture_begin();
    recorded.run();
    graph.capture_end();
  }
  for (int round = 0; round < 3; ++round) {
    plain.change_input();
    recorded.change_input();
    plain.run();
    torch::cuda::synchronize();
    graph.replay();
    torch::cuda::synchronize();
    expect_same(recorded.gradients(), plain.gradients());
  }
}

#endif

}  // namespace
}  // namespace nru
