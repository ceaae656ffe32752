// The GRU's cluster kernels on the CPU: see units_emulation.h.
#include <gtest/gtest.h>

#ifdef NRU_HAS_CUDA

#include "units_emulation.h"
// After it:
#include "kernels/cuda/units_gru.cu"

namespace nru::kernels::cuda {
namespace {

const RunCase kShort{"", 3, 5, false, true}, kShorter{"", 2, 3, false, true};

TEST(GruEmulation, DoesWhatTheCpuDoes) {
  for (int n : {4, 5, 96})
    expect_the_same<GruKernels<SmallGru>>(GruShape{.input = 2, .hidden = n}, kShort);
  for (int n : {97, 240})
    expect_the_same<GruKernels<LargeGru>>(GruShape{.input = 2, .hidden = n}, kShorter);
}

TEST(GruEmulation, NobodyIsOvertaken) {
  const int n = 37;
  expect_nobody_is_overtaken<GruKernels<SmallGru>>(GruShape{.input = 2, .hidden = n});
}

}  // namespace
}  // namespace nru::kernels::cuda

#else

TEST(GruEmulation, IsBuilt) { GTEST_SKIP() << "built without CUDA"; }

#endif
