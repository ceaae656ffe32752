// Both ways to run commands, held to the same behaviour. Children and workers are this test
// program, which does as its environment says.
#include "experiments/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <thread>

#include "../support/environment.h"
#include "../support/test_files.h"
#include "experiments/worker.h"
#include "training/signals.h"

namespace nru::experiments {
namespace {

using test::read_bytes;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A command: its exit code, or "wait" for a signal, or "crash".
int run_command(const std::vector<std::string>& arguments, std::ostream& log) {
  const training::SignalGuard signals;
  const std::string& what = arguments.at(0);
  log << what << " in " << ::getpid() << std::endl;
  if (what == "crash") ::kill(::getpid(), SIGKILL);
  while (what == "wait" && training::SignalGuard::received() == 0) std::this_thread::yield();
  return what == "wait" ? 128 + training::SignalGuard::received() : std::stoi(what);
}

// Instead of testing, before main().
[[maybe_unused]] const bool kParent = [] {
  if (std::getenv("NRU_TEST_LAUNCHER") == nullptr) return true;
  std::ifstream words("/proc/self/cmdline");
  std::string program, first;
  std::getline(words, program, '\0');
  std::getline(words, first, '\0');
  static const std::ios_base::Init streams;  // not yet made, perhaps
  ::_exit(first == "worker" ? serve(STDIN_FILENO, STDOUT_FILENO, run_command)
                            : run_command({first}, std::cout));
}();

class LauncherTest : public ::testing::TestWithParam<const char*> {
 protected:
  LauncherTest()
      : launcher_(worker() ? make_worker_launcher(folder_ / "worker.txt")
                           : make_process_launcher()) {}

  bool worker() const { return std::string(GetParam()) == "worker"; }
  std::filesystem::path log(const std::string& name) const { return folder_ / name / "log.txt"; }
  int start(const std::string& what, const std::string& name) {
    return launcher_->start({{what}, log(name), {}});
  }
  Ended end_of(int command) {
    for (;;) {
      if (const auto ended = launcher_->ended(command)) return *ended;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  // The process that a command runs in, once it does.
  int process_of(const std::string& name) {
    for (;;) {
      const std::string text = read_bytes(log(name));
      const std::size_t at = text.find(" in ");
      if (text.ends_with("\n") && at != std::string::npos) return std::stoi(text.substr(at + 4));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  const test::Environment as_said_{"NRU_TEST_LAUNCHER", "1"};
  const test::TempDir folder_;
  std::unique_ptr<Launcher> launcher_;
};

TEST_P(LauncherTest, RunsSideBySideWithLogsAndCodesOfTheirOwn) {
  const int waiting = start("wait", "a"), done = start("0", "b"), failing = start("7", "c");
  EXPECT_EQ(end_of(done).code, 0);
  const Ended failed = end_of(failing);
  EXPECT_EQ(failed.code, 7);
  EXPECT_EQ(failed.signal, 0);
  EXPECT_FALSE(launcher_->ended(waiting).has_value());
  EXPECT_THAT(read_bytes(log("c")), StartsWith("7 in "));
  EXPECT_EQ(process_of("a") == process_of("b"), worker());
}

TEST_P(LauncherTest, StopsAll) {
  const int one = start("wait", "a"), other = start("wait", "b");
  process_of("a");
  process_of("b");
  launcher_->stop(SIGINT);
  EXPECT_EQ(end_of(one).code, 128 + SIGINT);
  EXPECT_EQ(end_of(other).code, 128 + SIGINT);
}

TEST_P(LauncherTest, ACrashIsTheEndOfWhatWasInTheProcess) {
  const int waiting = start("wait", "a");
  process_of("a");
  const int crashing = start("crash", "b");
  EXPECT_EQ(end_of(crashing).signal, SIGKILL);
  if (worker()) {
    EXPECT_EQ(end_of(waiting).signal, SIGKILL);
  } else {
    EXPECT_FALSE(launcher_->ended(waiting).has_value());
  }
  EXPECT_EQ(end_of(start("3", "c")).code, 3);
  EXPECT_NE(process_of("a"), process_of("c"));
}

// An error of the GPU would be that of all later commands in the process, too.
TEST_P(LauncherTest, NothingStartsWhereAnInternalErrorWas) {
  const int waiting = start("wait", "a");
  EXPECT_EQ(end_of(start("1", "b")).code, 1);
  EXPECT_EQ(end_of(start("0", "c")).code, 0);
  EXPECT_NE(process_of("a"), process_of("c"));
  EXPECT_FALSE(launcher_->ended(waiting).has_value());
  launcher_->stop(SIGTERM);
  EXPECT_EQ(end_of(waiting).code, 128 + SIGTERM);
}

TEST_P(LauncherTest, NothingOutlivesIt) {
  start("wait", "a");
  const int process = process_of("a");
  launcher_.reset();
  EXPECT_EQ(::kill(process, 0), -1);
}

TEST_P(LauncherTest, NeedsAPlaceForALog) {
  test::write_bytes(folder_ / "file", "");
  EXPECT_THAT(test::error_of([&] { start("0", "file"); }), HasSubstr("choose another --out"));
  EXPECT_EQ(end_of(start("0", "a")).code, 0);
}

INSTANTIATE_TEST_SUITE_P(, LauncherTest, ::testing::Values("processes", "worker"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace nru::experiments
