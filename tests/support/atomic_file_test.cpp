// Atomic files: what is written is there in full or not at all, and failures leave no trace.
#include "support/atomic_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>
#include <vector>

#include "test_files.h"

namespace nru {
namespace {

namespace fs = std::filesystem;
using test::count_files;
using test::error_of;
using test::read_bytes;
using test::TempDir;
using test::write_bytes;
using testing::AllOf;
using testing::HasSubstr;

TEST(AtomicFile, CreatesAndReplaces) {
  const TempDir dir;
  write_file_atomically(dir / "a.txt", "first, and longer");
  EXPECT_EQ(read_bytes(dir / "a.txt"), "first, and longer");
  write_file_atomically(dir / "a.txt", "second");
  EXPECT_EQ(read_bytes(dir / "a.txt"), "second");
  write_file_atomically(dir / "a.txt", "");
  EXPECT_EQ(read_bytes(dir / "a.txt"), "");
  EXPECT_EQ(count_files(dir.path()), 1u);  // no temporary file stays
}

TEST(AtomicFile, JoinsPieces) {
  const TempDir dir;
  const std::string one = "one", three = "three";
  const std::vector<std::span<const std::byte>> pieces = {
      std::as_bytes(std::span(one)), {}, std::as_bytes(std::span(three))};
  write_file_atomically(dir / "a", pieces);
  EXPECT_EQ(read_bytes(dir / "a"), "onethree");
  write_file_atomically(dir / "a", pieces[2]);
  EXPECT_EQ(read_bytes(dir / "a"), "three");
}

TEST(AtomicFile, BareNameMeansTheCurrentDirectory) {
  const TempDir dir;
  const fs::path before = fs::current_path();
  fs::current_path(dir.path());
  write_file_atomically("bare", "x");
  fs::current_path(before);
  EXPECT_EQ(read_bytes(dir / "bare"), "x");
}

TEST(AtomicFile, OverwritesWhatAKilledProcessLeft) {
  const TempDir dir;
  write_bytes(dir / ".a.tmp", std::string(1000, 'x'));
  write_file_atomically(dir / "a", "short");
  EXPECT_EQ(read_bytes(dir / "a"), "short");
  EXPECT_EQ(count_files(dir.path()), 1u);
}

TEST(AtomicFile, DoesNotWriteThroughALinkInPlaceOfTheTemporaryFile) {
  const TempDir dir;
  write_bytes(dir / "victim", "untouched");
  fs::create_symlink(dir / "victim", dir / ".a.tmp");
  EXPECT_THAT(error_of([&] { write_file_atomically(dir / "a", "x"); }),
              HasSubstr("remove the link"));
  EXPECT_EQ(read_bytes(dir / "victim"), "untouched");
}

TEST(AtomicFile, ALinkStaysAndWhatItLeadsToIsReplaced) {
  const TempDir dir;
  fs::create_directory(dir / "elsewhere");
  write_bytes(dir / "elsewhere/target", "old");
  fs::create_symlink("elsewhere/target", dir / "link");
  write_file_atomically(dir / "link", "new");
  EXPECT_TRUE(fs::is_symlink(dir / "link"));
  EXPECT_EQ(read_bytes(dir / "elsewhere/target"), "new");
}

TEST(AtomicFile, ADeviceIsWrittenToAndNotReplaced) {
  const TempDir dir;
  fs::create_symlink("/dev/null", dir / "link");
  write_file_atomically(dir / "link", "gone");
  EXPECT_TRUE(fs::is_symlink(dir / "link"));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST(AtomicFile, ACheckLeavesAllAsItIs) {
  const TempDir dir;
  write_bytes(dir / "old", "old");
  fs::create_symlink("old", dir / "link");
  fs::create_symlink("nowhere", dir / "dangling");
  for (const char* name : {"old", "link", "dangling", "new"}) check_can_be_written(dir / name);
  check_can_be_written("/dev/full");
  EXPECT_EQ(read_bytes(dir / "old"), "old");
  EXPECT_TRUE(fs::is_symlink(dir / "link") && fs::is_symlink(dir / "dangling"));
  EXPECT_EQ(count_files(dir.path()), 3u);
  EXPECT_THAT(error_of([&] { check_can_be_written(dir / "missing/file"); }),
              HasSubstr("create the directory first"));
  EXPECT_THAT(error_of([&] { check_can_be_written(dir.path()); }),
              HasSubstr("choose a path that is not a directory"));
}

TEST(AtomicFile, MissingDirectory) {
  const TempDir dir;
  const fs::path path = dir.path() / "no" / "such" / "file";
  EXPECT_EQ(error_of([&] { write_file_atomically(path, "x"); }),
            "cannot write " + path.string() +
                ": No such file or directory; create the directory first or choose another path");
}

TEST(AtomicFile, DirectoryThatIsAFile) {
  const TempDir dir;
  write_bytes(dir / "file", "x");
  const fs::path path = dir.path() / "file" / "below";
  EXPECT_THAT(error_of([&] { write_file_atomically(path, "x"); }),
              AllOf(HasSubstr(path.string()), HasSubstr("Not a directory")));
}

TEST(AtomicFile, TargetThatIsADirectory) {
  const TempDir dir;
  fs::create_directory(dir / "sub");
  EXPECT_THAT(error_of([&] { write_file_atomically(dir / "sub", "x"); }),
              AllOf(HasSubstr((dir / "sub").string()), HasSubstr("Is a directory")));
  EXPECT_EQ(count_files(dir.path()), 1u);  // the temporary file is gone
  EXPECT_THAT(error_of([&] { write_file_atomically(dir / "sub/", "x"); }),
              HasSubstr("Is a directory"));
}

TEST(AtomicFile, NameTooLong) {
  const TempDir dir;
  EXPECT_THAT(error_of([&] { write_file_atomically(dir / std::string(255, 'n'), "x"); }),
              HasSubstr("choose a shorter name"));
}

// Runs `body` in a child process, whose limits and kills are its own; its exit code, or -signal.
template <class Body>
int in_child(Body body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(AtomicFile, WriteThatFailsHalfWayKeepsTheOldContent) {
  const TempDir dir;
  write_file_atomically(dir / "a", "old");
  // A file size limit makes write() stop short and then fail, as a full disk does, for any user.
  const int code = in_child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{10000, 10000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const std::string message =
        error_of([&] { write_file_atomically(dir / "a", std::string(1 << 20, 'n')); });
    return message.find((dir / "a").string() + ": File too large; ") != std::string::npos ? 0 : 1;
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(read_bytes(dir / "a"), "old");
  EXPECT_EQ(count_files(dir.path()), 1u);
}

TEST(AtomicFile, FullDisk) {
  const TempDir dir;
  constexpr int kCannotMount = 77;
  const int code = in_child([&] {
    // A tiny file system, visible to this child alone and gone with it.
    const bool own = ::unshare(CLONE_NEWNS) == 0 || ::unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0;
    if (!own || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", dir.path().c_str(), "tmpfs", 0, "size=64k") != 0) {
      return kCannotMount;
    }
    write_file_atomically(dir / "a", "old");
    const std::string message =
        error_of([&] { write_file_atomically(dir / "a", std::string(1 << 20, 'n')); });
    if (message != "cannot write " + (dir / "a").string() +
                       ": No space left on device; free some space or choose another directory") {
      return 1;
    }
    return read_bytes(dir / "a") == "old" && count_files(dir.path()) == 1 ? 0 : 2;
  });
  if (code == kCannotMount) GTEST_SKIP() << "no right to mount; the test above covers the path";
  EXPECT_EQ(code, 0);
}

TEST(AtomicFile, UnwritableDirectory) {
  const TempDir dir;
  write_file_atomically(dir / "a", "old");
  ::chmod(dir.path().c_str(), 0555);
  const int code = in_child([&] {
    // Root may write anywhere: become nobody in the child.
    if (::getuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) return 2;
    const std::string message = error_of([&] { write_file_atomically(dir / "a", "new"); });
    return message.find("Permission denied; choose a directory you may write to") !=
                   std::string::npos
               ? 0
               : 1;
  });
  ::chmod(dir.path().c_str(), 0755);
  EXPECT_EQ(code, 0);
  EXPECT_EQ(read_bytes(dir / "a"), "old");
}

TEST(AtomicFile, WritersOfOneTargetTakeTurns) {
  const TempDir dir;
  const auto content = [](int writer) {
    return std::string(static_cast<std::size_t>(5000 * (writer + 1)),
                       static_cast<char>('a' + writer));
  };
  std::vector<pid_t> children;
  for (int writer = 0; writer < 4; ++writer) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (int i = 0; i < 50; ++i) {
        if (!error_of([&] { write_file_atomically(dir / "a", content(writer)); }).empty()) {
          ::_exit(1);
        }
        const std::string seen = read_bytes(dir / "a");
        if (seen.empty() || seen != content(seen[0] - 'a')) ::_exit(2);
      }
      ::_exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(count_files(dir.path()), 1u);
}

}  // namespace
}  // namespace nru
