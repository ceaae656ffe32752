// The parts of batches and scores that are the same for every task.
#include "tasks/task.h"

#include <cstddef>
#include <numeric>

namespace nru::tasks {

const char* to_string(Split split) {
  switch (split) {
    case Split::train:
      return "train";
    case Split::valid:
      return "valid";
    case Split::test:
      return "test";
  }
  return "?";
}

double Batch::weight_sum() const {
  if (weights.empty()) return static_cast<double>(steps - loss_from) * rows;
  const auto first = weights.begin() + static_cast<std::ptrdiff_t>(loss_from) * rows;
  return std::accumulate(first, weights.end(), 0.0);
}

Score& Score::operator+=(const Score& other) {
  right += other.right;
  counted += other.counted;
  exact += other.exact;
  sequences += other.sequences;
  return *this;
}

std::optional<double> Score::accuracy() const {
  if (counted == 0) return std::nullopt;
  return static_cast<double>(right) / static_cast<double>(counted);
}

std::optional<double> Score::exact_rate() const {
  if (sequences == 0) return std::nullopt;
  return static_cast<double>(exact) / static_cast<double>(sequences);
}

}  // namespace nru::tasks
