// Batches of the synthetic tasks. A CTA fills a tile of steps and rows, one thread per position;
// what a rule draws once for a row is drawn again in every tile of the row, which is quicker than
// to wait for it.
#include "kernels/cuda/launch.cuh"
#include "tasks/cuda/rules.h"

namespace nru::tasks {
namespace {

constexpr int kTileRows = 8;  // the rows of a step lie side by side: a sector of memory
constexpr int kTileSteps = 32;
constexpr int kThreads = kTileRows * kTileSteps;

template <class Rule>
__global__ void __launch_bounds__(kThreads)
    recall_kernel(const Rule rule, const std::uint64_t* index, const DeviceArrays to) {
  __shared__ typename Rule::Row drawn[kTileRows];
  const int row_tiles = (to.rows + kTileRows - 1) / kTileRows;
  const int first_row = static_cast<int>(blockIdx.x % row_tiles) * kTileRows;
  const int first_step = static_cast<int>(blockIdx.x / row_tiles) * kTileSteps;
  const int in_tile = threadIdx.x % kTileRows, row = first_row + in_tile;
  const int step = first_step + static_cast<int>(threadIdx.x / kTileRows);

  kernels::cuda::after_previous();
  const std::uint64_t batch = *index;
  if (threadIdx.x < kTileRows) drawn[in_tile] = rule.row(batch, row);
  __syncthreads();
  if (row >= to.rows || step >= to.steps) return;
  const RecallRule::Position position = rule.at(batch, row, drawn[in_tile], step);
  const long long at = static_cast<long long>(step) * to.rows + row;
  to.symbols[at] = position.symbol;
  to.targets[at] = position.target;
  if (to.weights) to.weights[at] = position.weight;
}

template <class Rule>
void queue(const char* name, const Rule& rule, const std::uint64_t* index, const DeviceArrays& to,
           cudaStream_t stream) {
  const unsigned row_tiles = (to.rows + kTileRows - 1) / kTileRows;
  const unsigned step_tiles = (to.steps + kTileSteps - 1) / kTileSteps;
  kernels::cuda::launch(name, to.steps, to.rows, recall_kernel<Rule>,
                        {dim3(row_tiles * step_tiles), dim3(kThreads)}, stream, rule, index, to);
}

}  // namespace

void queue_batch(const CopyRule& rule, const std::uint64_t* index, const DeviceArrays& to,
                 cudaStream_t stream) {
  queue("copy batch", rule, index, to, stream);
}
void queue_batch(const CopyVariableRule& rule, const std::uint64_t* index, const DeviceArrays& to,
                 cudaStream_t stream) {
  queue("copy-variable batch", rule, index, to, stream);
}
void queue_batch(const DenoiseRule& rule, const std::uint64_t* index, const DeviceArrays& to,
                 cudaStream_t stream) {
  queue("denoise batch", rule, index, to, stream);
}

}  // namespace nru::tasks
