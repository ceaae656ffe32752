// Where the CUDA kernels' memory comes from: the device, or somebody else's pool.
#include <gtest/gtest.h>

#ifdef NRU_HAS_CUDA

#include <cuda_runtime_api.h>

#include "cuda_compare.h"
#include "cuda_data.h"

namespace nru::kernels::cuda {
namespace {

const CellCase kCell{"nru", NruShape{.input = 5, .hidden = 7, .memory = 16, .heads = 4}};
const RunCase kRun{"", 37, 11, true, true};

int taken = 0, given_back = 0;
StreamHandle asked_for = nullptr;

// Memory of a pool has seen other use: here every byte is 0xff, in floats NaN.
void* take(std::size_t bytes, StreamHandle stream) {
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, bytes), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(memory, 0xff, bytes, stream), cudaSuccess);
  asked_for = stream;
  ++taken;
  return memory;
}
void give_back(void* memory) {
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  ++given_back;
}

TEST(CudaMemory, SequencesRunInAPoolsMemory) {
  NRU_NEEDS_CUDA_DEVICE();
  const Stream stream;
  SequenceData<float> own(kCell, kRun), pooled(kCell, kRun);
  {
    Sequence sequence(own.program, {.stream = stream.handle()});
    forward_backward(own, sequence, stream.handle());
  }
  EXPECT_EQ(taken, 0);
  {
    const PoolScope scope({take, give_back}, stream.handle());
    Sequence sequence(pooled.program, {.stream = stream.handle()});
    forward_backward(pooled, sequence, stream.handle());
    EXPECT_GT(taken, 10);
    EXPECT_EQ(asked_for, stream.handle());
  }
  EXPECT_EQ(given_back, taken);
  expect_same_results(own, pooled);
  const int before = taken;
  Buffer<float> after;
  after.require(1);
  EXPECT_EQ(taken, before) << "the scope has ended";
}

}  // namespace
}  // namespace nru::kernels::cuda

#else

TEST(CudaMemory, IsBuilt) { GTEST_SKIP() << "built without CUDA"; }

#endif
