// All parameters of a model in one buffer, and all gradients in another: clipping and Adam are one
// pass over memory, and a checkpoint is a few tensors.
#pragma once

#include <nru/torch.h>

#include <cstdint>
#include <string>
#include <vector>

namespace nru::training {

class FlatParameters {
 public:
  struct Entry {
    std::string name;
    std::int64_t offset = 0;
    std::vector<std::int64_t> shape;
    std::int64_t size = 0;
  };

  // Moves the module's parameters (float32, CPU) into the buffer: the module's tensors and their
  // .grad become views of it.
  explicit FlatParameters(torch::nn::Module& module);

  std::int64_t size() const { return values_.numel(); }
  float* values() { return values_.data_ptr<float>(); }
  const float* values() const { return values_.data_ptr<float>(); }
  float* gradients() { return gradients_.data_ptr<float>(); }
  const std::vector<Entry>& entries() const { return entries_; }
  // Throws std::logic_error when there is no such parameter.
  const Entry& entry(const std::string& name) const;

  // The name of the first parameter with a non-finite value; empty if all are finite.
  std::string first_non_finite() const;

 private:
  torch::Tensor values_, gradients_;
  std::vector<Entry> entries_;
};

}  // namespace nru::training
