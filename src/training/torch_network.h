// torch's own layer with embedding and output layer around it: the rival in `nru bench`.
#pragma once

#include <nru/torch_all.h>

#include <vector>

#include "tasks/task.h"
#include "training/benchmark.h"

namespace nru::training {

// Input and targets of a batch as torch's layers take them, on a device.
struct TorchBatch {
  torch::Tensor x;        // [T,B] symbols for an embedding, else [T,B,I]
  torch::Tensor targets;  // [positions with a loss]
  int loss_from;

  TorchBatch(const Workload& w, const tasks::Batch& batch, torch::Device device)
      : loss_from(w.loss_from) {
    const auto ids = [&](const std::vector<std::int32_t>& v) {
      return torch::tensor(std::vector<std::int64_t>(v.begin(), v.end())).view({w.steps, w.batch});
    };
    x = w.embedding > 0 ? ids(batch.symbols)
        : w.symbols     ? torch::one_hot(ids(batch.symbols), w.input).to(torch::kFloat)
                        : torch::tensor(batch.dense).view({w.steps, w.batch, w.input});
    x = x.to(device);
    targets = ids(batch.targets).slice(0, w.loss_from).reshape({-1}).to(device);
  }

  // hidden [T,B,H] -> the mean over the positions with a loss.
  torch::Tensor loss(const torch::Tensor& hidden, const torch::Tensor& weight,
                     const torch::Tensor& bias) const {
    const torch::Tensor logits = torch::linear(hidden.slice(0, loss_from), weight, bias);
    return torch::nn::functional::cross_entropy(logits.reshape({-1, logits.size(2)}), targets);
  }
};

template <class Layer, class Options>
struct TorchNetwork {
  torch::nn::Embedding embedding{nullptr};
  Layer layer;
  torch::nn::Linear output;
  TorchBatch batch;
  std::vector<torch::Tensor> parameters;

  TorchNetwork(const Workload& w, std::int64_t hidden, const tasks::Batch& batch,
               torch::Device device)
      : layer(Options(w.layer_input(), hidden)),
        output(hidden, w.classes),
        batch(w, batch, device) {
    if (w.embedding > 0) {
      embedding = torch::nn::Embedding(w.input, w.embedding);
      embedding->to(device);
    }
    layer->to(device);
    output->to(device);
    parameters = layer->parameters();
    if (embedding) parameters.push_back(embedding->weight);
    for (const auto& p : output->parameters()) parameters.push_back(p);
  }

  torch::Tensor forward() {
    return std::get<0>(layer->forward(embedding ? embedding->forward(batch.x) : batch.x));
  }
  torch::Tensor loss() { return batch.loss(forward(), output->weight, output->bias); }
};

}  // namespace nru::training
