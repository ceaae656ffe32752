// Sequential MNIST on small files: layout, splits, orders, purity; and the published split and
// permutation on the real ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "data_files.h"
#include "tasks/idx.h"
#include "tasks/numpy_random.h"

namespace nru::tasks {
namespace {

using test::batch_of;
using test::same_batch;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kSteps = 785;

class PsMnist : public testing::Test {
 protected:
  PsMnist() { test::write_small_mnist(directory_.path(), 60, 1003); }

  std::unique_ptr<Task> make(int batch_size, std::uint64_t seed = 1, bool permute = true) const {
    return test::make_task("psmnist", batch_size,
                           {{"data", directory_.path().string()}, {"permute", permute}}, seed);
  }

  std::unique_ptr<Task> make_with(int batch_size, double dropout, std::uint64_t seed = 1) const {
    return test::make_task("psmnist", batch_size,
                           {{"data", directory_.path().string()}, {"dropout", dropout}}, seed);
  }

  // The number of the image in a row, from its unpermuted first pixels.
  static int image_in(const Batch& batch, int row) {
    // Pixel 0 is 7 i mod 256 and 183 * 7 = 1 mod 256.
    const int first = static_cast<int>(batch.dense[row] * 255.0f + 0.5f);
    return first * 183 % 256;
  }
  static std::vector<int> images_in(const Task& task, Split split, std::uint64_t index) {
    const Batch batch = batch_of(task, split, index);
    std::vector<int> images;
    for (int row = 0; row < batch.rows; ++row) images.push_back(image_in(batch, row));
    return images;
  }

