// The LSTM's cluster kernels on the CPU: see units_emulation.h.
#include <gtest/gtest.h>

#ifdef NRU_HAS_CUDA

#include "units_emulation.h"
// After it:
#include "kernels/cuda/units_lstm.cu"

namespace nru::kernels::cuda {
namespace {

const RunCase kShort{"", 3, 5, false, true}, kShorter{"", 2, 3, false, true};

TEST(LstmEmulation, DoesWhatTheCpuDoes) {
  for (int n : {4, 5, 33})
    expect_the_same<LstmKernels<SmallLstm>>(
        LstmShape{.input = 2, .hidden = n, .peephole = n % 2 == 1}, kShort);
  for (int n : {101, 200})
    expect_the_same<LstmKernels<LargeLstm>>(
        LstmShape{.input = 2, .hidden = n, .peephole = n % 2 == 1}, kShorter);
}

TEST(LstmEmulation, NobodyIsOvertaken) {
  const int n = 37;
  expect_nobody_is_overtaken<LstmKernels<SmallLstm>>(
      LstmShape{.input = 2, .hidden = n, .peephole = n % 2 == 1});
}

}  // namespace
}  // namespace nru::kernels::cuda

#else

TEST(LstmEmulation, IsBuilt) { GTEST_SKIP() << "built without CUDA"; }

#endif
