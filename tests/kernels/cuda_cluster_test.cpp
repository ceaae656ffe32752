// The NRU in clusters of CTAs (kernels/cuda/cluster.h): a case for every tile and its limits, by
// the same rules as the table of cases in cuda_sequence_test.cpp, which small NRUs also meet there.
#include <gtest/gtest.h>

#ifdef NRU_HAS_CUDA

#include <cmath>

#include "cuda_compare.h"
#include "kernels/cuda/cluster.h"

namespace nru::kernels::cuda {
namespace {

NruShape shape(int input, int hidden, int memory, int heads) {
  return {.input = input, .hidden = hidden, .memory = memory, .heads = heads};
}
NruShape with(NruShape s, bool NruShape::*option) {
  s.*option = true;
  return s;
}

// Each tile as full as it can be, and as some odd size of its; with linear heads, then with ReLU
// heads.
std::vector<CellCase> cluster_cases() {
  std::vector<CellCase> cases = {
      {"h128_m256_k4", shape(1, 128, 256, 4)},
      {"h41_m196_k4_R7", shape(3, 41, 196, 4)},
      {"h129_m100_k4_R5", shape(2, 129, 100, 4)},
      {"h212_m256_k4", shape(1, 212, 256, 4)},
      {"h224_m256_k4_sum", with(shape(3, 224, 256, 4), &NruShape::sum_heads)},
      {"h150_m50_k2_R5_sees_input", with(shape(5, 150, 50, 2), &NruShape::heads_see_input)},
      {"h131_m9_k1_R3_authors", with(shape(5, 131, 9, 1), &NruShape::authors_overflow)},
      {"h256_m256_k4", shape(1, 256, 256, 4)},
      {"h300_m256_k4", shape(1, 300, 256, 4)},
      {"h320_m147_k3_R7", shape(2, 320, 147, 3)},
      {"h200_m256_k1_R16", shape(1, 200, 256, 1)},
      {"h137_m242_k2_R11", shape(1, 137, 242, 2)},
      {"h200_m256_k16_R4", shape(1, 200, 256, 16)},
      {"h133_m81_k9_R3", shape(4, 133, 81, 9)},
      {"h200_m400_k4_R10", shape(1, 200, 400, 4)},
      {"h224_m361_k1_R19_declined", shape(1, 224, 361, 1)},
  };
  for (std::size_t i = 0, linear = cases.size(); i < linear; ++i)
    cases.push_back({cases[i].name + "_relu", with(*cases[i].nru(), &NruShape::relu_heads)});
  return cases;
}

const std::vector<RunCase>& cluster_runs() {
  static const std::vector<RunCase> runs = {
      {"T1_B1", 1, 1, false, false},
      {"T2_B5_state", 2, 5, false, true},
      {"T12_B11", 12, 11, false, false},
  };
  return runs;
}

bool has_clusters() { return find_cluster_tile(shape(1, 8, 16, 4)) != nullptr; }

#define NRU_NEEDS_CLUSTERS() \
  NRU_NEEDS_CUDA_DEVICE();   \
  if (!has_clusters()) GTEST_SKIP() << "this GPU has no clusters"

void for_cluster_cases(const std::function<void(const CellCase&, const RunCase&)>& test) {
  for (const CellCase& cell : cluster_cases()) {
    for (const RunCase& run : cluster_runs()) {
      SCOPED_TRACE(cell.name + " " + run.name);
      const bool declined = cell.name.find("declined") != std::string::npos;
      EXPECT_EQ(path_of(*make_program<float>(cell), run.batch), declined ? "generic" : "cluster");
      if (!declined) test(cell, run);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(CudaCluster, TrainIsAsCloseToDoubleAsTheCpu) {
  NRU_NEEDS_CLUSTERS();
  const Stream stream;
  for_cluster_cases([&](const CellCase& cell, const RunCase& run) {
    SequenceData<float> device(cell, run, 0.2);
    const auto host = host_runs(device, [](auto& data, auto& sequence) { data.train(sequence); });
    SequenceData<double> exact(cell, run, 0.2);
    Sequence sequence(device.program, {.stream = stream.handle()});
    kernels::Sequence<double> exact_sequence(exact.program, 1);
    const SequenceResult got = train(device, sequence, stream.handle());
    const SequenceResult want = exact.train(exact_sequence);
    EXPECT_NEAR(got.loss, want.loss, 1e-6 * want.loss);
    EXPECT_EQ(got.events, want.events);
    for (std::size_t s = 0; s < want.max_abs.size(); ++s)
      EXPECT_NEAR(got.max_abs.at(s), want.max_abs[s], 1e-5 * want.max_abs[s]);
    EXPECT_NEAR(got.max_output, want.max_output, 1e-5 * want.max_output);
    EXPECT_EQ(device.predictions, exact.predictions);
    const Against check(device, host, exact, cell.looseness);
    check.outputs();
    check.gradients(true);
  });
}

TEST(CudaCluster, BackwardIsAsCloseToDoubleAsTheCpu) {
  NRU_NEEDS_CLUSTERS();
  const Stream stream;
  for_cluster_cases([&](const CellCase& cell, const RunCase& run) {
    SequenceData<float> device(cell, run, 0.2);
    const auto host = host_runs(device, forward_and_backward);
    SequenceData<double> exact(cell, run, 0.2);
    Sequence sequence(device.program, {.stream = stream.handle()});
    kernels::Sequence<double> exact_sequence(exact.program, 1);
    forward_backward(device, sequence, stream.handle());
    exact.forward(exact_sequence, true);
    exact.backward(exact_sequence);
    const Against check(device, host, exact, cell.looseness);
    check.outputs();
    check.gradients(false);
  });
}

TEST(CudaCluster, TheSameRunTwiceAndAsAGraphHasTheSameBits) {
  NRU_NEEDS_CLUSTERS();
  const Stream stream;
  for_cluster_cases([&](const CellCase& cell, const RunCase& run) {
    SequenceData<float> first(cell, run), again = first, replayed = first;
    Sequence sequence(first.program, {.stream = stream.handle()});
    Sequence recorded(first.program, {.stream = stream.handle()});
    const double loss = train(first, sequence, stream.handle()).loss;
    EXPECT_EQ(train(again, sequence, stream.handle()).loss, loss);
    expect_same_results(first, again);
    DeviceData device(replayed, stream.handle());
    Graph graph(stream.handle(), [&] {
      recorded.train(device.inputs(), device.outputs(), device.readout(), device.gradients(false));
    });
    graph.launch();
    device.download();
    EXPECT_EQ(recorded.result().loss, loss);
    expect_same_results(first, replayed);
  });
}

// Many steps, in windows and as a whole, and against the generic path.
TEST(CudaCluster, LongSequencesAgreeWithTheGenericPath) {
  NRU_NEEDS_CLUSTERS();
  const Stream stream;
  const CellCase cell{"", shape(1, 212, 256, 4)};
  const RunCase run{"", 200, 101, false, true};
  SequenceData<float> whole(cell, run, 0.1), windows = whole, generic = whole;
  Sequence a(whole.program, {.stream = stream.handle()});
  Sequence b(whole.program, {.stream = stream.handle(), .whole_sequence = false});
  const SequenceResult got = train(whole, a, stream.handle());
  const SequenceResult evaluated = evaluate(windows, a, stream.handle());
  const SequenceResult want = train(generic, b, stream.handle());
  EXPECT_NEAR(evaluated.loss, got.loss, 1e-12 * got.loss);  // summed up by window
  EXPECT_EQ(evaluated.max_abs, got.max_abs);
  expect_same_bits(whole.states, windows.states, "states");
  EXPECT_NEAR(got.loss, want.loss, 1e-5 * want.loss);
  EXPECT_EQ(got.events, want.events);
  EXPECT_LT(relative_distance(whole.output, generic.output), 1e-4);
  for (std::size_t p = 0; p < whole.parameters.size(); ++p) {
    EXPECT_LT(relative_distance(whole.parameter_gradients[p], generic.parameter_gradients[p]), 1e-3)
        << whole.program->parameters[p].name;
  }
}

// A cell whose first head's p on the write side and whose q on the erasing side are of that size.
SequenceData<float> with_extreme_heads(const NruShape& s, const RunCase& run, float size) {
  SequenceData<float> data({"", s}, run, 0.2);
  auto &weight = data.parameters[data.parameters.size() - 2], &bias = data.parameters.back();
  EXPECT_EQ(bias.size(), static_cast<std::size_t>(s.head_outputs()));
  const std::size_t columns = weight.size() / bias.size();
  const auto set = [&](int row) {
    bias[row] = row % 3 == 0 ? -size : size;
    std::fill_n(weight.begin() + row * columns, columns, 0.f);
  };
  const int p = 2 * s.heads, q = p + 3 * s.rank();
  for (int i = 0; i < s.rank() / s.heads; ++i) set(p + i);
  for (int i = 0; i < s.rank(); ++i) set(q + i);
  return data;
}

// Heads whose norms leave the range of float: what is clamped, overflows or is not a number counts
// and writes as on the CPU.
TEST(CudaCluster, ExtremeHeadsAreTreatedAsOnTheCpu) {
  NRU_NEEDS_CLUSTERS();
  const Stream stream;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const RunCase run{"", 3, 6, false, true};
  for (int options = 0; options < 4; ++options) {
    for (float size : {0.f, 1e-38f, 1e-20f, 1e-9f, 1e4f, 1e9f, 1e20f, 3e38f, kInfinity}) {
      SCOPED_TRACE(testing::Message() << "size " << size << ", options " << options);
      NruShape s = shape(3, 140, 256, 4);
      s.authors_overflow = options & 1;
      s.relu_heads = options & 2;
      SequenceData<float> device = with_extreme_heads(s, run, size), host = device;
      Sequence sequence(device.program, {.stream = stream.handle()});
      kernels::Sequence<float> host_sequence(host.program, 1);
      const SequenceResult got = train(device, sequence, stream.handle());
      const SequenceResult want = host.train(host_sequence);
      EXPECT_EQ(got.events, want.events);
      EXPECT_LT(relative_distance(device.states[1], host.states[1]), 1e-5);
      EXPECT_LT(relative_distance(device.output, host.output), 1e-5);
      for (std::size_t i = 0; i < device.parameters.size(); ++i) {
        EXPECT_LT(relative_distance(device.parameter_gradients[i], host.parameter_gradients[i]),
                  2e-4)
            << device.program->parameters[i].name;
      }
    }
  }
}

}  // namespace
}  // namespace nru::kernels::cuda

#else

TEST(CudaCluster, IsBuilt) { GTEST_SKIP() << "built without CUDA"; }

#endif
