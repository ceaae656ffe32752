// Batches of a text that is read in lanes.
#include "kernels/cuda/each.cuh"
#include "tasks/cuda/rules.h"

namespace nru::tasks {
namespace {

struct FillText {
  DeviceText text;
  const std::uint64_t* index;
  DeviceArrays to;
  __device__ void operator()(long long step, int lane) const {
    const std::int32_t* token = text.tokens + text.rule.at(*index, step, lane);
    const long long at = step * to.rows + lane;
    to.symbols[at] = token[0];
    to.targets[at] = token[1];
  }
};

}  // namespace

void queue_batch(const DeviceText& text, const std::uint64_t* index, const DeviceArrays& to,
                 cudaStream_t stream) {
  kernels::cuda::for_each("text batch", to.steps, to.rows, stream, FillText{text, index, to});
}

}  // namespace nru::tasks
