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
// update sees a full batch, and each epoch leaves out others. Training may leave pixels dark at
// random (dropout), which the experiments did not.
#include <fmt/format.h>
#include <nru/error.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>

#include "support/sha256.h"
#include "tasks/accuracy.h"
#include "tasks/cuda/rule_batches.h"
#include "tasks/data_sets.h"
#include "tasks/idx.h"
#include "tasks/image_rule.h"
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

  BatchShape shape(Split split, std::uint64_t index) const override {
    if (split != Split::train && index >= static_cast<std::uint64_t>(evaluation_batches(split)))
      throw std::out_of_range("no such batch in this split");
    BatchShape shape;
    shape.steps = kSteps;
    shape.rows = rows_;
    if (split != Split::train) {
      const std::int64_t begin = static_cast<std::int64_t>(index) * kEvaluationRows;
      shape.rows =
          static_cast<int>(std::min<std::int64_t>(kEvaluationRows, size_of(split) - begin));
    }
    shape.loss_from = kSteps - 1;
    shape.dense_width = 1;
    shape.weight_sum = shape.counted_positions();
    return shape;
  }

  void make_batch(Split split, std::uint64_t index, Batch& batch) const override {
    batch.reshape(shape(split, index));
    std::fill(batch.targets.begin(), batch.targets.end(), 0);
    std::int32_t* const digits = batch.targets.data() + (kSteps - 1) * batch.rows;
    const ImageRule rule = this->rule(split);
    for (int row = 0; row < batch.rows; ++row) {
      const std::uint32_t image = rule.image(index, row);
      fill_row(rule, index, pixels_of(image), row, batch);
      digits[row] = digit_of(image);
    }
  }

#ifdef NRU_HAS_CUDA
  // The pixels of each image go there in the order of the steps.
  std::unique_ptr<DeviceBatches> device_batches() const override {
    const auto images = static_cast<std::uint32_t>(train_.count + test_.count);
    std::vector<unsigned char> pixels;
    std::vector<std::int32_t> digits;
    pixels.reserve(static_cast<std::size_t>(images) * kPixels);
    for (std::uint32_t image = 0; image < images; ++image) {
      for (const int pixel : pixel_at_step_) pixels.push_back(pixels_of(image)[pixel]);
      digits.push_back(digit_of(image));
    }
    auto pixels_there = on_device(pixels);
    auto digits_there = on_device(digits);
    const auto there = [&](Split split) {
      return DeviceImages{rule(split), kPixels, pixels_there.data(), digits_there.data()};
    };
    const std::array rules{there(Split::train), there(Split::valid), there(Split::test)};
    return make_rule_batches(rules, std::move(pixels_there), std::move(digits_there));
  }
#endif

  Score score(const Batch& batch, std::span<const std::int32_t> predictions) const override {
    return count_right(batch, predictions);
  }

  std::map<std::string, std::string> metadata() const override {
    Sha256 images;
    for (const LabelledImages* all : {&train_, &test_}) {
      images.update(all->pixels);
      const auto labels = std::as_bytes(std::span(all->labels));
      images.update({reinterpret_cast<const char*>(labels.data()), labels.size()});
    }
    return {{"images", images.hex_digest()}};
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
        order_(settings.seed, static_cast<std::uint32_t>(train_images())),
        dropout_(settings.seed, get<double>(settings.options, "dropout")) {
    if (!(dropout_.probability >= 0 && dropout_.probability < 1)) {
      throw Error(
          fmt::format("task_options.dropout {} is not a share of pixels; choose 0 (none) or "
                      "more, and less than 1",
                      get<double>(settings.options, "dropout")));
    }
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

  ImageRule rule(Split split) const {
    const bool train = split == Split::train;
    const auto first = train ? 0 : split == Split::valid ? train_images() : train_.count;
    return {order_,
            train ? dropout_ : PixelDropout(0, 0),
            train,
            static_cast<std::uint32_t>(first),
            static_cast<std::uint32_t>(train ? rows_ : kEvaluationRows),
            static_cast<std::uint64_t>(evaluation_batches(split))};
  }

  // Of an image by its number in the order train, valid, test.
  const unsigned char* pixels_of(std::uint32_t image) const {
    const std::uint32_t count = static_cast<std::uint32_t>(train_.count);
    return image < count ? train_.image(image_order_[image]) : test_.image(image - count);
  }
  std::int32_t digit_of(std::uint32_t image) const {
    const std::uint32_t count = static_cast<std::uint32_t>(train_.count);
    return image < count ? train_.labels[image_order_[image]] : test_.labels[image - count];
  }

  void fill_row(const ImageRule& rule, std::uint64_t index, const unsigned char* pixels, int row,
                Batch& batch) const {
    float* to = batch.dense.data() + row;  // [T,B]
    for (int step = 0; step < kPixels; ++step) {
      *to = rule.brightness(pixels[pixel_at_step_[step]], index, row, step);
      to += batch.rows;
    }
    *to = 0;
  }

  int rows_;
  LabelledImages train_, test_;
  EpochOrder order_;
  PixelDropout dropout_;                   // of training batches
  std::vector<std::int32_t> image_order_;  // train images, then valid images
  std::array<int, kPixels> pixel_at_step_;
};

TaskInfo psmnist_info() {
  TaskInfo info;
  info.name = "psmnist";
  info.summary = "sequential MNIST: recognise a digit from its pixels in a fixed random order";
  info.options = {{"permute", true, "false: the pixels in their own order, row by row", {}},
                  {"dropout", 0.0, "share of the pixels that training leaves dark, at random", {}},
                  {"data", std::string(), "where MNIST lies; empty: the data directory", {}}};
  info.paths = {"data"};
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
