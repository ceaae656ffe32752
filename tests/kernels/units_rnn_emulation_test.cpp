// The RNN's cluster kernels on the CPU: see units_emulation.h.
#include <gtest/gtest.h>

#ifdef NRU_HAS_CUDA

#include "units_emulation.h"
// After it:
#include "kernels/cuda/units_rnn.cu"

namespace nru::kernels::cuda {
namespace {

const RunCase kShort{"", 3, 5, false, true}, kShorter{"", 2, 3, false, true};

TEST(RnnEmulation, DoesWhatTheCpuDoes) {
  for (int n : {4, 5, 33})
    expect_the_same<RnnKernels<SmallRnn>>(RnnShape{.input = 2, .hidden = n}, kShort);
  for (int n : {201})
    expect_the_same<RnnKernels<LargeRnn>>(RnnShape{.input = 2, .hidden = n}, kShorter);
}

TEST(RnnEmulation, NobodyIsOvertaken) {
  const int n = 37;
  expect_nobody_is_overtaken<RnnKernels<SmallRnn>>(RnnShape{.input = 2, .hidden = n});
}

}  // namespace
}  // namespace nru::kernels::cuda

#else

TEST(RnnEmulation, IsBuilt) { GTEST_SKIP() << "built without CUDA"; }

#endif
