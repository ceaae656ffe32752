// Cells of gates in clusters of CTAs (kernels/cuda/units.h): every tile as full as it can be and at
// odd sizes, by the same rules as the table of cases, which small cells meet in
// cuda_sequence_test.cpp; and what that table no longer reaches, their generic path.
#include <gtest/gtest.h>

#ifdef NRU_HAS_CUDA

#include "cuda_compare.h"
#include "kernels/cuda/units.h"

namespace nru::kernels::cuda {
namespace {

const std::vector<CellCase>& unit_cases() {
  const std::vector<double> scales = {0, 0.5, 0.9, 0.99, 0.999};
  static const std::vector<CellCase> cases = {
      {"rnn_4", RnnShape{3, 4}},
      {"rnn_143_norm", RnnShape{10, 143, false, true}},
      {"rnn_160_tanh", RnnShape{3, 160, true}},
      {"rnn_161_tanh_norm", RnnShape{3, 161, true, true}},
      {"rnn_400_norm", RnnShape{1, 400, false, true}},
      {"rnn_416_norm", RnnShape{2, 416, false, true}},
      {"rnn_399", RnnShape{40, 399}},
      {"rnn_417_declined", RnnShape{1, 417}},
      {"lstm_4", LstmShape{3, 4}},
      {"lstm_70_peephole", LstmShape{10, 70, true}},
      {"lstm_72", LstmShape{3, 72}},
      {"lstm_73_peephole", LstmShape{3, 73, true}},
      {"lstm_200_peephole", LstmShape{1, 200, true}},
      {"lstm_199", LstmShape{2, 199}},
      {"lstm_201_declined", LstmShape{1, 201}},
      {"gru_4", GruShape{3, 4}},
      {"gru_82", GruShape{10, 82}},
      {"gru_96", GruShape{3, 96}},
      {"gru_97", GruShape{3, 97}},
      {"gru_232", GruShape{1, 232}},
      {"gru_240", GruShape{2, 240}},
      {"gru_241_declined", GruShape{1, 241}},
      {"gru_reset_after_declined", GruShape{1, 40, true}},
      {"janet_101", JanetShape{10, 101}},
      {"janet_112_beta", JanetShape{3, 112, 1}},
      {"janet_113", JanetShape{3, 113}},
      {"janet_283", JanetShape{1, 283}},
      {"janet_288_beta", JanetShape{2, 288, 0.5}},
      {"janet_289_declined", JanetShape{1, 289}},
      {"sru_copy", SruShape{10, 60, 55, 16, scales}},
      {"sru_psmnist", SruShape{1, 150, 155, 50, scales}},
      {"sru_full", SruShape{2, 33, 160, 64, scales}},
      {"sru_one_scale", SruShape{2, 20, 157, 37, {0.9}}},
      {"sru_three_scales", SruShape{2, 20, 91, 5, {0.1, 0.5, 0.9}}},
      {"sru_six_scales_declined", SruShape{2, 20, 40, 5, {0, 0.1, 0.3, 0.5, 0.7, 0.9}}},
      {"sru_161_declined", SruShape{2, 20, 161, 5, scales}},
      {"sru_recur_3_declined", SruShape{2, 20, 30, 3, scales}},
  };
  return cases;
}

const RunCase kRuns[] = {{"T1_B1", 1, 1, false, false},
                         {"T2_B5_state", 2, 5, false, true},
                         {"T12_B11", 12, 11, false, false}};

#define NRU_NEEDS_CLUSTERS() \
  NRU_NEEDS_CUDA_DEVICE();   \
  if (!has_clusters(0)) GTEST_SKIP() << "this GPU has no clusters"

std::string path(const CellCase& cell, int batch) {
  return path_of(*make_program<float>(cell), batch);
}

using Check = void (*)(const CellCase&, const RunCase&, const SequenceOptions&);

void for_unit_cases(Check check) {
  const Stream stream;
  for (const CellCase& cell : unit_cases()) {
    for (const RunCase& run : kRuns) {
      SCOPED_TRACE(cell.name + " " + run.name);
      const bool declined = cell.name.find("declined") != std::string::npos;
      ASSERT_EQ(path(cell, run.batch), declined ? "generic" : "cluster");
      if (!declined) check(cell, run, {.stream = stream.handle()});
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(CudaUnits, TrainIsAsCloseToDoubleAsTheCpu) {
  NRU_NEEDS_CLUSTERS();
  for_unit_cases(expect_train_close_to_double);
}

TEST(CudaUnits, BackwardIsAsCloseToDoubleAsTheCpu) {
  NRU_NEEDS_CLUSTERS();
  for_unit_cases(expect_backward_close_to_double);
}

TEST(CudaUnits, TheSameRunTwiceAndAsAGraphHasTheSameBits) {
  NRU_NEEDS_CLUSTERS();
  for_unit_cases(expect_repeats);
}

TEST(CudaUnits, TheGenericPathIsAsCloseToDouble) {
  NRU_NEEDS_CLUSTERS();
  const Stream stream;
  for (const CellCase& cell : cell_cases()) {
    if (cell.nru() || path(cell, 11) == "generic") continue;
    for (const RunCase& run : kRuns) {
      SCOPED_TRACE(cell.name + " " + run.name);
      const SequenceOptions generic{.stream = stream.handle(), .whole_sequence = false};
      expect_train_close_to_double(cell, run, generic);
      expect_backward_close_to_double(cell, run, generic);
    }
  }
}

// Many steps and rows, in windows and as a whole: a CTA that another one laps would show here.
TEST(CudaUnits, LongSequencesAgreeWithTheGenericPath) {
  NRU_NEEDS_CLUSTERS();
  const Stream stream;
  const CellCase long_cases[] = {
      {"rnn", RnnShape{1, 400, false, true}},
      {"rnn_tanh", RnnShape{1, 9, true}},
      {"lstm", LstmShape{1, 200, true}},
      {"gru", GruShape{1, 232}},
      {"janet", JanetShape{1, 283}},
      {"sru", SruShape{1, 150, 155, 50, {0, 0.5, 0.9, 0.99, 0.999}}},
  };
  for (const CellCase& cell : long_cases) {
    SCOPED_TRACE(cell.name);
    const RunCase run{"", 200, 101, false, true};
    expect_agrees_with_the_generic_path(cell, run, stream.handle());
  }
}

}  // namespace
}  // namespace nru::kernels::cuda

#else

TEST(CudaUnits, IsBuilt) { GTEST_SKIP() << "built without CUDA"; }

#endif
