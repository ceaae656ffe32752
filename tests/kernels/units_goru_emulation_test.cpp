// The GORU's cluster kernels on the CPU: see units_emulation.h.
#include <gtest/gtest.h>

#ifdef NRU_HAS_CUDA

#include "units_emulation.h"
// After it:
#include "kernels/cuda/units_goru.cu"

namespace nru::kernels::cuda {
namespace {

GoruShape shape_of(int n, ModRelu form = ModRelu::smooth) {
  return {.input = 2, .hidden = n, .modrelu = form};
}

// Its warps have different things to do at the same time.
TEST(GoruEmulation, DoesWhatTheCpuDoes) {
  using Small = GoruKernels<SmallGoru>;
  using Large = GoruKernels<LargeGoru>;
  for (int n : {4, 5, 33, 98})
    expect_the_same<Small>(shape_of(n), kShort, emulated::Cluster::kNobody, 10);
  expect_the_same<Small>(shape_of(112, ModRelu::sign), kShort);
  for (int n : {113, 257, 282})
    expect_the_same<Large>(shape_of(n), kShorter, emulated::Cluster::kNobody, 10);
  expect_the_same<Large>(shape_of(288, ModRelu::sign), kShorter);
}

TEST(GoruEmulation, NobodyIsOvertaken) {
  expect_nobody_is_overtaken<GoruKernels<SmallGoru>>(shape_of(41), 10);
  // Warps with several blocks of the butterfly.
  for (int warp : {0, 1, 4, 6})
    expect_the_same<GoruKernels<LargeGoru>>(shape_of(131), {"", 5, 4, false, true}, warp, 10);
}

}  // namespace
}  // namespace nru::kernels::cuda

#else

TEST(GoruEmulation, IsBuilt) { GTEST_SKIP() << "built without CUDA"; }

#endif
