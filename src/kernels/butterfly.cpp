#include "kernels/butterfly.h"

#include <algorithm>
#include <bit>

namespace nru::kernels {

Butterfly::Butterfly(int size) : size_(size) {
  for (int d = static_cast<int>(std::bit_ceil(static_cast<unsigned>(size))) / 2; d > 0; d /= 2) {
    const int whole = size / (2 * d) * d, rest = std::max(0, size % (2 * d) - d);
    layers_.push_back({d, angles_, whole + rest});
    angles_ += whole + rest;
  }
}

}  // namespace nru::kernels
