// Batches made in device memory, the same bit for bit as Task::make_batch makes them on the host.
//
// A training update is one CUDA graph, recorded once and replayed with nothing from the host but a
// counter. So the batch is made by kernels of that graph, and these read the index of the batch
// from device memory: replayed with another index, the graph makes another batch.
#pragma once

#include <cstdint>

#include "kernels/cuda/device.h"
#include "tasks/task.h"

namespace nru::tasks {

// Where a batch goes: device memory for the arrays that its shape has, null for the others.
struct DeviceBatch {
  BatchShape shape;
  std::int32_t* symbols = nullptr;  // [T,B]
  float* dense = nullptr;           // [T,B,I]
  std::int32_t* targets = nullptr;  // [T,B]
  float* weights = nullptr;         // [T,B]
};

class DeviceBatches {
 public:
  virtual ~DeviceBatches() = default;

  // Queues kernels that fill all of `to`, and may be recorded in a graph. `index` lies in device
  // memory and is read when they run; the batch of that index must have the steps, rows and weights
  // of to.shape (Task::shape). The object must live as long as the graph.
  virtual void make(Split split, const std::uint64_t* index, const DeviceBatch& to,
                    kernels::cuda::StreamHandle stream) const = 0;
};

}  // namespace nru::tasks
