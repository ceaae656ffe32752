// The network that every experiment trains: a recurrent layer and an output layer, y = V h_t + c,
// behind a learned embedding of the input symbols where the task asks for one.
#pragma once

#include <nru/layer.h>
#include <nru/options.h>

#include <cstdint>
#include <memory>
#include <string>

namespace nru {

struct ModelSettings {
  std::string cell;             // name in the table of cells
  OptionMap cell_options;       // resolved
  std::int64_t input_size = 0;  // symbols, or width of the dense input
  std::int64_t output_size = 0;
  std::uint64_t seed = 1;
  std::int64_t embedding_size = 0;  // 0: the input goes to the cell as it is, symbols one-hot

  std::int64_t layer_input() const { return embedding_size > 0 ? embedding_size : input_size; }
};

// Parameters: layer.* of the cell, output.weight V [O,H] (Xavier-normal) and output.bias c [O]
// (zero), unless the cell has an output layer's initialisation of its own; embedding.weight [V,E],
// N(0,1).
class ModelImpl : public torch::nn::Module {
 public:
  explicit ModelImpl(const ModelSettings& settings);

  torch::Tensor logits(const torch::Tensor& hidden) const;  // [..., H] -> [..., O]

  const std::shared_ptr<LayerImpl>& layer() const { return layer_; }
  const torch::nn::Embedding& embedding() const { return embedding_; }  // empty: there is none
  const torch::Tensor& output_weight() const { return output_->weight; }
  const torch::Tensor& output_bias() const { return output_->bias; }
  const ModelSettings& settings() const { return settings_; }

 private:
  ModelSettings settings_;
  torch::nn::Embedding embedding_{nullptr};
  std::shared_ptr<LayerImpl> layer_;
  torch::nn::Linear output_{nullptr};
};

TORCH_MODULE(Model);

// The number of parameters such a model has, without making it.
std::int64_t count_parameters(const ModelSettings& settings);

}  // namespace nru
