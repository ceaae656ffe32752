// Which image a row of a batch shows and how bright its pixels are, on the host and on a device
// alike (C++17: nvcc reads it too). Images are numbered in the order train, valid, test.
#pragma once

#include <cstdint>

#include "tasks/epoch_order.h"

namespace nru::tasks {

struct ImageRule {
  EpochOrder order;
  bool shuffled;          // in the order of the epoch, else in their own
  std::uint32_t first;    // image of the split
  std::uint32_t rows;     // from one batch to the next
  std::uint64_t batches;  // of one pass

  NRU_HOST_DEVICE std::uint32_t image(std::uint64_t index, int row) const {
    const auto place = static_cast<std::uint32_t>(index % batches * rows + row);
    return first + (shuffled ? order.at(index / batches, place) : place);
  }
  NRU_HOST_DEVICE static float brightness(unsigned char pixel) {
    return static_cast<float>(pixel) / 255.0f;
  }
};

}  // namespace nru::tasks
