#include "kernels/nru.h"

#include <cmath>
#include <stdexcept>
#include <string>

namespace nru::kernels {
namespace {

int exact_root(int n) {
  const int root = static_cast<int>(std::lround(std::sqrt(static_cast<double>(n))));
  return root * root == n ? root : 0;
}

}  // namespace

int NruShape::rank() const {
  const int root = exact_root(heads * memory);
  if (root == 0)
    throw std::invalid_argument("heads * memory_size must be a square, got " +
                                std::to_string(heads * memory));
  return root;
}

int NruShape::direction_size() const {
  switch (direction) {
    case NruDirection::shared:
      return 2 * rank();
    case NruDirection::per_head: {
      const int root = exact_root(memory);
      if (root == 0)
        throw std::invalid_argument("memory_size must be a square, got " + std::to_string(memory));
      return 2 * heads * root;
    }
    case NruDirection::full:
      return heads * memory;
  }
  return 0;
}

bool NruShape::factored_write() const {
  return !general_write && !multiply_memory && direction == NruDirection::shared &&
         rank() % heads == 0;
}

}  // namespace nru::kernels
