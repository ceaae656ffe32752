#include "tasks/numpy_random.h"

#include <bit>
#include <numeric>
#include <utility>

namespace nru::tasks {

std::uint32_t NumpyRandomState::up_to(std::uint32_t most) {
  const std::uint32_t mask = most == 0 ? 0 : ~std::uint32_t{0} >> std::countl_zero(most);
  std::uint32_t value = 0;
  do {
    value = static_cast<std::uint32_t>(twister_()) & mask;
  } while (value > most);
  return value;
}

std::vector<std::int32_t> NumpyRandomState::permutation(std::int32_t n) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  for (std::uint32_t i = static_cast<std::uint32_t>(n); i-- > 1;) {
    std::swap(order[i], order[up_to(i)]);
  }
  return order;
}

}  // namespace nru::tasks
