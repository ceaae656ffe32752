// Reproducible values for the kernels' tests.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/philox.h"

namespace nru::kernels {

// Normal numbers; the same ones for float and double, up to rounding.
template <class T>
std::vector<T> random_values(std::size_t count, std::uint64_t seed, double scale = 1) {
  const Philox random(seed, Stream::initial_weights);
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<T>(scale * random.normal(0, i));
  return values;
}

}  // namespace nru::kernels
