// Sequential MNIST: read a digit one pixel at a time, in one fixed random order, and say which it
// is.
//
//   step     0 .. 783                784
//   input    pixel / 255, permuted   0
//   target   -                       the digit
//
// As in the published experiments, NumPy's generator with seed 50 first draws the order of the
// 60,000 images, of which the last 10,000 validate, and then the order of the pixels, whatever the
// run's seed. The order of the images within an epoch does depend on the seed. A batch size that
// does not divide the number of training images leaves out the end of the epoch's order: every
// update sees a full batch, and each epoch leaves out others.
#include <fmt/format.h>
#include <nru/error.h>

#include <algorithm>
#include <array>
#include <memory>
#include <stdexcept>

#include "tasks/accuracy.h"
#include "tasks/data_sets.h"
#include "tasks/epoch_order.h"
#include "tasks/idx.h"
#include "tasks/numpy_random.h"
#include "tasks/registry.h"

namespace nru::tasks {
namespace {

constexpr int kSide = 28;
constexpr int kPixels = kSide * kSide;
constexpr int kSteps = kPixels + 1;
constexpr int kDigits = 10;
constexpr std::uint32_t kNumpySeed = 50;
constexpr std::int32_t kValidShare = 6;  // one image in six validates: 10,000 of 60,000
// Rows of an evaluation batch. A pass over the weights serves more rows than in training, and the
// forward pass keeps nothing; 10,000 images are 20 such batches.
constexpr std::int32_t kEvaluationRows = 500;

class PsMnist : public Task {
 public:
  explicit PsMnist(const TaskSettings& settings) : PsMnist(settings, load(settings)) {}

  int input_size() const override { return 1; }
  int output_size() const override { return kDigits; }
  std::int64_t updates_per_epoch() const override { return train_images() / rows_; }
  std::int64_t evaluation_batches(Split split) const override {
    if (split == Split::train) return updates_per_epoch();
    return (size_of(split) + kEvaluationRows - 1) / kEvaluationRows;
  }

  void make_batch(Split split, std::uint64_t index, Batch& batch) const override {
    if (split != Split::train && index >= static_cast<std::uint64_t>(evaluation_batches(split)))
      throw std::out_of_range("no such batch in this split");
    const std::int64_t begin = static_cast<std::int64_t>(index) * kEvaluationRows;
    batch.steps = kSteps;
    batch.rows =
        split == Split::train
            ? rows_
            : static_cast<int>(std::min<std::int64_t>(kEvaluationRows, size_of(split) - begin));
    batch.symbols.clear();
    batch.weights.clear();
    batch.loss_from = kSteps - 1;
    batch.baseline = 0;
    batch.carry = Carry::nothing;
    const std::size_t positions = static_cast<std::size_t>(kSteps) * batch.rows;
    batch.dense.resize(positions);
    batch.targets.assign(positions, 0);

    const LabelledImages& images = split == Split::test ? test_ : train_;
    for (int row = 0; row < batch.rows; ++row) {
      const std::int64_t image = split == Split::train ? in_epoch(index, row)
                                 : split == Split::valid
                                     ? image_order_[train_images() + begin + row]
                                     : begin + row;
      fill_row(images.image(image), row, batch);
      batch.targets[positions - batch.rows + row] = images.labels[image];
    }
  }

  Score score(const Batch& batch, std::span<const std::int32_t> predictions) const override {
    return count_right(batch, predictions);
  }

 private:
  struct Images {
    LabelledImages train, test;
  };

  static Images load(const TaskSettings& settings) {
    const auto paths =
        locate_data_set(find_data_set("mnist"), get<std::string>(settings.options, "data"));
    return {read_idx(paths[0], paths[1], kSide, kSide), read_idx(paths[2], paths[3], kSide, kSide)};
  }

  PsMnist(const TaskSettings& settings, Images images)
      : rows_(settings.batch_size),
        train_(std::move(images.train)),
        test_(std::move(images.test)),
        order_(settings.seed, static_cast<std::uint32_t>(train_images())) {
    if (rows_ < 1 || rows_ > train_images()) {
      throw Error(
          fmt::format("batch_size {} is not possible with {} training images; choose 1 to "
                      "{}",
                      rows_, train_images(), train_images()));
    }
    if (size_of(Split::valid) < 1) {
      throw Error(fmt::format("{} images are too few to train and validate with; give {} or more",
                              train_.count, kValidShare));
    }
    NumpyRandomState random(kNumpySeed);
    image_order_ = random.permutation(train_.count);
    const auto permuted = random.permutation(kPixels);
    const bool permute = get<bool>(settings.options, "permute");
    for (int i = 0; i < kPixels; ++i) pixel_at_step_[i] = permute ? permuted[i] : i;
  }

  std::int32_t train_images() const { return train_.count - train_.count / kValidShare; }
  std::int32_t size_of(Split split) const {
    return split == Split::train   ? train_images()
           : split == Split::valid ? train_.count - train_images()
                                   : test_.count;
  }

  // The image that row `row` of update `index` sees.
  std::int32_t in_epoch(std::uint64_t index, int row) const {
    const auto per_epoch = static_cast<std::uint64_t>(updates_per_epoch());
    const auto place = static_cast<std::uint32_t>(index % per_epoch * rows_ + row);
    return image_order_[order_.at(index / per_epoch, place)];
  }

  void fill_row(const unsigned char* pixels, int row, Batch& batch) const {
    float* to = batch.dense.data() + row;  // [T,B]
    for (const int pixel : pixel_at_step_) {
      *to = static_cast<float>(pixels[pixel]) / 255.0f;
      to += batch.rows;
    }
    *to = 0;
  }

  int rows_;
  LabelledImages train_, test_;
  EpochOrder order_;
  std::vector<std::int32_t> image_order_;  // train images, then valid images
  std::array<int, kPixels> pixel_at_step_;
};

TaskInfo psmnist_info() {
  TaskInfo info;
  info.name = "psmnist";
  info.summary = "sequential MNIST: recognise a digit from its pixels in a fixed random order";
  info.options = {{"permute", true, "false: the pixels in their own order, row by row", {}},
                  {"data", std::string(), "where MNIST lies; empty: the data directory", {}}};
  info.defaults.epochs = 100;
  info.defaults.batch_size = 100;
  info.size_class = "psmnist";
  info.select_by = SelectBy::accuracy;
  info.widths = {1, 0, kDigits};
  info.chrono_t_max = [](const TaskSettings&) { return kSteps; };
  info.make = [](const TaskSettings& settings) { return std::make_unique<PsMnist>(settings); };
  return info;
}

const Registrar registrar(psmnist_info());

}  // namespace
}  // namespace nru::tasks
