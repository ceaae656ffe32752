// Where the CUDA kernels' memory comes from: the device, or somebody else's pool.
#include <gtest/gtest.h>

#ifdef NRU_HAS_CUDA

#include <cuda_runtime_api.h>

#include <set>

#include "cuda_compare.h"
#include "cuda_data.h"
#include "cuda_design_cases.h"

namespace nru::kernels::cuda {
namespace {

const CellCase kCell{"nru", NruShape{.input = 5, .hidden = 7, .memory = 16, .heads = 4}};
const RunCase kRun{"", 37, 11, true, true};

int taken = 0, given_back = 0;
std::set<void*> live, released;
StreamHandle asked_for = nullptr;

// Memory of a pool has seen other use: here every byte is 0xff, in floats NaN.
void* take(std::size_t bytes, StreamHandle stream) {
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, bytes), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(memory, 0xff, bytes, stream), cudaSuccess);
  asked_for = stream;
  live.insert(memory);
  ++taken;
  return memory;
}
void give_back(void* memory) {
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  live.erase(memory);
  released.insert(memory);
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

// A graph that was recorded for one batch must find its memory when a larger one has been through:
// in training, evaluation may come with other batches.
TEST(CudaMemory, ASequenceGivesNothingBackWhileItLives) {
  NRU_NEEDS_CUDA_DEVICE();
  const Stream stream;
  for (const DesignCases& design : design_cases()) {
    for (const CellCase& cell : design.cells) {
      SCOPED_TRACE(design.name + " " + cell.name);
      SequenceData<float> trained(cell, {"", 3, 6, false, true}), evaluated(cell, {"", 3, 13});
      const PoolScope scope({take, give_back}, stream.handle());
      Sequence sequence(trained.program, {.stream = stream.handle()});
      train(trained, sequence, stream.handle());
      const std::set<void*> before = live;
      released.clear();
      evaluate(evaluated, sequence, stream.handle());
      for (void* memory : before) EXPECT_FALSE(released.contains(memory));
    }
  }
}

}  // namespace
}  // namespace nru::kernels::cuda

#else

TEST(CudaMemory, IsBuilt) { GTEST_SKIP() << "built without CUDA"; }

#endif
