// Files out of tar archives; damaged archives.
#include "support/tar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tar_file.h"
#include "test_files.h"

namespace nru {
namespace {

using testing::HasSubstr;

const std::string kArchive =
    test::tar_member("./data/", "", '5') + test::tar_member("./data/other.txt", "no") +
    test::tar_member("./data/link.txt", "", '2') +
    test::tar({{"top.txt", std::string(512, 'x')}, {"./data/file.txt", std::string(700, 'y')}});

TEST(Tar, FindsFilesByTheEndOfTheirPath) {
  EXPECT_EQ(find_in_tar(kArchive, "file.txt", "a"), std::string(700, 'y'));
  EXPECT_EQ(find_in_tar(kArchive, "data/file.txt", "a"), std::string(700, 'y'));
  EXPECT_EQ(find_in_tar(kArchive, "top.txt", "a"), std::string(512, 'x'));
  EXPECT_EQ(find_in_tar(kArchive, "other.txt", "a"), "no");
}

TEST(Tar, NothingElse) {
  EXPECT_EQ(find_in_tar(kArchive, "ile.txt", "a"), std::nullopt);   // not a whole name
  EXPECT_EQ(find_in_tar(kArchive, "link.txt", "a"), std::nullopt);  // not a regular file
  EXPECT_EQ(find_in_tar("", "file.txt", "a"), std::nullopt);
}

TEST(Tar, LongPathsAreInTwoFields) {
  std::string archive = test::tar_member("file.txt", "content");
  archive.replace(345, 4, "long");
  unsigned sum = 8 * ' ';
  for (int i = 0; i < 512; ++i)
    sum += i >= 148 && i < 156 ? 0 : static_cast<unsigned char>(archive[i]);
  archive.replace(148, 8, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
  EXPECT_EQ(find_in_tar(archive, "long/file.txt", "a"), "content");
}

TEST(Tar, DamageIsNamedWithTheByte) {
  const auto error = [](const std::string& archive) {
    return test::error_of([&] { find_in_tar(archive, "file.txt", "the.tgz"); });
  };
  EXPECT_EQ(error(kArchive.substr(0, 300)),
            "the.tgz: damaged tar archive at byte 0: it ends too early; get it again");
  // Two members without content and one of a block come before top.txt's content.
  EXPECT_THAT(error(kArchive.substr(0, 3000)), HasSubstr("at byte 2560: it ends too early"));
  std::string damaged = kArchive;
  damaged[512 + 3] ^= 1;
  EXPECT_THAT(error(damaged), HasSubstr("at byte 512: no header of a file"));
  EXPECT_THAT(error("<html>" + std::string(600, ' ')), HasSubstr("at byte 0: no header of a file"));
}

}  // namespace
}  // namespace nru
