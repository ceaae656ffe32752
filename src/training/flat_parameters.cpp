#include "training/flat_parameters.h"

#include <cmath>
#include <stdexcept>

#include "kernels/cpu/gemm.h"

namespace nru::training {

FlatParameters::FlatParameters(torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  std::int64_t total = 0;
  for (const auto& parameter : module.named_parameters()) {
    const torch::Tensor& tensor = parameter.value();
    if (tensor.scalar_type() != torch::kFloat || !tensor.device().is_cpu()) {
      throw std::logic_error("flat parameters are float32 on the CPU");
    }
    entries_.push_back({parameter.key(), total, tensor.sizes().vec(), tensor.numel()});
    total += tensor.numel();
  }
  values_ = torch::empty({total});
  gradients_ = torch::zeros({total});
  auto named = module.named_parameters();
  for (const Entry& entry : entries_) {
    torch::Tensor parameter = named[entry.name];
    const auto view = [&](const torch::Tensor& flat) {
      return flat.narrow(0, entry.offset, entry.size).view(entry.shape);
    };
    view(values_).copy_(parameter);
    parameter.set_data(view(values_));
    parameter.mutable_grad() = view(gradients_);
  }
}

const FlatParameters::Entry& FlatParameters::entry(const std::string& name) const {
  for (const Entry& entry : entries_) {
    if (entry.name == name) return entry;
  }
  throw std::logic_error("the model has no parameter '" + name + "'");
}

std::string FlatParameters::first_non_finite() const {
  const auto& ops = kernels::linear_ops<float>();
  if (std::isfinite(ops.max_abs(values(), size()))) return {};
  for (const Entry& entry : entries_) {
    if (!std::isfinite(ops.max_abs(values() + entry.offset, entry.size))) return entry.name;
  }
  return {};
}

}  // namespace nru::training
