// IDX files, whole and broken in every way the format allows.
#include "tasks/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../support/gzip.h"
#include "data_files.h"

namespace nru::tasks {
namespace {

using test::big_endian;
using test::idx_images;
using test::idx_labels;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class Idx : public testing::Test {
 protected:
  // Images of 2 x 3 pixels.
  LabelledImages read(const std::string& images, const std::string& labels) {
    test::write_bytes(directory_ / "images", images);
    test::write_bytes(directory_ / "labels", labels);
    return read_idx(directory_ / "images", directory_ / "labels", 2, 3);
  }
  // The message after the file's name.
  std::string error(const std::string& images, const std::string& labels, const char* file) {
    const std::string message = test::error_of([&] { read(images, labels); });
    const std::string name = (directory_ / file).string() + ": ";
    EXPECT_THAT(message, StartsWith(name));
    return message.size() > name.size() ? message.substr(name.size()) : message;
  }

  test::TempDir directory_;
  const std::string pixels_ = "abcdefghijk\xff";
  const std::string images_ = idx_images(2, pixels_, 2, 3);
  const std::string labels_ = idx_labels({'\x09', '\x00'});
};

TEST_F(Idx, ReadsPlainAndGzippedFiles) {
  for (const bool packed : {false, true}) {
    const auto images =
        packed ? read(test::gzip(images_), test::gzip(labels_)) : read(images_, labels_);
    EXPECT_EQ(images.count, 2);
    EXPECT_EQ(images.pixels, pixels_);
    EXPECT_EQ(images.image(1)[0], 'g');
    EXPECT_EQ(images.image(1)[5], 255);
    EXPECT_THAT(images.labels, ElementsAre(9, 0));
  }
}

TEST_F(Idx, WrongMagicNumbers) {
  EXPECT_EQ(error(labels_ + "12345678", labels_, "images"),
            "byte 0: expected the magic number 0x00000803 of IDX images, found 0x00000801; get the "
            "file again");
  EXPECT_THAT(error(images_, images_, "labels"),
              StartsWith("byte 0: expected the magic number 0x00000801 of IDX labels, found "
                         "0x00000803"));
}

TEST_F(Idx, ShortHeaders) {
  EXPECT_THAT(error("", labels_, "images"),
              StartsWith("byte 0: expected a header of 16 bytes, found the end of the file"));
  EXPECT_THAT(error(images_.substr(0, 15), labels_, "images"), StartsWith("byte 15: expected"));
  EXPECT_THAT(error(images_, labels_.substr(0, 7), "labels"),
              StartsWith("byte 7: expected a header of 8 bytes"));
}

TEST_F(Idx, LengthsThatDoNotFitTheSizes) {
  EXPECT_THAT(
      error(images_.substr(0, 27), labels_, "images"),
      StartsWith("byte 27: expected 28 bytes in all, for 2 images of 2 x 3, found 27 bytes"));
  EXPECT_THAT(
      error(images_ + "x", labels_, "images"),
      StartsWith("byte 28: expected 28 bytes in all, for 2 images of 2 x 3, found 29 bytes"));
  EXPECT_THAT(error(images_, labels_.substr(0, 9), "labels"),
              StartsWith("byte 9: expected 10 bytes in all, for 2 labels, found 9 bytes"));
  EXPECT_THAT(error(images_, labels_ + "x", "labels"), StartsWith("byte 10: expected 10 bytes"));
}

TEST_F(Idx, OtherSizesAndCounts) {
  EXPECT_THAT(error(idx_images(2, pixels_, 3, 2), labels_, "images"),
              StartsWith("byte 8: expected images of 2 x 3 pixels, found height 3"));
  EXPECT_THAT(error(idx_images(2, pixels_, 2, 4), labels_, "images"),
              StartsWith("byte 12: expected images of 2 x 3 pixels, found width 4"));
  EXPECT_THAT(error(idx_images(0, "", 2, 3), labels_, "images"),
              StartsWith("byte 4: expected a number of images from 1 to 2147483647, found 0"));
  EXPECT_THAT(error(idx_images(0xFFFFFFFF, pixels_, 2, 3), labels_, "images"),
              StartsWith("byte 4: expected a number of images"));
  // The largest number there is must not overflow the length.
  EXPECT_THAT(error(idx_images(0x7FFFFFFF, pixels_, 2, 3), labels_, "images"),
              StartsWith("byte 28: expected 12884901898 bytes in all"));
}

TEST_F(Idx, CountsThatDisagree) {
  const std::string message = error(images_, idx_labels({'\1', '\2', '\3'}), "labels");
  EXPECT_THAT(message, StartsWith("byte 4: expected 2 labels, one for each image of "));
  EXPECT_THAT(message, HasSubstr("images, found 3; get the file again"));
}

TEST_F(Idx, LabelsAboveNine) {
  EXPECT_THAT(error(images_, idx_labels({'\x09', '\x0a'}), "labels"),
              StartsWith("byte 9: expected a label from 0 to 9, found 10"));
  EXPECT_THAT(error(images_, idx_labels({'\xff', '\x00'}), "labels"),
              StartsWith("byte 8: expected a label from 0 to 9, found 255"));
}

}  // namespace
}  // namespace nru::tasks
