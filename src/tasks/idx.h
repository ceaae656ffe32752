// Images and labels in IDX, the format of MNIST (and of its many relatives): a magic number, the
// sizes as big-endian 32-bit integers, then one byte per pixel or label.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace nru::tasks {

struct LabelledImages {
  std::int32_t count = 0;
  int height = 0, width = 0;
  std::string pixels;                // [count, height*width], bytes 0..255
  std::vector<std::int32_t> labels;  // [count], 0..9

  // The pixels of one image.
  const unsigned char* image(std::int64_t index) const {
    return reinterpret_cast<const unsigned char*>(pixels.data()) + index * height * width;
  }
};

// Reads a pair of files, plain or gzipped. Throws nru::Error with file, byte (of the unpacked
// content), what was expected and what was found, for a wrong magic number, images that are not
// height x width, a length that does not fit the sizes, counts that disagree, labels above 9, and
// files without any image.
LabelledImages read_idx(const std::filesystem::path& images, const std::filesystem::path& labels,
                        int height, int width);

}  // namespace nru::tasks
