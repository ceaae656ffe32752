// torch.autocast and layers: a layer computes in the type of its parameters.
#pragma once

#include <nru/layer.h>
#include <nru/torch.h>

namespace nru {

// While it lives, autocast leaves torch's operations alone. Where it was on for the parameters'
// device, what it may have cast in front of the layer is cast back to the parameters' type: the
// kernels, and states that are carried on, need one type.
class OutsideAutocast {
 public:
  explicit OutsideAutocast(const torch::Tensor& parameter)
      : type_(parameter.scalar_type()), was_on_(is_on(parameter.device())) {}

  torch::Tensor operator()(const torch::Tensor& t) const {
    // As autocast does, doubles and integers are left as they are (and refused if they do not fit).
    const bool castable = was_on_ && t.defined() && t.is_floating_point();
    return castable && t.scalar_type() != torch::kDouble ? t.to(type_) : t;
  }
  State operator()(const State& state) const {
    State cast;
    for (const torch::Tensor& part : state.parts) cast.parts.push_back((*this)(part));
    return cast;
  }

 private:
  // at::autocast's own question has another name in every other torch; this is its answer.
  static bool is_on(const torch::Device& device) {
    using c10::DispatchKey;
    if (!device.is_cpu() && !device.is_cuda()) return false;
    return !c10::impl::tls_is_dispatch_key_excluded(device.is_cpu() ? DispatchKey::AutocastCPU
                                                                    : DispatchKey::AutocastCUDA);
  }

  torch::Dtype type_;
  bool was_on_;  // before the guard, which turns it off
  c10::impl::ExcludeDispatchKeyGuard off_{c10::autocast_dispatch_keyset};
};

}  // namespace nru
