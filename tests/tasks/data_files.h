// Small data sets that the tests write, and the real ones where this machine has them.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "../support/test_files.h"
#include "tasks/data_sets.h"
#include "tasks/registry.h"

namespace nru::test {

inline std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
  return bytes;
}

inline std::string idx_images(std::uint32_t count, const std::string& pixels,
                              std::uint32_t height = 28, std::uint32_t width = 28) {
  return big_endian(0x803) + big_endian(count) + big_endian(height) + big_endian(width) + pixels;
}

inline std::string idx_labels(const std::string& labels) {
  return big_endian(0x801) + big_endian(static_cast<std::uint32_t>(labels.size())) + labels;
}

// Pixel p of image i is (7 i + p) % 256 and its label i % 10.
inline unsigned char small_pixel(int image, int pixel) {
  return static_cast<unsigned char>(7 * image + pixel);
}

inline void write_small_images(const std::filesystem::path& images,
                               const std::filesystem::path& labels, int count) {
  std::string pixels, digits;
  for (int image = 0; image < count; ++image) {
    for (int p = 0; p < 28 * 28; ++p) pixels += static_cast<char>(small_pixel(image, p));
    digits += static_cast<char>(image % 10);
  }
  write_bytes(images, idx_images(static_cast<std::uint32_t>(count), pixels));
  write_bytes(labels, idx_labels(digits));
}

// `folder`/mnist with so many training and test images.
inline void write_small_mnist(const std::filesystem::path& folder, int train, int test) {
  std::filesystem::create_directories(folder / "mnist");
  const auto in = [&](const char* name) { return folder / "mnist" / name; };
  write_small_images(in("train-images-idx3-ubyte"), in("train-labels-idx1-ubyte"), train);
  write_small_images(in("t10k-images-idx3-ubyte"), in("t10k-labels-idx1-ubyte"), test);
}

// The directory with the real data set: $NRU_TEST_DATA, else the data directory. Nothing where a
// file is missing.
inline std::optional<std::filesystem::path> real_data(const std::string& set) {
  const char* given = std::getenv("NRU_TEST_DATA");
  const std::filesystem::path directory = given != nullptr ? given : "";
  if (!tasks::has_data_set(tasks::find_data_set(set), directory)) return std::nullopt;
  return directory;
}

inline std::unique_ptr<tasks::Task> make_task(const std::string& name, int batch_size,
                                              const OptionMap& options, std::uint64_t seed = 1,
                                              int lag = 0) {
  const tasks::TaskInfo& info = tasks::find_task(name);
  tasks::TaskSettings settings;
  settings.seed = seed;
  settings.batch_size = batch_size;
  settings.lag = lag;
  settings.options = resolve_options(info.options, options, "task " + name);
  return info.make(settings);
}

inline tasks::Batch batch_of(const tasks::Task& task, tasks::Split split, std::uint64_t index) {
  tasks::Batch batch;
  task.make_batch(split, index, batch);
  return batch;
}

// A batch full of what an earlier, different one may have left.
inline tasks::Batch used_batch() {
  tasks::Batch batch;
  batch.symbols = {9, 9};
  batch.dense = {1.0f, 2.0f, 3.0f};
  batch.weights = {0.5f};
  batch.targets = {7};
  batch.loss_from = 9;
  batch.baseline = 3;
  batch.carry = tasks::Carry::memory;
  return batch;
}

inline bool same_batch(const tasks::Batch& a, const tasks::Batch& b) {
  return a.steps == b.steps && a.rows == b.rows && a.symbols == b.symbols && a.dense == b.dense &&
         a.targets == b.targets && a.loss_from == b.loss_from && a.weights == b.weights &&
         a.baseline == b.baseline && a.carry == b.carry;
}

}  // namespace nru::test
