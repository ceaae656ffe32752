// Which image a row of a batch shows and how bright its pixels are, on the host and on a device
// alike (C++17: nvcc reads it too). Images are numbered in the order train, valid, test.
#pragma once

#include <cstdint>

#include "kernels/philox.h"
#include "tasks/epoch_order.h"

namespace nru::tasks {

// Pixels that are left dark at random, with this probability each; the others are brighter, so that
// the mean stays.
struct PixelDropout {
  kernels::Philox random;
  float probability;

  PixelDropout(std::uint64_t seed, double p)
      : random(seed, kernels::Stream::dropout), probability(static_cast<float>(p)) {}

  NRU_HOST_DEVICE float scale(std::uint64_t index, int row, int step) const {
    if (probability <= 0) return 1;
    const std::uint64_t element =
        static_cast<std::uint64_t>(row) << 32 | static_cast<unsigned>(step);
    return random.uniform_float(index, element) < probability ? 0.f : 1.f / (1.f - probability);
  }
};

struct ImageRule {
  EpochOrder order;
  PixelDropout dropout;
  bool shuffled;          // in the order of the epoch, else in their own
  std::uint32_t first;    // image of the split
  std::uint32_t rows;     // from one batch to the next
  std::uint64_t batches;  // of one pass

  NRU_HOST_DEVICE std::uint32_t image(std::uint64_t index, int row) const {
    const auto place = static_cast<std::uint32_t>(index % batches * rows + row);
    return first + (shuffled ? order.at(index / batches, place) : place);
  }
  NRU_HOST_DEVICE float brightness(unsigned char pixel, std::uint64_t index, int row,
                                   int step) const {
    return static_cast<float>(pixel) / 255.0f * dropout.scale(index, row, step);
  }
};

}  // namespace nru::tasks
