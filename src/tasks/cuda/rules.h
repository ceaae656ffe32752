// The kernels behind DeviceBatches: each rule of a task (recall_rules.h, image_rule.h, lane_rule.h)
// has one that fills a batch by it. C++17: nvcc reads this file too.
#pragma once

#include <cstdint>

#include "kernels/cuda/device.h"
#include "tasks/image_rule.h"
#include "tasks/lane_rule.h"
#include "tasks/recall_rules.h"

namespace nru::tasks {

// The arrays of a DeviceBatch.
struct DeviceArrays {
  int steps, rows;
  std::int32_t* symbols;
  float* dense;
  std::int32_t* targets;
  float* weights;
};

struct DeviceImages {
  ImageRule rule;
  int size;                     // pixels of an image
  const unsigned char* pixels;  // [images, size], in the order of the steps that show them
  const std::int32_t* labels;   // [images]
};

struct DeviceText {
  LaneRule rule;
  const std::int32_t* tokens;
};

void queue_batch(const CopyRule& rule, const std::uint64_t* index, const DeviceArrays& to,
                 kernels::cuda::StreamHandle stream);
void queue_batch(const CopyVariableRule& rule, const std::uint64_t* index, const DeviceArrays& to,
                 kernels::cuda::StreamHandle stream);
void queue_batch(const DenoiseRule& rule, const std::uint64_t* index, const DeviceArrays& to,
                 kernels::cuda::StreamHandle stream);
void queue_batch(const DeviceImages& images, const std::uint64_t* index, const DeviceArrays& to,
                 kernels::cuda::StreamHandle stream);
void queue_batch(const DeviceText& text, const std::uint64_t* index, const DeviceArrays& to,
                 kernels::cuda::StreamHandle stream);

}  // namespace nru::tasks