  test::TempDir directory_;
};

// A run that goes on must not do so with other images of the same number and size.
TEST_F(PsMnist, OtherImagesAreToldApart) {
  const auto images = [&] { return make(4)->metadata().at("images"); };
  const std::string before = images();
  for (const char* name : {"train-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}) {
    const auto path = directory_ / "mnist" / name;
    const std::string content = test::read_bytes(path);
    std::string changed = content;
    changed.back() ^= 1;
    test::write_bytes(path, changed);
    EXPECT_NE(images(), before) << name;
    test::write_bytes(path, content);
  }
  EXPECT_EQ(images(), before);
}

TEST_F(PsMnist, LayoutWithTheFixedPermutation) {
  NumpyRandomState random(50);
  const auto images = random.permutation(60);
  const auto pixels = random.permutation(784);
  for (const bool permute : {true, false}) {
    const Batch batch = batch_of(*make(4, 1, permute), Split::valid, 0);
    ASSERT_EQ(batch.steps, kSteps);
    ASSERT_EQ(batch.rows, 10);
    ASSERT_EQ(batch.dense.size(), 785u * 10);
    ASSERT_EQ(batch.targets.size(), 785u * 10);
    EXPECT_TRUE(batch.symbols.empty() && batch.weights.empty());
    EXPECT_EQ(batch.loss_from, 784);
    EXPECT_EQ(batch.carry, Carry::nothing);
    EXPECT_EQ(batch.weight_sum(), 10);
    for (int row = 0; row < 10; ++row) {
      const int image = images[50 + row];
      for (int t = 0; t < 784; ++t) {
        const int pixel = permute ? pixels[t] : t;
        ASSERT_EQ(batch.dense[t * 10 + row], test::small_pixel(image, pixel) / 255.0f)
            << "step " << t << " row " << row;
      }
      EXPECT_EQ(batch.dense[784 * 10 + row], 0);
      EXPECT_EQ(batch.targets[784 * 10 + row], image % 10);
    }
  }
}

TEST_F(PsMnist, SizesOfTheTask) {
  const auto task = make(7);
  EXPECT_EQ(task->input_size(), 1);
  EXPECT_EQ(task->embedding_size(), 0);
  EXPECT_EQ(task->output_size(), 10);
  EXPECT_EQ(task->updates_per_epoch(), 7);  // of 50 images, one is left out
  EXPECT_EQ(task->evaluation_batches(Split::train), 7);
  EXPECT_EQ(task->evaluation_batches(Split::valid), 1);
  EXPECT_EQ(task->evaluation_batches(Split::test), 3);
  const TaskInfo& info = find_task("psmnist");
  EXPECT_EQ(info.chrono_t_max({}), 785);
  EXPECT_EQ(info.widths, (Widths{1, 0, 10}));
  EXPECT_EQ(info.select_by, SelectBy::accuracy);
  EXPECT_EQ(info.defaults.epochs, 100);
  EXPECT_EQ(info.defaults.batch_size, 100);
}

TEST_F(PsMnist, AnEpochSeesEveryTrainingImageOnce) {
  NumpyRandomState random(50);
  const auto order = random.permutation(60);
  const std::multiset<int> expected(order.begin(), order.begin() + 50);
  std::set<std::vector<int>> orders;
  for (const std::uint64_t seed : {1, 2}) {
    const auto task = make(10, seed, false);
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      std::vector<int> seen;
      for (std::uint64_t i = 0; i < 5; ++i) {
        for (const int image : images_in(*task, Split::train, 5 * epoch + i)) seen.push_back(image);
      }
      EXPECT_EQ(std::multiset<int>(seen.begin(), seen.end()), expected);
      orders.insert(seen);
    }
  }
  EXPECT_EQ(orders.size(), 6u);
}

TEST_F(PsMnist, FullBatchesLeaveOutAnotherRemainderEachEpoch) {
  const auto task = make(30, 1, false);  // one update an epoch, 20 images left out
  std::set<int> seen;
  for (std::uint64_t epoch = 0; epoch < 20; ++epoch) {
    const auto images = images_in(*task, Split::train, epoch);
    EXPECT_EQ(std::set<int>(images.begin(), images.end()).size(), 30u);
    seen.insert(images.begin(), images.end());
  }
  EXPECT_EQ(seen.size(), 50u);
}

TEST_F(PsMnist, AnEvaluationSeesEveryImageOnceWhateverTheSeed) {
  for (const std::uint64_t seed : {1, 2}) {
    const auto task = make(10, seed, false);
    std::map<int, int> digits;
    int rows = 0;
    for (int i = 0; i < 3; ++i) {
      const Batch batch = batch_of(*task, Split::test, i);
      for (int row = 0; row < batch.rows; ++row, ++rows) {
        // 1,003 images of 256 different ones: the order is that of the file.
        ASSERT_EQ(image_in(batch, row), rows % 256);
        ++digits[batch.targets[784 * batch.rows + row]];
      }
    }
    EXPECT_EQ(rows, 1003);
    EXPECT_EQ(digits[0], 101);
    EXPECT_EQ(digits[9], 100);
  }
  EXPECT_THROW(batch_of(*make(10), Split::test, 3), std::out_of_range);
}

TEST_F(PsMnist, ABatchDependsOnNothingButItsCoordinates) {
  const auto task = make(10);
  std::map<int, Batch> first;
  for (const int i : {0, 3, 7, 12}) first[i] = batch_of(*task, Split::train, i);
  const Batch valid = batch_of(*task, Split::valid, 0);
  Batch reused = test::used_batch();
  for (const int i : {12, 0, 7, 3}) {
    task->make_batch(Split::train, i, reused);
    EXPECT_TRUE(same_batch(reused, first[i])) << i;
    EXPECT_TRUE(same_batch(batch_of(*make(10), Split::train, i), first[i])) << i;
  }
  task->make_batch(Split::valid, 0, reused);
  EXPECT_TRUE(same_batch(reused, valid));
}

TEST_F(PsMnist, DropoutLeavesPixelsOfTrainingDark) {
  const auto plain = make(50), dropped = make_with(50, 0.25), other = make_with(50, 0.25, 2);
  int bright = 0, dark = 0;
  std::map<int, Batch> batches;
  for (const int i : {0, 1}) {
    const Batch want = batch_of(*plain, Split::train, i), got = batch_of(*dropped, Split::train, i);
    EXPECT_EQ(got.targets, want.targets);
    for (std::size_t at = 0; at < want.dense.size(); ++at) {
      if (want.dense[at] == 0) {
        ASSERT_EQ(got.dense[at], 0);
      } else if (got.dense[at] == 0) {
        ++dark;
      } else {
        ASSERT_FLOAT_EQ(got.dense[at], want.dense[at] / 0.75f);
        ++bright;
      }
    }
    batches[i] = got;
  }
  // 78,000 pixels: three standard deviations are 0.005.
  EXPECT_NEAR(static_cast<double>(dark) / (dark + bright), 0.25, 0.005);
  EXPECT_TRUE(same_batch(batch_of(*dropped, Split::train, 1), batches[1]));
  // Other pixels in the next batch, in the row beside it and with another seed. Images hold few
  // dark pixels of their own, so one choice for both would agree nearly everywhere; two do at
  // 0.625.
  const auto agreement = [&](const Batch& beside, int row) {
    int same = 0;
    for (int t = 0; t < 784; ++t)
      same += (batches[0].dense[t * 50] == 0) == (beside.dense[t * 50 + row] == 0);
    return same / 784.0;
  };
  EXPECT_GT(agreement(batches[0], 0), 0.99);
  EXPECT_LT(agreement(batches[1], 0), 0.75);
  EXPECT_LT(agreement(batches[0], 1), 0.75);
  EXPECT_LT(agreement(batch_of(*other, Split::train, 0), 0), 0.75);
  for (const Split split : {Split::valid, Split::test}) {
    EXPECT_TRUE(same_batch(batch_of(*dropped, split, 0), batch_of(*plain, split, 0)));
  }
}

TEST_F(PsMnist, ScoresTheLastStepOnly) {
  const auto task = make(10);
  const Batch batch = batch_of(*task, Split::train, 0);
  std::vector<std::int32_t> predictions(batch.targets.size(), 0);
  std::copy(batch.targets.end() - 10, batch.targets.end(), predictions.end() - 10);
  EXPECT_EQ(task->score(batch, predictions), (Score{10, 10, 0, 0}));
  predictions.back() = (predictions.back() + 1) % 10;
  EXPECT_EQ(task->score(batch, predictions), (Score{9, 10, 0, 0}));
  predictions.pop_back();
  EXPECT_THROW(task->score(batch, predictions), std::invalid_argument);
}

TEST_F(PsMnist, ImpossibleSettings) {
  for (const int batch_size : {0, 51}) {
    EXPECT_THAT(test::error_of([&] { make(batch_size); }),
                HasSubstr("batch_size " + std::to_string(batch_size) +
                          " is not possible with 50 training images; choose 1 to 50"));
  }
  for (const double dropout : {-0.1, 1.0}) {
    EXPECT_THAT(test::error_of([&] { make_with(10, dropout); }),
                HasSubstr("choose 0 (none) or more, and less than 1"));
  }
  test::write_small_mnist(directory_.path(), 5, 10);
  EXPECT_THAT(test::error_of([&] { make(1); }), HasSubstr("5 images are too few"));
}

TEST_F(PsMnist, MissingDataNamesTheCommandThatGetsIt) {
  std::filesystem::remove(directory_.path() / "mnist" / "t10k-labels-idx1-ubyte");
  const std::string message = test::error_of([&] { make(10); });
  EXPECT_EQ(message, "no t10k-labels-idx1-ubyte in " + (directory_.path() / "mnist").string() +
                         "; get it with: nru data get mnist --dir " + directory_.path().string());
}

TEST(PsMnistGolden, LabelsOfTheFirstTrainingImages) {
  const auto directory = test::real_data("mnist");
  if (!directory) GTEST_SKIP() << "no MNIST here; get it with: nru data get mnist";
  const auto paths = locate_data_set(find_data_set("mnist"), *directory);
  const LabelledImages images = read_idx(paths[0], paths[1], 28, 28);
  const auto order = NumpyRandomState(50).permutation(60'000);
  std::vector<int> labels;
  for (int i = 0; i < 10; ++i) labels.push_back(images.labels[order[i]]);
  EXPECT_THAT(labels, ElementsAre(9, 7, 6, 2, 2, 5, 6, 3, 6, 3));
}

TEST(PsMnistGolden, PublishedSplitOnTheRealImages) {
  const auto directory = test::real_data("mnist");
  if (!directory) GTEST_SKIP() << "no MNIST here; get it with: nru data get mnist";
  const auto task =
      test::make_task("psmnist", 100, {{"data", directory->string()}, {"permute", false}});
  EXPECT_EQ(task->updates_per_epoch(), 500);
  EXPECT_EQ(task->evaluation_batches(Split::valid), 20);
  EXPECT_EQ(task->evaluation_batches(Split::test), 20);
  std::vector<int> valid(10, 0), test(10, 0), train(10, 0);
  const auto count = [&](Split split, std::int64_t batches, std::vector<int>& classes) {
    Batch batch;
    for (std::int64_t i = 0; i < batches; ++i) {
      task->make_batch(split, i, batch);
      for (int row = 0; row < batch.rows; ++row)
        ++classes[batch.targets[batch.targets.size() - batch.rows + row]];
    }
  };
  count(Split::valid, 20, valid);
  count(Split::test, 20, test);
  count(Split::train, 500, train);
  EXPECT_THAT(valid, ElementsAre(981, 1095, 1038, 1040, 983, 873, 994, 1032, 971, 993));
  EXPECT_THAT(test, ElementsAre(980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009));
  for (int digit = 0; digit < 10; ++digit) {
    const int all[] = {5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949};
    EXPECT_EQ(train[digit], all[digit] - valid[digit]);
  }
}

}  // namespace
}  // namespace nru::tasks
