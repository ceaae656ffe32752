// The SRU's cluster kernels on the CPU: see units_emulation.h.
#include <gtest/gtest.h>

#ifdef NRU_HAS_CUDA

#include "units_emulation.h"
// After it:
#include "kernels/cuda/units_sru.cu"

namespace nru::kernels::cuda {
namespace {

SruShape shape_of(int statistics, int recurrent) {
  return {.input = 2,
          .hidden = 7,
          .statistics = statistics,
          .recurrent = recurrent,
          .scales = {0, 0.25, 0.5, 0.9, 0.99}};
}

// Its output is made outside the time loop, so gradients come from the final state alone.
TEST(SruEmulation, DoesWhatTheCpuDoes) {
  expect_the_same<SruKernels<SmallSru>>(shape_of(4, 4), kShort);
  expect_the_same<SruKernels<SmallSru>>(shape_of(55, 31), kShort);
  expect_the_same<SruKernels<LargeSru>>(shape_of(159, 61), kShorter);
}

TEST(SruEmulation, NobodyIsOvertaken) {
  expect_nobody_is_overtaken<SruKernels<SmallSru>>(shape_of(37, 9));
}

}  // namespace
}  // namespace nru::kernels::cuda

#else

TEST(SruEmulation, IsBuilt) { GTEST_SKIP() << "built without CUDA"; }

#endif
