#include "support/remove_tree.h"

#include <gtest/gtest.h>

#include "test_files.h"

namespace nru {
namespace {

namespace fs = std::filesystem;

TEST(RemoveTree, TakesFoldersWithAllInThem) {
  const test::TempDir directory;
  fs::create_directories(directory / "tree/a/b");
  test::write_bytes(directory / "tree/a/b/file", "x");
  test::write_bytes(directory / "tree/.hidden", "x");
  remove_tree(directory / "tree");
  EXPECT_FALSE(fs::exists(directory / "tree"));
  EXPECT_TRUE(fs::exists(directory.path()));
}

TEST(RemoveTree, TakesLinksButNotWhatTheyPointTo) {
  const test::TempDir directory;
  fs::create_directories(directory / "kept");
  test::write_bytes(directory / "kept/file", "x");
  fs::create_directories(directory / "tree");
  fs::create_directory_symlink(directory / "kept", directory / "tree/link");
  remove_tree(directory / "tree");
  EXPECT_FALSE(fs::exists(directory / "tree"));
  EXPECT_EQ(test::read_bytes(directory / "kept/file"), "x");
}

TEST(RemoveTree, TakesFilesAndForgivesWhatIsNotThere) {
  const test::TempDir directory;
  test::write_bytes(directory / "file", "x");
  remove_tree(directory / "file");
  remove_tree(directory / "file");
  EXPECT_FALSE(fs::exists(directory / "file"));
}

}  // namespace
}  // namespace nru
