// The shape of a batch that a task promises is the shape of the batch that it makes.
#include <gtest/gtest.h>

#include "task_cases.h"

namespace nru::tasks {
namespace {

TEST(BatchShape, IsThatOfTheBatch) {
  test::TaskCases().for_each([](const Task& task, Split split, std::uint64_t index) {
    const BatchShape shape = task.shape(split, index);
    Batch batch = test::used_batch();
    task.make_batch(split, index, batch);
    EXPECT_EQ(shape, batch.shape());
    EXPECT_EQ(shape, task.Task::shape(split, index));  // what a task has that does not know better
    const std::size_t positions = static_cast<std::size_t>(shape.steps) * shape.rows;
    EXPECT_EQ(batch.targets.size(), positions);
    EXPECT_EQ(batch.symbols.size(), shape.dense_width == 0 ? positions : 0);
    EXPECT_EQ(batch.dense.size(), shape.dense_width * positions);
    EXPECT_EQ(batch.weights.size(), shape.weighted ? positions : 0);
  });
}

TEST(BatchShape, TellsApart) {
  Batch batch;
  batch.steps = 3;
  batch.rows = 2;
  batch.targets.resize(6);
  batch.dense.resize(24);
  batch.weights.assign(6, 0.5f);
  batch.loss_from = 1;
  batch.carry = Carry::memory;
  const BatchShape shape = batch.shape();
  EXPECT_EQ(shape.dense_width, 4);
  EXPECT_TRUE(shape.weighted);
  EXPECT_EQ(shape.weight_sum, 2);
  EXPECT_EQ(shape.carry, Carry::memory);
  Batch other = test::used_batch();
  other.reshape(shape);
  EXPECT_EQ(other.dense.size(), 24u);
  EXPECT_TRUE(other.symbols.empty());
  other.weights = batch.weights;
  EXPECT_EQ(other.shape(), shape);
  other.carry = Carry::nothing;
  EXPECT_NE(other.shape(), shape);
}

}  // namespace
}  // namespace nru::tasks
