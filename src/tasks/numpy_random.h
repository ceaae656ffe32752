// NumPy's legacy generator, as far as the published psMNIST experiments used it:
// numpy.random.RandomState(seed).permutation(n). Which images are validation images and the order
// of the pixels come from it, so runs here and there see the same task.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace nru::tasks {

class NumpyRandomState {
 public:
  explicit NumpyRandomState(std::uint32_t seed) : twister_(seed) {}

  // 0..n-1 in random order; draws on where the last call stopped.
  std::vector<std::int32_t> permutation(std::int32_t n);

 private:
  // 0..most: bits under a mask of all ones, drawn until they are not too large.
  std::uint32_t up_to(std::uint32_t most);

  std::mt19937 twister_;  // the standard fixes the same seeding (Knuth's) and the same numbers
};

}  // namespace nru::tasks
