// Accuracy over positions: what most tasks count.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <stdexcept>

#include "tasks/task.h"

namespace nru::tasks {

// Right predictions among the positions that count in the loss (Batch::loss_from on).
inline Score count_right(const Batch& batch, std::span<const std::int32_t> predictions) {
  if (predictions.size() != batch.targets.size()) {
    throw std::invalid_argument(
        fmt::format("{} predictions for {} targets", predictions.size(), batch.targets.size()));
  }
  Score score;
  const std::size_t first = static_cast<std::size_t>(batch.loss_from) * batch.rows;
  for (std::size_t at = first; at < predictions.size(); ++at) {
    ++score.counted;
    score.right += predictions[at] == batch.targets[at];
  }
  return score;
}

}  // namespace nru::tasks
