// The GRU's cluster kernels on the CPU: see units_emulation.h.
#include <gtest/gtest.h>

#ifdef NRU_HAS_CUDA

#include "units_emulation.h"
// After it:
#include "kernels/cuda/units_gru.cu"

namespace nru::kernels::cuda {
namespace {

GruShape shape_of(int n) { return {.input = 2, .hidden = n}; }

TEST(GruEmulation, DoesWhatTheCpuDoes) {
  for (int n : {4, 5, 96}) expect_the_same<GruKernels<SmallGru>>(shape_of(n), kShort);
  for (int n : {97, 240}) expect_the_same<GruKernels<LargeGru>>(shape_of(n), kShorter);
}

TEST(GruEmulation, NobodyIsOvertaken) {
  expect_nobody_is_overtaken<GruKernels<SmallGru>>(shape_of(37));
}

}  // namespace
}  // namespace nru::kernels::cuda

#else

TEST(GruEmulation, IsBuilt) { GTEST_SKIP() << "built without CUDA"; }

#endif
