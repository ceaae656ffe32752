// A model on a CUDA device: its parameters in device memory, and what queues a batch's loss,
// gradients and predictions on a stream. The host's copy (FlatParameters) says how they lie.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cuda/device.h"
#include "kernels/cuda/embedding.h"
#include "kernels/cuda/sequence.h"
#include "tasks/cuda/device_batches.h"
#include "training/engine.h"
#include "training/flat_parameters.h"

namespace nru::training {

// Device memory for a batch, as large as the largest one yet.
class DeviceBatchMemory {
 public:
  tasks::DeviceBatch require(const tasks::BatchShape& shape);
  // The same, filled from the host. Waits.
  tasks::DeviceBatch upload(const tasks::Batch& batch, kernels::cuda::StreamHandle stream);

 private:
  kernels::cuda::Buffer<std::int32_t> symbols_, targets_;
  kernels::cuda::Buffer<float> dense_, weights_;
};

class CudaNetwork {
 public:
  // tf32: large products may round their operands to TF32.
  CudaNetwork(const Model& model, const FlatParameters& flat, bool tf32 = false);

  // Loss and gradients, or loss and predictions ([T,B], null: none), of a batch; queued. `initial`
  // and `final`: by state part, or empty. state_limit: SequenceGradients's.
  void train(const tasks::DeviceBatch& batch, const std::vector<const float*>& initial,
             const std::vector<float*>& final, double state_limit = 0);
  void evaluate(const tasks::DeviceBatch& batch, const std::vector<const float*>& initial,
                const std::vector<float*>& final, std::int32_t* predictions);

  // The layer's forward pass alone, with what a backward pass needs; queued.
  void forward(const tasks::DeviceBatch& batch);

  kernels::cuda::StreamHandle stream() const { return stream_.handle(); }
  kernels::cuda::Sequence& sequence() { return sequence_; }
  const kernels::Program<float>& program() const { return *program_; }
  std::int64_t size() const { return size_; }
  float* values() const { return values_.data(); }
  float* gradients() const { return gradients_.data(); }

 private:
  kernels::SequenceInputs<float> inputs(const tasks::DeviceBatch& batch,
                                        const std::vector<const float*>& initial);
  kernels::Readout<float> readout(const tasks::DeviceBatch& batch);

  std::shared_ptr<const kernels::Program<float>> program_;
  kernels::cuda::Stream stream_;
  kernels::cuda::Sequence sequence_;
  kernels::cuda::Embedding embedding_;
  std::int64_t size_;
  int input_, embedding_width_;
  kernels::cuda::Buffer<float> values_, gradients_;
  std::vector<const float*> parameters_;  // of the layer
  std::vector<float*> parameter_gradients_;
  const float* table_ = nullptr;  // the embedding's, [symbols, width]
  float* table_gradient_ = nullptr;
  kernels::cuda::Buffer<float> embedded_, embedded_gradient_;  // [T,B,E]
  kernels::Readout<float> readout_;
};

}  // namespace nru::training
