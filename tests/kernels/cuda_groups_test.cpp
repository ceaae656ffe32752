// The NRU in groups of CTAs (kernels/cuda/groups.h): each tile at its limits, by the same rules as
// the table of cases in cuda_sequence_test.cpp.
#include <gtest/gtest.h>

#ifdef NRU_HAS_CUDA

#include "cuda_compare.h"

namespace nru::kernels::cuda {
namespace {

NruShape shape(int input, int hidden, int memory, int heads) {
  return {.input = input, .hidden = hidden, .memory = memory, .heads = heads};
}
NruShape with(NruShape s, bool NruShape::*option) {
  s.*option = true;
  return s;
}

std::string path(const NruShape& s, int batch) { return path_of(nru_program<float>(s), batch); }

bool has_groups() { return path(shape(1, 640, 256, 4), 1) == "groups"; }

#define NRU_NEEDS_GROUPS() \
  NRU_NEEDS_CUDA_DEVICE(); \
  if (!has_groups()) GTEST_SKIP() << "this GPU does not hold the CTAs of a group"

// With linear heads, then with ReLU heads.
std::vector<CellCase> groups_cases() {
  std::vector<CellCase> cases = {
      {"h1000_m576_k4", shape(20, 1000, 576, 4)},
      {"h1024_m576_k4_sum", with(shape(2, 1024, 576, 4), &NruShape::sum_heads)},
      {"h643_m300_k3_R10", shape(5, 643, 300, 3)},
      {"h700_m1024_k4", shape(3, 700, 1024, 4)},
      {"h641_m256_k1_R16_sees_input", with(shape(5, 641, 256, 1), &NruShape::heads_see_input)},
      {"h401_m484_k4_R11_authors", with(shape(5, 401, 484, 4), &NruShape::authors_overflow)},
  };
  for (std::size_t i = 0, linear = cases.size(); i < linear; ++i)
    cases.push_back({cases[i].name + "_relu", with(*cases[i].nru(), &NruShape::relu_heads)});
  return cases;
}

const std::vector<RunCase>& groups_runs() {
  static const std::vector<RunCase> runs = {
      {"T1_B1", 1, 1, false, false},
      {"T2_B33_state", 2, 33, false, true},
      {"T7_B5", 7, 5, false, false},
  };
  return runs;
}

void for_groups_cases(const std::function<void(const CellCase&, const RunCase&)>& test) {
  for (const CellCase& cell : groups_cases()) {
    for (const RunCase& run : groups_runs()) {
      SCOPED_TRACE(cell.name + " " + run.name);
      ASSERT_EQ(path_of(*make_program<float>(cell), run.batch), "groups");
      test(cell, run);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(CudaGroups, TheSizeChoosesThePath) {
  NRU_NEEDS_GROUPS();
  const NruShape paper = shape(200, 1000, 576, 4);
  EXPECT_EQ(path(with(paper, &NruShape::relu_heads), 128), "groups");
  EXPECT_EQ(path(paper, 1), "groups");
  EXPECT_EQ(path(paper, 100000), "generic");
  EXPECT_EQ(path(with(paper, &NruShape::layer_norm), 128), "generic");
  EXPECT_EQ(path(shape(200, 1024, 1024, 4), 128), "generic");  // not enough shared memory
}

TEST(CudaGroups, TrainIsAsCloseToDoubleAsTheCpu) {
  NRU_NEEDS_GROUPS();
  const Stream stream;
  for_groups_cases([&](const CellCase& cell, const RunCase& run) {
    expect_train_close_to_double(cell, run, {.stream = stream.handle()});
  });
}

TEST(CudaGroups, BackwardIsAsCloseToDoubleAsTheCpu) {
  NRU_NEEDS_GROUPS();
  const Stream stream;
  for_groups_cases([&](const CellCase& cell, const RunCase& run) {
    expect_backward_close_to_double(cell, run, {.stream = stream.handle()});
  });
}

TEST(CudaGroups, TheSameRunTwiceAndAsAGraphHasTheSameBits) {
  NRU_NEEDS_GROUPS();
  const Stream stream;
  for_groups_cases([&](const CellCase& cell, const RunCase& run) {
    expect_repeats(cell, run, {.stream = stream.handle()});
  });
}

TEST(CudaGroups, LongSequencesAgreeWithTheGenericPath) {
  NRU_NEEDS_GROUPS();
  const Stream stream;
  const RunCase run{"", 150, 128, false, true};  // several windows without `keep`
  const NruShape paper = with(shape(200, 1000, 576, 4), &NruShape::relu_heads);
  expect_agrees_with_the_generic_path({"", paper}, run, stream.handle());
}

TEST(CudaGroups, ExtremeHeadsAreTreatedAsOnTheCpu) {
  NRU_NEEDS_GROUPS();
  const Stream stream;
  for (bool relu : {false, true}) {
    NruShape s = shape(3, 330, 576, 4);
    s.relu_heads = relu;
    expect_extreme_heads_as_on_the_cpu(s, stream.handle());
  }
}

}  // namespace
}  // namespace nru::kernels::cuda

#else

TEST(CudaGroups, IsBuilt) { GTEST_SKIP() << "built without CUDA"; }

#endif
