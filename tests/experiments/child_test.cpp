// Child processes. They run this test program, which does as its environment says.
#include "experiments/child.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "../support/environment.h"
#include "../support/test_files.h"
#include "experiments/cores.h"

namespace nru::experiments {
namespace {

using ::testing::HasSubstr;

// What a child does instead of testing, before main().
[[maybe_unused]] const bool kParent = [] {
  const char* asked = std::getenv("NRU_TEST_CHILD");
  if (asked == nullptr) return true;
  const std::string what = asked;
  if (what == "sleep") std::this_thread::sleep_for(std::chrono::minutes(5));
  std::string text;
  for (const int core : allowed_cores()) text += " " + std::to_string(core);
  std::printf("cores%s.\n", text.c_str());
  std::printf("group %s\n", ::getpgrp() == ::getpid() ? "own" : "shared");
  std::fflush(stdout);
  ::_exit(what == "fail" ? 7 : 0);
}();

Child child(const char* what, const std::filesystem::path& log,
            const std::vector<int>& cores = allowed_cores()) {
  const test::Environment as_said("NRU_TEST_CHILD", what);
  return Child({}, log, cores);
}

Ended end_of(Child& child) {
  for (;;) {
    if (const auto ended = child.ended()) return *ended;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST(Child, RunsOnItsCoresInAGroupOfItsOwnAndLogs) {
  const test::TempDir folder;
  const int core = allowed_cores().back();
  Child one = child("print", folder / "a" / "log.txt", {core});
  EXPECT_EQ(end_of(one).code, 0);
  const std::string log = test::read_bytes(folder / "a" / "log.txt");
  EXPECT_THAT(log, HasSubstr("cores " + std::to_string(core) + ".\n"));
  EXPECT_THAT(log, HasSubstr("group own"));
  EXPECT_FALSE(one.ended().has_value());
}

TEST(Child, AppendsToItsLog) {
  const test::TempDir folder;
  test::write_bytes(folder / "log.txt", "before\n");
  Child one = child("print", folder / "log.txt");
  end_of(one);
  EXPECT_THAT(test::read_bytes(folder / "log.txt"), ::testing::StartsWith("before\n"));
}

TEST(Child, EndsWithACodeOrASignal) {
  const test::TempDir folder;
  Child failing = child("fail", folder / "log.txt");
  const Ended failed = end_of(failing);
  EXPECT_EQ(failed.code, 7);
  EXPECT_EQ(failed.signal, 0);
  Child sleeping = child("sleep", folder / "log.txt");
  EXPECT_FALSE(sleeping.ended().has_value());
  sleeping.signal(SIGKILL);
  EXPECT_EQ(end_of(sleeping).signal, SIGKILL);
}

TEST(Child, IsStoppedWhenNobodyWantsItAnyMore) {
  const test::TempDir folder;
  { const Child one = child("sleep", folder / "log.txt"); }  // returns at once
}

TEST(Child, NeedsAPlaceForItsLog) {
  const test::TempDir folder;
  test::write_bytes(folder / "file", "");
  EXPECT_THAT(test::error_of([&] { child("fail", folder / "file" / "log.txt"); }),
              HasSubstr("choose another --out"));
}

}  // namespace

}  // namespace nru::experiments
