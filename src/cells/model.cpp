#include "cells/model.h"

#include "cells/construction.h"
#include "cells/initializer.h"
#include "cells/registry.h"

namespace nru {
namespace {

// The output layer and the embedding draw from seeds of their own, so that a cell's number of
// tensors does not shift them.
constexpr std::uint64_t kOutputSeed = 0x9E3779B97F4A7C15u;
constexpr std::uint64_t kEmbeddingSeed = 0xD1B54A32D192ED03u;

}  // namespace

ModelImpl::ModelImpl(const ModelSettings& settings) : settings_(settings) {
  const CellInfo& cell = find_cell(settings.cell);
  if (settings.embedding_size > 0) {
    embedding_ = register_module(
        "embedding", torch::nn::Embedding(settings.input_size, settings.embedding_size));
    Initializer(settings.seed ^ kEmbeddingSeed).normal(embedding_->weight, 1);
  }
  {
    const ConstructionScope undrawn(Construction::undrawn);  // the next line draws
    layer_ = cell.make(settings.layer_input(), settings.cell_options);
  }
  layer_->reset_parameters(settings.seed);
  register_module("layer", layer_);
  output_ = register_module(
      "output", torch::nn::Linear(layer_->settings().hidden_size, settings.output_size));
  Initializer init(settings.seed ^ kOutputSeed);
  if (cell.initialise_output) {
    cell.initialise_output(init, output_->weight, output_->bias, settings.layer_input(),
                           settings.cell_options);
  } else {
    init.xavier_normal(output_->weight);
    init.constant(output_->bias, 0);
  }
}

torch::Tensor ModelImpl::logits(const torch::Tensor& hidden) const {
  return torch::linear(hidden, output_->weight, output_->bias);
}

std::int64_t count_parameters(const ModelSettings& settings) {
  std::int64_t count = 0;
  for (const auto& p :
       find_cell(settings.cell).parameters(settings.layer_input(), settings.cell_options)) {
    count += p.size();
  }
  return count + settings.input_size * settings.embedding_size +
         settings.output_size * (get<std::int64_t>(settings.cell_options, "hidden_size") + 1);
}

}  // namespace nru
