// A disk that fills up in the middle of a run: exit code 2, and nothing that was saved is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <cerrno>
#include <cstring>

#include "../support/test_files.h"
#include "program.h"
#include "runs.h"

namespace nru::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Arguments long_run(const fs::path& out) {
  return small_run() + Arguments{"--updates",           "2000",  "--set", "log_every=1", "--set",
                                 "checkpoint_every=40", "--out", out};
}

void expect_full(const Finished& finished) {
  EXPECT_EQ(finished.code, 2) << finished.err;
  EXPECT_EQ(lines_in(finished.err), 1) << finished.err;
  EXPECT_THAT(finished.err, StartsWith("nru: cannot write "));
}

TEST(FullDisk, FilesThatCannotGrow) {
  const TempDir directory;
  const fs::path run = directory / "run";
  Surroundings small;
  small.largest_file = 40'000;  // many checkpoints fit, the whole metrics.csv does not
  expect_full(nru(long_run(run), small));
  ASSERT_TRUE(fs::exists(run / "checkpoint.safetensors"));
  EXPECT_EQ(nru({"eval", run, "--weights", "last"}).code, 0);

  ASSERT_EQ(nru({"train", "--quiet", "--resume", "--out", run}).code, 0);
  ASSERT_EQ(nru(long_run(directory / "whole")).code, 0);
  EXPECT_EQ(difference(directory / "whole", run), "");
}

TEST(FullDisk, ACheckpointThatDoesNotFit) {
  const TempDir directory;
  const fs::path run = directory / "run";
  Surroundings small;
  small.largest_file = 3'000;  // less than a checkpoint
  expect_full(nru(small_run() + Arguments{"--out", run}, small));
  EXPECT_FALSE(fs::exists(run / "checkpoint.safetensors"));
  for (const auto& entry : fs::directory_iterator(run))
    EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
  ASSERT_EQ(nru({"train", "--quiet", "--resume", "--out", run}).code, 0);
}

// A file system of its own, gone at the end of the scope.
class SmallDisk {
 public:
  explicit SmallDisk(const fs::path& place) : place_(place) {
    fs::create_directory(place);
    error_ = ::mount("nru-test", place.c_str(), "tmpfs", 0, "size=128k") == 0 ? 0 : errno;
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  ~SmallDisk() {
    if (error_ == 0) ::umount2(place_.c_str(), MNT_DETACH);
  }
  int error() const { return error_; }

 private:
  fs::path place_;
  int error_;
};

TEST(FullDisk, AFileSystemWithoutRoom) {
  const TempDir directory;
  const SmallDisk disk(directory / "disk");
  if (disk.error() != 0) GTEST_SKIP() << "cannot mount a tmpfs: " << std::strerror(disk.error());
  const fs::path run = directory / "disk/run";
  const Finished full = nru(long_run(run));
  expect_full(full);
  EXPECT_THAT(full.err, HasSubstr("free some space"));
  ASSERT_TRUE(fs::exists(run / "checkpoint.safetensors"));
  EXPECT_EQ(nru({"eval", run, "--weights", "last"}).code, 0);

  fs::copy(run, directory / "larger", fs::copy_options::recursive);
  ASSERT_EQ(nru({"train", "--quiet", "--resume", "--out", directory / "larger"}).code, 0);
  ASSERT_EQ(nru(long_run(directory / "whole")).code, 0);
  EXPECT_EQ(difference(directory / "whole", directory / "larger"), "");
}

}  // namespace
}  // namespace nru::test
