// The JANET's cluster kernels on the CPU: see units_emulation.h.
#include <gtest/gtest.h>

#ifdef NRU_HAS_CUDA

#include "units_emulation.h"
// After it:
#include "kernels/cuda/units_janet.cu"

namespace nru::kernels::cuda {
namespace {

JanetShape shape_of(int n) { return {.input = 2, .hidden = n}; }

TEST(JanetEmulation, DoesWhatTheCpuDoes) {
  for (int n : {4, 5, 33}) expect_the_same<JanetKernels<SmallJanet>>(shape_of(n), kShort);
  for (int n : {201}) expect_the_same<JanetKernels<LargeJanet>>(shape_of(n), kShorter);
}

TEST(JanetEmulation, NobodyIsOvertaken) {
  expect_nobody_is_overtaken<JanetKernels<SmallJanet>>(shape_of(37));
}

}  // namespace
}  // namespace nru::kernels::cuda

#else

TEST(JanetEmulation, IsBuilt) { GTEST_SKIP() << "built without CUDA"; }

#endif
