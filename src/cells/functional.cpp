#include "cells/functional.h"

#include <fmt/format.h>
#include <nru/error.h>

#include "cells/construction.h"
#include "cells/registry.h"

namespace nru {
namespace {

using torch::Tensor;

std::shared_ptr<LayerImpl> make_bare(const std::string& cell, std::int64_t input_size,
                                     const OptionMap& options) {
  const CellInfo& info = find_cell(cell);
  const OptionMap resolved = resolve_options(info.options, options, "cell " + info.name);
  const ConstructionScope bare(Construction::bare);
  return info.make(input_size, resolved);
}

}  // namespace

FunctionalLayer::FunctionalLayer(const std::string& cell, LayerSettings settings,
                                 const OptionMap& options)
    : layer_(make_bare(cell, settings.input_size, options)) {
  settings.hidden_size = layer_->settings().hidden_size;
  LayerImpl::check_settings(settings);
  layer_->settings_ = settings;
  layer_->stack();
  for (std::int64_t layer = 0; layer < settings.num_layers; ++layer) {
    for (const auto& p : layer_->program<float>(layer)->parameters)
      shapes_.push_back({fmt::format("{}_l{}", p.name, layer), p.shape()});
  }
}

// The flat list by stacked layer. The kernels get bare pointers, so what does not fit must not
// reach them.
LayerImpl::Parameters FunctionalLayer::checked(const Tensors& parameters) const {
  if (parameters.size() != shapes_.size()) {
    throw Error(
        fmt::format("the layer has {} parameters, got {}", shapes_.size(), parameters.size()));
  }
  const Tensor& first = parameters.front();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Tensor& p = parameters[i];
    if (p.sizes() != torch::IntArrayRef(shapes_[i].shape)) {
      throw Error(fmt::format("parameter {} must be [{}], got [{}]", shapes_[i].name,
                              fmt::join(shapes_[i].shape, ", "), fmt::join(p.sizes(), ", ")));
    }
    if (p.scalar_type() != first.scalar_type() || p.device() != first.device()) {
      throw Error(fmt::format("parameter {} is {} on {}, {} is {} on {}; convert the whole layer",
                              shapes_[i].name, c10::toString(p.scalar_type()), p.device().str(),
                              shapes_[0].name, c10::toString(first.scalar_type()),
                              first.device().str()));
    }
  }
  const auto layers = layer_->settings().num_layers;
  const auto each = static_cast<std::int64_t>(parameters.size()) / layers;
  LayerImpl::Parameters by_layer;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    by_layer.emplace_back(parameters.begin() + layer * each,
                          parameters.begin() + (layer + 1) * each);
  }
  return by_layer;
}

std::tuple<Tensor, State> FunctionalLayer::forward(const Tensors& parameters, const Tensor& x,
                                                   const State& state, const Tensor& lengths,
                                                   bool training) const {
  return layer_->forward_with(checked(parameters), x, state, lengths, training);
}

std::tuple<Tensor, State> FunctionalLayer::step(const Tensors& parameters, const Tensor& x,
                                                const State& state, bool training) const {
  return layer_->step_with(checked(parameters), x, state, training);
}

std::vector<Tensor> FunctionalLayer::states(const Tensors& parameters, const Tensor& x,
                                            const State& state, const Tensor& lengths) const {
  return layer_->states_with(checked(parameters), x, state, lengths);
}

void FunctionalLayer::initialise(const Tensors& parameters, std::uint64_t seed) const {
  layer_->initialise_with(checked(parameters), seed);
}

}  // namespace nru
