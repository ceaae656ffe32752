// Data files plain and gzipped, damaged and too large.
#include "support/data_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gzip.h"
#include "test_files.h"

namespace nru {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

std::string noise(std::size_t size) {
  std::string bytes(size, '\0');
  std::uint32_t state = 1;
  for (char& byte : bytes) byte = static_cast<char>((state = state * 1664525u + 1013904223u) >> 24);
  return bytes;
}

class DataFile : public testing::Test {
 protected:
  std::string read(const std::string& bytes, std::uint64_t most = kLargestDataFile) {
    test::write_bytes(directory_ / "file", bytes);
    return read_data_file(directory_ / "file", "IDX file", most);
  }
  std::string error(const std::string& bytes, std::uint64_t most = kLargestDataFile) {
    return test::error_of([&] { read(bytes, most); });
  }
  std::string name() const { return (directory_ / "file").string(); }

  test::TempDir directory_;
};

TEST_F(DataFile, PlainAndGzippedContentIsTheSame) {
  // Incompressible, far more compressible than the first guess of the room, and empty.
  for (const std::string& content : {noise(300'000), std::string(5'000'000, 'x'), std::string()}) {
    EXPECT_EQ(read(content), content);
    EXPECT_TRUE(is_gzip(test::gzip(content)));
    EXPECT_EQ(read(test::gzip(content)), content);
  }
}

TEST_F(DataFile, SeveralMembersAreOneContent) {
  EXPECT_EQ(read(test::gzip("first ") + test::gzip("") + test::gzip("second")), "first second");
}

TEST_F(DataFile, EveryCutIsNoticed) {
  const std::string whole = test::gzip(noise(500));
  for (std::size_t size = 2; size < whole.size(); ++size) {
    ASSERT_EQ(test::error_of([&] { gunzip(whole.substr(0, size), "cut.gz"); }),
              "cut.gz: damaged gzip file at byte " + std::to_string(size) +
                  ": it ends too early; get the file again");
  }
}

TEST_F(DataFile, DamageIsNoticed) {
  std::string damaged = test::gzip(std::string(1000, 'a') + noise(1000));
  damaged[damaged.size() - 6] ^= 1;  // in the checksum
  EXPECT_THAT(error(damaged),
              AllOf(StartsWith(name() + ": damaged gzip file"), HasSubstr("incorrect data check")));
  std::string header = test::gzip("text");
  header[2] = 7;  // compression method
  EXPECT_THAT(error(header), HasSubstr("unknown compression method"));
  EXPECT_THAT(error(test::gzip("text") + "more"),
              HasSubstr("damaged gzip file at byte 24: something follows the compressed data"));
}

TEST_F(DataFile, SizeIsCapped) {
  const std::string content(100'000, 'x');
  EXPECT_EQ(read(content, 100'000), content);
  EXPECT_EQ(read(test::gzip(content), 100'000), content);
  EXPECT_THAT(error(content, 99'999), StartsWith(name() + ": holds more than 99999 bytes"));
  EXPECT_THAT(error(test::gzip(content), 99'999), StartsWith(name() + ": holds more than 99999"));
  EXPECT_THAT(error(test::gzip(std::string(50'000'000, '\0')), 1'000'000),
              HasSubstr("holds more than 1000000 bytes"));
}

TEST_F(DataFile, AMissingFileIsNamed) {
  EXPECT_THAT(test::error_of([&] { read_data_file(directory_ / "none", "IDX file"); }),
              AllOf(HasSubstr("cannot read the IDX file "), HasSubstr("none: No such file")));
}

}  // namespace
}  // namespace nru
