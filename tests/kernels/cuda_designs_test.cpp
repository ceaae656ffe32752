// The whole-sequence kernels (kernels/cuda/persistent.h): which path a size takes, and every design
// of the table by the same rules as the table of all cells in cuda_sequence_test.cpp; and what that
// table no longer reaches now that designs take its cells, their generic path.
#include <gtest/gtest.h>

#ifdef NRU_HAS_CUDA

#include <optional>

#include "cuda_compare.h"
#include "cuda_design_cases.h"
#include "kernels/cuda/persistent_rows.h"
#include "kernels/cuda/units.h"

namespace nru::kernels::cuda {
namespace {

std::string path(const CellCase& cell, int batch = 10, bool state_limit = false) {
  return path_of(*make_program<float>(cell), batch, state_limit);
}

class CudaDesigns : public ::testing::TestWithParam<DesignCases> {
 protected:
  void SetUp() override {
    NRU_NEEDS_CUDA_DEVICE();
    if (GetParam().clusters && !has_clusters(0)) GTEST_SKIP() << "this GPU has no clusters";
    stream_.emplace();
  }
  StreamHandle stream() const { return stream_->handle(); }

  // The largest shape of the rows, on GPUs with less shared memory than those of data centres.
  static bool lacks_room(const CellCase& cell) {
    const NruShape* shape = cell.nru();
    return shape && GetParam().path == "rows" && find_rows_shape(*shape, 0) >= 0 &&
           find_rows_shape(*shape, device_limits().shared_bytes) < 0;
  }

  using Check = void (*)(const CellCase&, const RunCase&, const SequenceOptions&);
  void for_cases(Check check) const {
    for (const CellCase& cell : GetParam().cells) {
      for (const RunCase& run : GetParam().runs) {
        SCOPED_TRACE(cell.name + " " + run.name);
        if (lacks_room(cell)) continue;
        // What a design declines may be another one's.
        const bool declined = cell.name.find("declined") != std::string::npos;
        ASSERT_EQ(path(cell, run.batch) == GetParam().path, !declined);
        const bool limit = run.state_limit > 0;
        if (!declined) check(cell, run, {.stream = stream(), .state_limit = limit});
        if (HasFatalFailure()) return;
      }
    }
  }

