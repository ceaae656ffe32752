// What GPUs have room for: the designs that a smaller one cannot take are declined, and errors say
// what the matter is. Most of it is decided on the host, and needs no GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#ifdef NRU_HAS_CUDA

#include <stdexcept>

#include "../support/needs_cuda.h"
#include "cuda_compare.h"
#include "cuda_design_cases.h"
#include "kernels/cuda/groups.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/persistent_rows.h"
#include "kernels/cuda/sequence_state.h"

namespace nru::kernels::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

template <class E, class F>
std::string error_of(const F& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  }
  return "no error";
}

// For lesser ones their kernels have no code, and would leave garbage.
TEST(CudaLimits, GroupsAreForComputeCapability9) {
  std::vector<GroupsTile> tiles = linear_groups_tiles();
  for (GroupsTile& tile : tiles) tile.resident = [](std::size_t) { return 132; };  // as on an H200
  const auto found = [&](int major, int batch) {
    const DeviceLimits limits{.major = major, .shared_bytes = 227 * 1024, .multiprocessors = 132};
    return find_groups_tile(tiles, nru_of(200, 1000, 576, 4), batch, limits).tile != nullptr;
  };
  EXPECT_TRUE(found(9, 128));
  EXPECT_TRUE(found(10, 128));
  EXPECT_FALSE(found(8, 128));
  EXPECT_FALSE(found(0, 128)) << "no GPU";
  EXPECT_FALSE(found(9, 129)) << "more CTAs than the GPU has multiprocessors";
}

// A CTA has 99 KiB on GPUs of compute capability 8.6, 8.9 and 12.0, 163 on 8.0 and 227 on 9.0.
TEST(CudaLimits, RowsAreForGpusWithTheSharedMemory) {
  const NruShape small = nru_of(10, 80, 64, 4), wide = nru_of(10, 128, 64, 4),
                 large = nru_of(2, 128, 144, 4);
  for (int kibibytes : {0, 99, 163, 227}) {
    EXPECT_EQ(find_rows_shape(small, kibibytes * 1024), 0);
    EXPECT_EQ(find_rows_shape(wide, kibibytes * 1024), 1);
    EXPECT_EQ(find_rows_shape(large, kibibytes * 1024), kibibytes == 99 ? -1 : 2);
  }
  EXPECT_EQ(find_rows_shape(nru_of(2, 129, 144, 4), 0), -1);
  EXPECT_EQ(find_rows_shape(large, kRowsShapes[2].shared_bytes), 2);
  EXPECT_EQ(find_rows_shape(large, kRowsShapes[2].shared_bytes - 1), -1);
}

// A phase of so many segments, and a bias.
Program<float> program_of(int segments) {
  Program<float> program;
  program.cell = "crowd";
  program.parts = {{"x", 3, PartKind::input}, {"s", 5, PartKind::state}};
  program.phases = {{1, std::vector<Segment>(segments), 0, {}, {}}};
  return program;
}

TEST(CudaLimits, APhaseOfTooManySegmentsIsNamed) {
  EXPECT_NO_THROW(check_factors(program_of(7)));
  EXPECT_THAT(error_of<std::logic_error>([] { check_factors(program_of(8)); }),
              AllOf(HasSubstr("\"s\""), HasSubstr("\"crowd\""), HasSubstr("9 weights")));
  OuterGroup group;
  float to = 0;
  const auto add = [&] { group.add(nullptr, 0, 1, &to, 1); };
  for (int i = 0; i < OuterGroup::kMaxFactors; ++i) add();
  EXPECT_THROW(add(), std::logic_error);
  EXPECT_EQ(group.factors, OuterGroup::kMaxFactors);
}

// Whatever keeps a kernel from its shared memory, if it is not the amount, is not said to be that.
TEST(CudaLimits, OnlyTheLackOfSharedMemoryIsCalledSo) {
  static const char no_kernel = 0;
  EXPECT_NO_THROW(allow_shared_memory("a thing", &no_kernel, 48 * 1024));
  EXPECT_THAT(error_of<Error>([] { allow_shared_memory("a thing", &no_kernel, 64 * 1024); }),
              AllOf(HasSubstr("a thing"), Not(HasSubstr("shared memory"))));
}

TEST(CudaLimits, AnErrorThatWasToldIsNotTheNextKernels) {
  NRU_NEEDS_CUDA_DEVICE();
  EXPECT_THROW(use_device(10000), Error);
  EXPECT_NO_THROW(check_launch("innocent", 1, 1));
}

TEST(CudaLimits, WhyThereIsNoDevice) {
  EXPECT_EQ(why_no_device().empty(), device_count() > 0) << why_no_device();
  EXPECT_EQ(device_limits().multiprocessors > 0, device_count() > 0);
}

// Products, writes and a butterfly that ask for more shared memory than a kernel gets unasked, on
// two devices by turns.
TEST(CudaLimits, ASecondDeviceDoesWhatTheFirstDoes) {
  if (device_count() < 2) GTEST_SKIP() << "fewer than two CUDA devices";
  const std::vector<CellCase> cells = {
      {"products", LstmShape{3, 300}},
      {"rows", nru_of(2, 128, 144, 4)},
      {"general write", NruShape{.input = 2, .hidden = 5, .memory = 1024, .heads = 9}},
      {"butterfly", EurnnShape{.input = 2, .hidden = 8192, .complex = true}}};
  for (const CellCase& cell : cells) {
    SCOPED_TRACE(cell.name);
    const SequenceData<float> data(cell, RunCase{"", 3, 6, false, true}, 0.2);
    SequenceData<float> of_devices[2] = {data, data};
    for (int device : {0, 1}) {
      const DeviceScope scope(device);
      const Stream stream;
      Sequence sequence(data.program, {.stream = stream.handle()});
      EXPECT_GT(train(of_devices[device], sequence, stream.handle()).loss, 0);
    }
    EXPECT_LT(relative_distance(of_devices[1].output, of_devices[0].output), 1e-5);
    for (std::size_t p = 0; p < data.parameters.size(); ++p) {
      EXPECT_LT(relative_distance(of_devices[1].parameter_gradients[p],
                                  of_devices[0].parameter_gradients[p]),
                1e-3);
    }
  }
}

}  // namespace
}  // namespace nru::kernels::cuda

#else

TEST(CudaLimits, AreBuilt) { GTEST_SKIP() << "built without CUDA"; }

#endif
