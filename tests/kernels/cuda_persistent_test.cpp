// The whole-sequence kernels (kernels/cuda/persistent.h): which path a size takes, and the design
// "rows" at the borders of its compiled shapes. Smaller NRUs meet it in the table of cases of
// cuda_sequence_test.cpp, by the same rules; here they meet the generic path, too.
#include <gtest/gtest.h>

#ifdef NRU_HAS_CUDA

#include <functional>

#include "cuda_compare.h"

namespace nru::kernels::cuda {
namespace {

NruShape copy_size() { return {.input = 10, .hidden = 80, .memory = 64, .heads = 4}; }

std::string path(const NruShape& shape, int batch = 10) {
  return path_of(nru_program<float>(shape), batch);
}

TEST(CudaPersistent, TheSizeChoosesThePath) {
  NruShape shape = copy_size();
  EXPECT_EQ(path(shape), "rows");
  EXPECT_EQ(path(shape, 1), "rows");
  EXPECT_EQ(path({.input = 200, .hidden = 128, .memory = 144, .heads = 4}), "rows");
  EXPECT_EQ(path({.input = 1, .hidden = 1, .memory = 1, .heads = 1}), "rows");
  EXPECT_NE(path(shape, 100000), "rows");
  EXPECT_EQ(path({.input = 200, .hidden = 1000, .memory = 2500, .heads = 4}), "generic");
  for (bool NruShape::*option : {&NruShape::relu_heads, &NruShape::sum_heads,
                                 &NruShape::heads_see_input, &NruShape::authors_overflow}) {
    shape = copy_size();
    shape.*option = true;
    EXPECT_EQ(path(shape), "rows");
  }
  for (bool NruShape::*option :
       {&NruShape::layer_norm, &NruShape::multiply_memory, &NruShape::general_write}) {
    shape = copy_size();
    shape.*option = true;
    EXPECT_EQ(path(shape), "generic");
  }
  EXPECT_EQ(path({.input = 4, .hidden = 9, .memory = 4, .heads = 9}), "generic");  // straddling
  EXPECT_EQ(path_of(eurnn_program<float>({.input = 10, .hidden = 64}), 10), "generic");
}

// Each compiled shape as full as it can be and at odd sizes, with and without the fast write.
const std::vector<CellCase>& rows_cases() {
  const auto nru = [](int input, int hidden, int memory, int heads, bool relu = false) {
    return NruShape{
        .input = input, .hidden = hidden, .memory = memory, .heads = heads, .relu_heads = relu};
  };
  static const std::vector<CellCase> cases = {
      {"h80_m64_k4", copy_size()},
      {"h80_m64_k4_relu", nru(10, 80, 64, 4, true)},
      {"h79_m36_k4_R3", nru(3, 79, 36, 4)},
      {"h128_m64_k4", nru(10, 128, 64, 4)},
      {"h81_m64_k4_relu", nru(10, 81, 64, 4, true)},
      {"h113_m49_k1_R7", nru(1, 113, 49, 1)},
      {"h128_m144_k4_R6", nru(2, 128, 144, 4)},
      {"h100_m144_k4_relu", nru(2, 100, 144, 4, true)},
      {"h33_m100_k4_R5", nru(40, 33, 100, 4)},  // an input too wide for input_share()
      {"h17_m36_k9_R2", nru(5, 17, 36, 9)},
      {"h60_m32_k8_R2_relu", nru(5, 60, 32, 8, true)},
      {"h90_m144_k1_R12_relu", nru(5, 90, 144, 1, true)},
      {"h20_m64_k16_R2_declined", nru(5, 20, 64, 16)},  // more head outputs than compiled
  };
  return cases;
}

const RunCase kRuns[] = {{"T1_B1", 1, 1, false, false},
                         {"T12_B3_lengths_state", 12, 3, true, true},
                         {"T12_B11", 12, 11, false, false}};

void for_rows_cases(const std::function<void(const CellCase&, const RunCase&)>& test) {
  for (const CellCase& cell : rows_cases()) {
    for (const RunCase& run : kRuns) {
      SCOPED_TRACE(cell.name + " " + run.name);
      const bool declined = cell.name.find("declined") != std::string::npos;
      ASSERT_EQ(path(*cell.nru(), run.batch) == "rows", !declined);
      if (!declined) test(cell, run);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(CudaPersistent, TrainIsAsCloseToDoubleAsTheCpu) {
  NRU_NEEDS_CUDA_DEVICE();
  const Stream stream;
  for_rows_cases([&](const CellCase& cell, const RunCase& run) {
    expect_train_close_to_double(cell, run, {.stream = stream.handle()});
  });
}

TEST(CudaPersistent, BackwardIsAsCloseToDoubleAsTheCpu) {
  NRU_NEEDS_CUDA_DEVICE();
  const Stream stream;
  for_rows_cases([&](const CellCase& cell, const RunCase& run) {
    expect_backward_close_to_double(cell, run, {.stream = stream.handle()});
  });
}

TEST(CudaPersistent, TheSameRunTwiceAndAsAGraphHasTheSameBits) {
  NRU_NEEDS_CUDA_DEVICE();
  const Stream stream;
  for_rows_cases([&](const CellCase& cell, const RunCase& run) {
    expect_repeats(cell, run, {.stream = stream.handle()});
  });
}

// What the table of cases no longer reaches now that a design takes its NRUs.
TEST(CudaPersistent, TheGenericPathIsAsCloseToDouble) {
  NRU_NEEDS_CUDA_DEVICE();
  const Stream stream;
  for (const CellCase& cell : cell_cases()) {
    if (!cell.nru() || cell.nru()->memory == 1 || path(*cell.nru()) == "generic") continue;
    for (const RunCase& run : kRuns) {
      SCOPED_TRACE(cell.name + " " + run.name);
      const SequenceOptions generic{.stream = stream.handle(), .whole_sequence = false};
      expect_train_close_to_double(cell, run, generic);
      expect_backward_close_to_double(cell, run, generic);
    }
  }
}

TEST(CudaPersistent, LongSequencesAgreeWithTheGenericPath) {
  NRU_NEEDS_CUDA_DEVICE();
  const Stream stream;
  for (bool lengths : {false, true}) {
    const RunCase run{"", 120, 150, lengths, true};  // several windows without `keep`
    expect_agrees_with_the_generic_path({"", copy_size()}, run, stream.handle());
  }
}

TEST(CudaPersistent, ExtremeHeadsAreTreatedAsOnTheCpu) {
  NRU_NEEDS_CUDA_DEVICE();
  const Stream stream;
  for (bool relu : {false, true}) {
    for (const NruShape& shape : {NruShape{.input = 3, .hidden = 40, .memory = 64, .heads = 4},
                                  NruShape{.input = 3, .hidden = 21, .memory = 50, .heads = 2}}) {
      SCOPED_TRACE(testing::Message() << shape.memory << (relu ? " relu" : " linear"));
      NruShape s = shape;
      s.relu_heads = relu;
      expect_extreme_heads_as_on_the_cpu(s, stream.handle());
    }
  }
}

}  // namespace
}  // namespace nru::kernels::cuda

#else

TEST(CudaPersistent, IsBuilt) { GTEST_SKIP() << "built without CUDA"; }

#endif
