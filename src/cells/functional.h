// A recurrent layer as a function of its parameters: for callers that keep the parameters
// themselves, as the Python module does, where they are torch.nn.Parameters.
//
// It is LayerImpl without tensors of its own: the same checks, kernels, reference and gradients.
#pragma once

#include <nru/layer.h>
#include <nru/options.h>

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

namespace nru {

class FunctionalLayer {
 public:
  // hidden_size is the cell's option; that of `settings` is not read. Throws nru::Error as the
  // cell's own constructor does.
  FunctionalLayer(const std::string& cell, LayerSettings settings, const OptionMap& options);

  using Tensors = std::vector<torch::Tensor>;

  // LayerImpl's functions of the same names. `parameters` are those of parameter_shapes(), in that
  // order; in training there is dropout between stacked layers.
  std::tuple<torch::Tensor, State> forward(const Tensors& parameters, const torch::Tensor& x,
                                           const State& state, const torch::Tensor& lengths,
                                           bool training) const;
  std::tuple<torch::Tensor, State> step(const Tensors& parameters, const torch::Tensor& x,
                                        const State& state, bool training) const;
  Tensors states(const Tensors& parameters, const torch::Tensor& x, const State& state,
                 const torch::Tensor& lengths = {}) const;
  void initialise(const Tensors& parameters, std::uint64_t seed) const;

  struct ParameterShape {
    std::string name;  // as LayerImpl registers it: "weight_l0"
    std::vector<std::int64_t> shape;
  };
  // One stacked layer after the other.
  const std::vector<ParameterShape>& parameter_shapes() const { return shapes_; }
  const std::vector<std::string>& state_names() const { return layer_->state_names(); }

 private:
  LayerImpl::Parameters checked(const Tensors& parameters) const;

  std::shared_ptr<LayerImpl> layer_;
  std::vector<ParameterShape> shapes_;
};

}  // namespace nru
