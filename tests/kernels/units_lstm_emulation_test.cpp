// The LSTM's cluster kernels on the CPU: see units_emulation.h.
#include <gtest/gtest.h>

#ifdef NRU_HAS_CUDA

#include "units_emulation.h"
// After it:
#include "kernels/cuda/units_lstm.cu"

namespace nru::kernels::cuda {
namespace {

LstmShape shape_of(int n) { return {.input = 2, .hidden = n, .peephole = n % 2 == 1}; }

TEST(LstmEmulation, DoesWhatTheCpuDoes) {
  for (int n : {4, 5, 33}) expect_the_same<LstmKernels<SmallLstm>>(shape_of(n), kShort);
  for (int n : {101, 200}) expect_the_same<LstmKernels<LargeLstm>>(shape_of(n), kShorter);
}

TEST(LstmEmulation, NobodyIsOvertaken) {
  expect_nobody_is_overtaken<LstmKernels<SmallLstm>>(shape_of(37));
}

}  // namespace
}  // namespace nru::kernels::cuda

#else

TEST(LstmEmulation, IsBuilt) { GTEST_SKIP() << "built without CUDA"; }

#endif
