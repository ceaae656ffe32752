// The state that a CUDA device carries from batch to batch.
#include <gtest/gtest.h>

#ifdef NRU_HAS_CUDA

#include <limits>
#include <vector>

#include "../support/needs_cuda.h"
#include "kernels/cuda/device_state.h"
#include "kernels/nru.h"

namespace nru::kernels::cuda {
namespace {

TEST(CudaState, RowsThatExplodedBeginAnew) {
  NRU_NEEDS_CUDA_DEVICE();
  const Stream stream;
  const auto program = nru_program<float>({.input = 2, .hidden = 3, .memory = 4, .heads = 1});
  DeviceState state(program, 5, stream.handle());
  std::vector<std::vector<float>> values{std::vector<float>(15, 1.f), std::vector<float>(20, 2.f)};
  values[0][1 * 3 + 2] = std::numeric_limits<float>::quiet_NaN();
  values[1][2 * 4 + 0] = -101.f;
  values[1][3 * 4 + 3] = 100.f;  // just not
  values[1][4 * 4 + 1] = std::numeric_limits<float>::infinity();
  state.set(values);
  state.mend(100.f);
  for (const int row : {1, 2, 4}) {
    for (int i = 0; i < 3; ++i) values[0][row * 3 + i] = 0;
    for (int i = 0; i < 4; ++i) values[1][row * 4 + i] = 0;
  }
  EXPECT_EQ(state.get(), values);
}

}  // namespace
}  // namespace nru::kernels::cuda

#else

TEST(CudaState, IsBuilt) { GTEST_SKIP() << "built without CUDA"; }

#endif
