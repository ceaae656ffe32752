// Which files a data set has, where they are looked for, and how they are known.
#include "tasks/data_sets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../support/environment.h"
#include "../support/gzip.h"
#include "data_files.h"
#include "support/sha256.h"

namespace nru::tasks {
namespace {

using test::Environment;
using testing::HasSubstr;

TEST(DataDirectory, FirstVariableThatSaysIt) {
  const Environment home("HOME", "/home/someone");
  const Environment xdg("XDG_DATA_HOME", "/xdg");
  {
    const Environment own("NRU_DATA", "relative/or/not");
    EXPECT_EQ(data_directory(), "relative/or/not");
  }
  const Environment none("NRU_DATA", nullptr);
  EXPECT_EQ(data_directory(), "/xdg/nru");
  const Environment invalid("XDG_DATA_HOME", "relative");
  EXPECT_EQ(data_directory(), "/home/someone/.local/share/nru");
}

TEST(DataSets, AreKnownByName) {
  EXPECT_EQ(find_data_set("mnist").files.size(), 4u);
  EXPECT_EQ(find_data_set("ptb").files.size(), 3u);
  EXPECT_EQ(test::error_of([] { find_data_set("minst"); }),
            "unknown data set 'minst'; did you mean 'mnist'?");
  for (const DataSet& set : data_sets()) {
    for (const DataFile& file : set.files) EXPECT_EQ(file.sha256.size(), 64u) << file.name;
  }
}

TEST(DataSets, FilesUnderTheirSeveralNames) {
  const test::TempDir directory;
  const DataFile& labels = find_data_set("mnist").files[1];
  EXPECT_EQ(find_data_file(labels, directory.path()), std::nullopt);
  std::filesystem::create_directory(directory / "train-labels-idx1-ubyte");  // not a file
  EXPECT_EQ(find_data_file(labels, directory.path()), std::nullopt);
  for (const char* name : {"train-labels.idx1-ubyte.gz", "train-labels.idx1-ubyte",
                           "train-labels-idx1-ubyte.gz"}) {  // later ones come first
    test::write_bytes(directory / name, "x");
    EXPECT_EQ(find_data_file(labels, directory.path()), directory / name);
  }
}

TEST(DataSets, FolderOfItsOwnOrTheGivenOne) {
  const DataSet& set = find_data_set("ptb");
  const test::TempDir directory;
  EXPECT_EQ(data_folder(set, directory.path()), directory / "ptb");
  test::write_bytes(directory / "ptb.valid.txt", "x");
  EXPECT_EQ(data_folder(set, directory.path()), directory.path());
  std::filesystem::create_directory(directory / "ptb");
  EXPECT_EQ(data_folder(set, directory.path()), directory / "ptb");
  const Environment own("NRU_DATA", directory.path().c_str());
  EXPECT_EQ(data_folder(set, ""), directory / "ptb");
}

TEST(DataSets, AMissingFileIsNamedWithTheCommandThatGetsIt) {
  const test::TempDir directory;
  const Environment own("NRU_DATA", directory.path().c_str());
  EXPECT_EQ(test::error_of([] { locate_data_set(find_data_set("mnist"), ""); }),
            "no train-images-idx3-ubyte in " + (directory / "mnist").string() +
                "; get it with: nru data get mnist");
}

TEST(DataSets, CheckTellsOkMissingAndWrong) {
  const test::TempDir directory;
  const std::string content = "t h e \n ";
  DataSet set{"ptb", "", {{"a.txt", {"words.txt"}, content.size(), sha256_hex(content)}}};
  const auto check = [&] { return check_data_file(set, set.files[0], directory.path()); };
  EXPECT_EQ(check().state, DataState::missing);

  test::write_bytes(directory / "words.txt", " the \n");
  EXPECT_EQ(check().state, DataState::ok);
  EXPECT_EQ(check().path, directory / "words.txt");
  test::write_bytes(directory / "a.txt.gz", test::gzip(content));
  EXPECT_EQ(check().state, DataState::ok);
  EXPECT_EQ(check().path, directory / "a.txt.gz");

  test::write_bytes(directory / "a.txt", "t h o \n ");
  EXPECT_EQ(check().state, DataState::wrong);
  EXPECT_EQ(check().reason, "the content is not the published one");
  test::write_bytes(directory / "a.txt", "t h \n ");
  EXPECT_EQ(check().reason, "6 bytes instead of 8");
  test::write_bytes(directory / "a.txt", test::gzip(content).substr(0, 20));
  EXPECT_EQ(check().state, DataState::wrong);
  EXPECT_THAT(check().reason, HasSubstr("damaged gzip file"));
}

class RealData : public testing::TestWithParam<const char*> {};

TEST_P(RealData, IsThePublishedOne) {
  const auto directory = test::real_data(GetParam());
  if (!directory) GTEST_SKIP() << "not here; get it with: nru data get " << GetParam();
  const DataSet& set = find_data_set(GetParam());
  for (const DataFile& file : set.files) {
    const CheckedFile checked = check_data_file(set, file, data_folder(set, *directory));
    EXPECT_EQ(checked.state, DataState::ok) << file.name << ": " << checked.reason;
  }
}

INSTANTIATE_TEST_SUITE_P(DataSets, RealData, testing::Values("mnist", "ptb"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace nru::tasks
