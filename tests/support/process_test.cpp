// Other programs: found, run, heard, missing.
#include "support/process.h"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include "environment.h"
#include "test_files.h"

namespace nru {
namespace {

TEST(Process, CodeAndErrorsOfAProgram) {
  const ProcessResult result =
      run_program({"sh", "-c", "echo not shown; echo \"$1\" >&2; exit 3", "sh", "a  'b' $c"});
  EXPECT_EQ(result.code, 3);
  EXPECT_EQ(result.errors, "a  'b' $c\n");  // words arrive as they are
  EXPECT_EQ(run_program({"true"}).code, 0);
  EXPECT_EQ(run_program({"sh", "-c", "kill -TERM $$"}).code, -SIGTERM);
}

TEST(Process, RunsInAFolderAndReadsNothing) {
  const test::TempDir directory;
  EXPECT_EQ(run_program({"sh", "-c", "cat; pwd >&2"}, directory.path()).errors,
            std::filesystem::canonical(directory.path()).string() + "\n");
  EXPECT_EQ(run_program({"true"}, directory / "none").code, 127);
}

TEST(Process, TicksMeanwhile) {
  int ticks = 0;
  run_program({"sleep", "0.3"}, {}, [&] { ++ticks; });
  EXPECT_GE(ticks, 1);
}

TEST(Process, FindsWhatAShellWouldRun) {
  const test::TempDir directory;
  test::write_bytes(directory / "tool", "#!/bin/sh\nexit 7\n");
  std::filesystem::create_directory(directory / "folder");
  const test::Environment path("PATH", (directory.path().string() + ":/bin:/usr/bin").c_str());
  EXPECT_EQ(find_program("tool"), std::nullopt);  // not executable
  EXPECT_EQ(find_program("folder"), std::nullopt);
  std::filesystem::permissions(directory / "tool", std::filesystem::perms::owner_all);
  EXPECT_EQ(find_program("tool"), directory / "tool");
  EXPECT_EQ(run_program({"tool"}).code, 7);
  EXPECT_EQ(run_program({"no-such-program"}).code, 127);
}

}  // namespace
}  // namespace nru
