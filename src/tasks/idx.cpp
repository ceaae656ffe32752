#include "tasks/idx.h"

#include <fmt/format.h>
#include <nru/error.h>

#include <limits>
#include <string_view>

#include "support/data_file.h"

namespace nru::tasks {
namespace {

constexpr std::uint32_t kImagesMagic = 0x00000803;  // unsigned bytes, 3 dimensions
constexpr std::uint32_t kLabelsMagic = 0x00000801;  // unsigned bytes, 1 dimension
constexpr std::size_t kImagesHeader = 16;
constexpr std::size_t kLabelsHeader = 8;
constexpr int kLargestLabel = 9;

class IdxFile {
 public:
  IdxFile(const std::filesystem::path& path, std::size_t header)
      : name_(path.string()), bytes_(read_data_file(path, "IDX file")) {
    if (bytes_.size() < header) {
      fail(bytes_.size(), fmt::format("a header of {} bytes", header), "the end of the file");
    }
  }

  std::uint32_t number(std::size_t at) const {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < 4; ++i)
      value = value << 8 | static_cast<unsigned char>(bytes_[at + i]);
    return value;
  }

  void expect_magic(std::uint32_t magic, std::string_view kind) const {
    if (number(0) != magic) {
      fail(0, fmt::format("the magic number {:#010x} of IDX {}", magic, kind),
           fmt::format("{:#010x}", number(0)));
    }
  }

  void expect_length(std::size_t header, std::uint64_t content, std::string_view of_what) const {
    if (bytes_.size() - header != content) {
      fail(std::min<std::uint64_t>(bytes_.size(), header + content),
           fmt::format("{} bytes in all, for {}", header + content, of_what),
           fmt::format("{} bytes", bytes_.size()));
    }
  }

  [[noreturn]] void fail(std::size_t offset, const std::string& expected,
                         const std::string& found) const {
    throw Error(fmt::format("{}: byte {}: expected {}, found {}; get the file again", name_, offset,
                            expected, found));
  }

  const std::string& name() const { return name_; }
  std::string& bytes() { return bytes_; }

 private:
  std::string name_;
  std::string bytes_;  // unpacked
};

void read_images(IdxFile& file, LabelledImages& result) {
  file.expect_magic(kImagesMagic, "images");
  const std::uint32_t count = file.number(4);
  if (count < 1 || count > std::numeric_limits<std::int32_t>::max())
    file.fail(4, "a number of images from 1 to 2147483647", std::to_string(count));
  const int sizes[] = {result.height, result.width};
  for (std::size_t i = 0; i < 2; ++i) {
    const std::uint32_t found = file.number(8 + 4 * i);
    if (found != static_cast<std::uint32_t>(sizes[i])) {
      file.fail(8 + 4 * i, fmt::format("images of {} x {} pixels", result.height, result.width),
                fmt::format("{} {}", i == 0 ? "height" : "width", found));
    }
  }
  file.expect_length(
      kImagesHeader,
      std::uint64_t{count} * static_cast<std::uint64_t>(result.height * result.width),
      fmt::format("{} images of {} x {}", count, result.height, result.width));
  result.count = static_cast<std::int32_t>(count);
  result.pixels = std::move(file.bytes());
  result.pixels.erase(0, kImagesHeader);
}

void read_labels(IdxFile& file, const std::string& images_name, LabelledImages& result) {
  file.expect_magic(kLabelsMagic, "labels");
  const std::uint32_t count = file.number(4);
  if (count != static_cast<std::uint32_t>(result.count)) {
    file.fail(4, fmt::format("{} labels, one for each image of {}", result.count, images_name),
              std::to_string(count));
  }
  file.expect_length(kLabelsHeader, count, fmt::format("{} labels", count));
  result.labels.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const int label = static_cast<unsigned char>(file.bytes()[kLabelsHeader + i]);
    if (label > kLargestLabel)
      file.fail(kLabelsHeader + i, fmt::format("a label from 0 to {}", kLargestLabel),
                std::to_string(label));
    result.labels.push_back(label);
  }
}

}  // namespace

LabelledImages read_idx(const std::filesystem::path& images, const std::filesystem::path& labels,
                        int height, int width) {
  LabelledImages result;
  result.height = height;
  result.width = width;
  IdxFile image_file(images, kImagesHeader);
  read_images(image_file, result);
  IdxFile label_file(labels, kLabelsHeader);
  read_labels(label_file, image_file.name(), result);
  return result;
}

}  // namespace nru::tasks
