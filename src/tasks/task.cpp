// The parts of batches and scores that are the same for every task.
#include "tasks/task.h"

#include <cstddef>
#include <numeric>

#include "tasks/cuda/device_batches.h"

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
  if (weights.empty()) return counted_positions();
  const auto first = weights.begin() + static_cast<std::ptrdiff_t>(loss_from) * rows;
  return std::accumulate(first, weights.end(), 0.0);
}

BatchShape Batch::shape() const {
  BatchShape shape{*this};
  if (!dense.empty()) shape.dense_width = static_cast<int>(dense.size() / targets.size());
  shape.weighted = !weights.empty();
  shape.weight_sum = weight_sum();
  return shape;
}

void Batch::reshape(const BatchShape& shape) {
  static_cast<BatchFrame&>(*this) = shape;
  const std::size_t positions = static_cast<std::size_t>(steps) * rows;
  symbols.resize(shape.dense_width == 0 ? positions : 0);
  dense.resize(positions * shape.dense_width);
  targets.resize(positions);
  weights.resize(shape.weighted ? positions : 0);
}

BatchShape Task::shape(Split split, std::uint64_t index) const {
  Batch batch;
  make_batch(split, index, batch);
  return batch.shape();
}

std::unique_ptr<DeviceBatches> Task::device_batches() const { return nullptr; }

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
