// Whole files in, byte for byte; unreadable ones named with the reason.
#include "support/text_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test_files.h"

namespace nru {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(TextFile, ReadsEveryByte) {
  const test::TempDir directory;
  std::string content(200'000, 'x');  // more than one read
  content[70'000] = '\0';
  content.back() = '\n';
  for (const std::string& text : {std::string(), content}) {
    test::write_bytes(directory / "file", text);
    EXPECT_EQ(read_text_file(directory / "file", "file"), text);
  }
}

TEST(TextFile, NamesWhatCannotBeRead) {
  const test::TempDir directory;
  EXPECT_THAT(test::error_of([&] { read_text_file(directory / "none", "result"); }),
              AllOf(HasSubstr("cannot read the result "), HasSubstr("none: No such file")));
  EXPECT_THAT(test::error_of([&] { read_text_file(directory.path(), "result"); }),
              HasSubstr("Is a directory"));
}

}  // namespace
}  // namespace nru
