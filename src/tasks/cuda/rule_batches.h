// DeviceBatches from the rules of a task and the device memory that they point to.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "tasks/cuda/device_batches.h"
#include "tasks/cuda/rules.h"

namespace nru::tasks {

template <class Rule, class... Memory>
class RuleBatches : public DeviceBatches {
 public:
  // One rule per split.
  explicit RuleBatches(const std::array<Rule, 3>& rules, Memory... memory)
      : rules_(rules), memory_(std::move(memory)...) {}

  void make(Split split, const std::uint64_t* index, const DeviceBatch& to,
            kernels::cuda::StreamHandle stream) const override {
    const DeviceArrays arrays{to.shape.steps, to.shape.rows, to.symbols,
                              to.dense,       to.targets,    to.weights};
    queue_batch(rules_[static_cast<std::size_t>(split)], index, arrays, stream);
  }

 private:
  std::array<Rule, 3> rules_;
  std::tuple<Memory...> memory_;
};

// `memory`: what the rules point to.
template <class Rule, class... Memory>
std::unique_ptr<DeviceBatches> make_rule_batches(const std::array<Rule, 3>& rules,
                                                 Memory... memory) {
  return std::make_unique<RuleBatches<Rule, Memory...>>(rules, std::move(memory)...);
}

// A copy of these values on the current device.
template <class T>
kernels::cuda::Buffer<T> on_device(const std::vector<T>& values) {
  const kernels::cuda::Stream stream;
  kernels::cuda::Buffer<T> buffer;
  kernels::cuda::upload(values.data(), values.size() * sizeof(T), buffer.require(values.size()),
                        stream.handle());
  kernels::cuda::wait(stream.handle());
  return buffer;
}

}  // namespace nru::tasks