 private:
  std::optional<Stream> stream_;
};

// For tools that make each kernel slow, as CudaSequence.ShortRunsOfEveryCellAreFinite. With a limit
// of the state's gradient, too, where the design takes it: its kernels are others then.
TEST_P(CudaDesigns, ShortRunsAreFinite) {
  for (const CellCase& cell : GetParam().cells) {
    if (cell.name.find("declined") != std::string::npos) continue;
    for (double limit : {0.0, 0.02}) {
      const RunCase run{"", 3, 6, false, true, limit};
      if (limit > 0 && path(cell, run.batch, true) != GetParam().path) continue;
      SCOPED_TRACE(testing::Message() << cell.name << ", limit " << limit);
      expect_finite(cell, run, {.stream = stream(), .state_limit = limit > 0});
    }
  }
}

TEST_P(CudaDesigns, TrainIsAsCloseToDoubleAsTheCpu) { for_cases(expect_train_close_to_double); }

TEST_P(CudaDesigns, BackwardIsAsCloseToDoubleAsTheCpu) {
  for_cases(expect_backward_close_to_double);
}

TEST_P(CudaDesigns, TheSameRunTwiceAndAsAGraphHasTheSameBits) { for_cases(expect_repeats); }

TEST_P(CudaDesigns, LongSequencesAgreeWithTheGenericPath) {
  for (const CellCase& cell : GetParam().long_cells) {
    for (const RunCase& run : GetParam().long_runs) {
      SCOPED_TRACE(cell.name);
      ASSERT_EQ(path(cell, run.batch), GetParam().path);
      expect_agrees_with_the_generic_path(cell, run, stream());
    }
  }
}

TEST_P(CudaDesigns, ExtremeHeadsAreTreatedAsOnTheCpu) {
  for (const NruShape& shape : GetParam().extremes) {
    SCOPED_TRACE(testing::Message() << shape.memory << (shape.relu_heads ? " relu" : " linear"));
    expect_extreme_heads_as_on_the_cpu(shape, stream());
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, CudaDesigns, ::testing::ValuesIn(design_cases()),
                         [](const auto& info) { return info.param.name; });

// The EURNN of psMNIST as training has it after an update: angles all round, small weights of the
// input, biases of one step size. All lengths last, so that the CPU's numbers come out again after
// 785 steps of 100 rows.
TEST(CudaPaths, TheEurnnOfPsMnistIsAsOnTheCpu) {
  NRU_NEEDS_CUDA_DEVICE();
  const CellCase cell{"", EurnnShape{.input = 1, .hidden = 1024}};
  SequenceData<float> host(cell, {"", 785, 100, false, false}, 1);
  enum { kTheta, kWeight, kBias };
  for (float& weight : host.parameters[kWeight]) weight *= 0.01f;
  for (float& bias : host.parameters[kBias]) bias = bias < 0 ? -1e-3f : 1e-3f;
  SequenceData<float> device = host;
  const Stream stream;
  Sequence sequence(device.program, {.stream = stream.handle()});
  kernels::Sequence<float> on_host(host.program, 1);
  const SequenceResult got = train(device, sequence, stream.handle());
  const SequenceResult want = host.train(on_host);
  EXPECT_NEAR(got.loss, want.loss, 1e-5 * want.loss);
  EXPECT_LT(relative_distance(device.output, host.output), 1e-4);
  for (int p : {kTheta, kWeight, kBias}) {
    EXPECT_LT(relative_distance(device.parameter_gradients[p], host.parameter_gradients[p]), 3e-4)
        << host.program->parameters[p].name;
  }
}

TEST(CudaPaths, TheGenericPathIsAsCloseToDouble) {
  NRU_NEEDS_CUDA_DEVICE();
  const Stream stream;
  for (const CellCase& cell : cell_cases()) {
    // The gradient of a direction of one number is pure rounding.
    const bool one_number = cell.nru() && cell.nru()->memory == 1;
    if (one_number || path(cell) == "generic") continue;
    for (const RunCase& run : design_cases().front().runs) {
      SCOPED_TRACE(cell.name + " " + run.name);
      const SequenceOptions generic{.stream = stream.handle(), .whole_sequence = false};
      expect_train_close_to_double(cell, run, generic);
      expect_backward_close_to_double(cell, run, generic);
    }
  }
}

TEST(CudaPaths, TheSizeChoosesRows) {
  const NruShape copy = nru_of(10, 80, 64, 4);
  EXPECT_EQ(path({"", copy}), "rows");
  EXPECT_EQ(path({"", copy}, 1), "rows");
  const NruShape large = nru_of(200, 128, 144, 4);
  const bool room = find_rows_shape(large, device_limits().shared_bytes) >= 0;
  EXPECT_EQ(path({"", large}), room ? "rows" : "generic");
  EXPECT_EQ(path({"", nru_of(1, 1, 1, 1)}), "rows");
  EXPECT_NE(path({"", copy}, 100000), "rows");
  for (bool NruShape::*option : {&NruShape::relu_heads, &NruShape::sum_heads,
                                 &NruShape::heads_see_input, &NruShape::authors_overflow})
    EXPECT_EQ(path({"", with(copy, option)}), "rows");
  EXPECT_EQ(path({"", limited(copy)}, 10, true), "rows");
  for (bool complex : {false, true})
    EXPECT_EQ(path({"", EurnnShape{.input = 1, .hidden = 1024, .complex = complex}}, 100), "rows");
}

TEST(CudaPaths, WhatNoDesignTakesIsGeneric) {
  const NruShape copy = nru_of(10, 80, 64, 4);
  for (bool NruShape::*option :
       {&NruShape::layer_norm, &NruShape::multiply_memory, &NruShape::general_write})
    EXPECT_EQ(path({"", with(copy, option)}), "generic");
  EXPECT_EQ(path({"", limited(nru_of(1, 200, 256, 4))}), "generic");
  EXPECT_EQ(path({"", nru_of(1, 200, 256, 4)}, 100, true), "generic");
  EXPECT_EQ(path({"", EurnnShape{.input = 1, .hidden = 1024}}, 100, true), "generic");
  EXPECT_EQ(path({"", nru_of(200, 1000, 2500, 4)}), "generic");
  EXPECT_EQ(path({"", nru_of(4, 9, 4, 9)}), "generic");  // heads that straddle rows
  EXPECT_EQ(path({"", EurnnShape{.input = 10, .hidden = 1025}}), "generic");
  EXPECT_EQ(path({"", GoruShape{.input = 10, .hidden = 300}}), "generic");
}

TEST(CudaPaths, TheSizeChoosesGroups) {
  NRU_NEEDS_CUDA_DEVICE();
  if (!has_clusters(0)) GTEST_SKIP() << "this GPU has no clusters";
  const NruShape paper = nru_of(200, 1000, 576, 4);
  EXPECT_EQ(path({"", paper}, 1), "groups");
  EXPECT_EQ(path({"", paper}, 100000), "generic");
  EXPECT_EQ(path({"", with(paper, &NruShape::layer_norm)}, 128), "generic");
}

}  // namespace
}  // namespace nru::kernels::cuda

#else

TEST(CudaDesigns, AreBuilt) { GTEST_SKIP() << "built without CUDA"; }

#endif
