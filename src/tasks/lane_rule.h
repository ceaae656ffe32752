// A text cut into equal, contiguous lanes that are read side by side in windows; on the host and on
// a device alike (C++17: nvcc reads it too).
#pragma once

#include <cstdint>

#include "kernels/philox.h"

namespace nru::tasks {

struct LaneRule {
  std::int64_t length;  // of a lane
  std::int64_t window;  // steps

  // In one lane: every token but the first is predicted.
  NRU_HOST_DEVICE std::int64_t predictions() const { return length - 1; }
  NRU_HOST_DEVICE std::int64_t windows() const { return (predictions() + window - 1) / window; }

  // Windows follow each other in every pass over the text.
  NRU_HOST_DEVICE std::int64_t begin(std::uint64_t index) const {
    return static_cast<std::int64_t>(index % static_cast<std::uint64_t>(windows())) * window;
  }
  // The token that a window shows in this step of this lane; its target is the next one.
  NRU_HOST_DEVICE std::int64_t at(std::uint64_t index, std::int64_t step, int lane) const {
    return lane * length + begin(index) + step;
  }
};

}  // namespace nru::tasks
