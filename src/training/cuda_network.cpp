#ifdef NRU_HAS_CUDA

#include "training/cuda_network.h"

#include <fmt/format.h>

#include "kernels/cuda/readout.h"

namespace nru::training {

namespace cuda = kernels::cuda;

tasks::DeviceBatch DeviceBatchMemory::require(const tasks::BatchShape& shape) {
  const std::size_t positions = static_cast<std::size_t>(shape.steps) * shape.rows;
  tasks::DeviceBatch batch{.shape = shape};
  if (shape.dense_width > 0) {
    batch.dense = dense_.require(positions * shape.dense_width);
  } else {
    batch.symbols = symbols_.require(positions);
  }
  batch.targets = targets_.require(positions);
  if (shape.weighted) batch.weights = weights_.require(positions);
  return batch;
}

tasks::DeviceBatch DeviceBatchMemory::upload(const tasks::Batch& batch, cuda::StreamHandle stream) {
  const tasks::DeviceBatch to = require(batch.shape());
  const auto copy = [&](const auto& from, auto* there) {
    if (there) cuda::upload(from.data(), from.size() * sizeof from[0], there, stream);
  };
  copy(batch.symbols, to.symbols);
  copy(batch.dense, to.dense);
  copy(batch.targets, to.targets);
  copy(batch.weights, to.weights);
  cuda::wait(stream);  // the caller may fill the batch anew
  return to;
}

CudaNetwork::CudaNetwork(const Model& model, const FlatParameters& flat, bool tf32)
    : program_(model->layer()->program<float>(0)),
      sequence_(program_, {.stream = stream_.handle(), .tf32 = tf32}),
      embedding_(stream_.handle()),
      size_(flat.size()),
      input_(static_cast<int>(model->settings().input_size)),
      embedding_width_(static_cast<int>(model->settings().embedding_size)) {
  values_.require(size_);
  gradients_.require(size_);
  const auto value = [&](const std::string& name) { return values() + flat.entry(name).offset; };
  const auto gradient = [&](const std::string& name) {
    return gradients() + flat.entry(name).offset;
  };
  for (const auto& parameter : program_->parameters) {
    const std::string name = fmt::format("layer.{}_l0", parameter.name);
    parameters_.push_back(value(name));
    parameter_gradients_.push_back(gradient(name));
  }
  if (embedding_width_ > 0) {
    table_ = value("embedding.weight");
    table_gradient_ = gradient("embedding.weight");
  }
  readout_.classes = static_cast<int>(model->settings().output_size);
  readout_.weight = value("output.weight");
  readout_.bias = value("output.bias");
  readout_.weight_gradient = gradient("output.weight");
  readout_.bias_gradient = gradient("output.bias");
}

kernels::SequenceInputs<float> CudaNetwork::inputs(const tasks::DeviceBatch& batch,
                                                   const std::vector<const float*>& initial) {
  kernels::SequenceInputs<float> in;
  in.steps = batch.shape.steps;
  in.batch = batch.shape.rows;
  in.parameters = parameters_.data();
  in.initial = initial.empty() ? nullptr : initial.data();
  in.dense = batch.dense;
  if (embedding_width_ > 0) {
    const cuda::Steps steps{0, batch.shape.steps, batch.shape.rows, nullptr};
    float* embedded = embedded_.require(static_cast<std::size_t>(steps.rows()) * embedding_width_);
    embedding_.forward(steps, batch.symbols, table_, embedding_width_, embedded);
    in.dense = embedded;
  } else {
    in.symbols = batch.symbols;
  }
  return in;
}

// Weights are divided by their sum where they lie, so that a recorded graph is right for batches
// that differ in it.
kernels::Readout<float> CudaNetwork::readout(const tasks::DeviceBatch& batch) {
  kernels::Readout<float> r = readout_;
  r.targets = batch.targets;
  r.first_step = batch.shape.loss_from;
  const long long skipped = static_cast<long long>(batch.shape.loss_from) * batch.shape.rows;
  const long long counted = static_cast<long long>(batch.shape.steps) * batch.shape.rows - skipped;
  if (batch.shape.weighted) {
    cuda::normalize_weights(batch.weights + skipped, counted, stream());
    r.weights = batch.weights;
    r.scale = 1;
  } else {
    r.scale = 1.0 / static_cast<double>(counted);
  }
  return r;
}

void CudaNetwork::train(const tasks::DeviceBatch& batch, const std::vector<const float*>& initial,
                        const std::vector<float*>& final, double state_limit) {
  kernels::SequenceGradients<float> g;
  g.parameters = parameter_gradients_.data();
  g.state_limit = state_limit;
  const cuda::Steps steps{0, batch.shape.steps, batch.shape.rows, nullptr};
  if (embedding_width_ > 0) {
    g.input = embedded_gradient_.require(static_cast<std::size_t>(steps.rows()) * embedding_width_);
  }
  sequence_.train(inputs(batch, initial),
                  {nullptr, nullptr, final.empty() ? nullptr : final.data()}, readout(batch), g);
  if (embedding_width_ > 0) {
    embedding_.backward(steps, batch.symbols, input_, g.input, embedding_width_, table_gradient_);
  }
}

void CudaNetwork::evaluate(const tasks::DeviceBatch& batch,
                           const std::vector<const float*>& initial,
                           const std::vector<float*>& final, std::int32_t* predictions) {
  kernels::Readout<float> r = readout(batch);
  r.predictions = predictions;
  sequence_.evaluate(inputs(batch, initial),
                     {nullptr, nullptr, final.empty() ? nullptr : final.data()}, r);
}

void CudaNetwork::forward(const tasks::DeviceBatch& batch) {
  sequence_.forward(inputs(batch, {}), {}, /*keep=*/true);
}

}  // namespace nru::training

#endif
