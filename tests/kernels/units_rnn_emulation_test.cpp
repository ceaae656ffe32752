// The RNN's cluster kernels on the CPU: see units_emulation.h.
#include <gtest/gtest.h>

#ifdef NRU_HAS_CUDA

#include "units_emulation.h"
// After it:
#include "kernels/cuda/units_rnn.cu"

namespace nru::kernels::cuda {
namespace {

RnnShape shape_of(int n, bool layer_norm) {
  return {.input = 2, .hidden = n, .tanh = n % 2 == 1, .layer_norm = layer_norm};
}

TEST(RnnEmulation, DoesWhatTheCpuDoes) {
  for (bool norm : {false, true}) {
    for (int n : {4, 5, 33, 160}) expect_the_same<RnnKernels<SmallRnn>>(shape_of(n, norm), kShort);
    for (int n : {201, 416}) expect_the_same<RnnKernels<LargeRnn>>(shape_of(n, norm), kShorter);
  }
}

TEST(RnnEmulation, NobodyIsOvertaken) {
  for (bool norm : {false, true})
    expect_nobody_is_overtaken<RnnKernels<SmallRnn>>(shape_of(37, norm));
}

}  // namespace
}  // namespace nru::kernels::cuda

#else

TEST(RnnEmulation, IsBuilt) { GTEST_SKIP() << "built without CUDA"; }

#endif
