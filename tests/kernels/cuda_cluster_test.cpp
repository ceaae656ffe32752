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
    expect_train_close_to_double(cell, run, {.stream = stream.handle()});
  });
}

TEST(CudaCluster, BackwardIsAsCloseToDoubleAsTheCpu) {
  NRU_NEEDS_CLUSTERS();
  const Stream stream;
  for_cluster_cases([&](const CellCase& cell, const RunCase& run) {
    expect_backward_close_to_double(cell, run, {.stream = stream.handle()});
  });
}

TEST(CudaCluster, TheSameRunTwiceAndAsAGraphHasTheSameBits) {
  NRU_NEEDS_CLUSTERS();
  const Stream stream;
  for_cluster_cases([&](const CellCase& cell, const RunCase& run) {
    expect_repeats(cell, run, {.stream = stream.handle()});
  });
}

TEST(CudaCluster, LongSequencesAgreeWithTheGenericPath) {
  NRU_NEEDS_CLUSTERS();
  const Stream stream;
  const RunCase run{"", 200, 101, false, true};  // several windows without `keep`
  expect_agrees_with_the_generic_path({"", shape(1, 212, 256, 4)}, run, stream.handle());
}

TEST(CudaCluster, ExtremeHeadsAreTreatedAsOnTheCpu) {
  NRU_NEEDS_CLUSTERS();
  const Stream stream;
  for (bool relu : {false, true}) {
    NruShape s = shape(3, 140, 256, 4);
    s.relu_heads = relu;
    expect_extreme_heads_as_on_the_cpu(s, stream.handle());
  }
}

}  // namespace
}  // namespace nru::kernels::cuda

#else

TEST(CudaCluster, IsBuilt) { GTEST_SKIP() << "built without CUDA"; }

#endif
