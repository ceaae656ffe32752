// Signals as requests, seen by every thread and by guards inside guards.
#include "training/signals.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <thread>

namespace nru::training {
namespace {

volatile std::sig_atomic_t seen_by_test = 0;

// Stands for what a program did with the signal before.
class Signals : public ::testing::Test {
 protected:
  void SetUp() override {
    seen_by_test = 0;
    previous_ = std::signal(SIGTERM, [](int) { seen_by_test = 1; });
  }
  void TearDown() override { std::signal(SIGTERM, previous_); }

 private:
  void (*previous_)(int) = nullptr;
};

TEST_F(Signals, SetAFlagWhileAGuardLives) {
  {
    const SignalGuard guard;
    EXPECT_EQ(SignalGuard::received(), 0);
    std::raise(SIGTERM);
    EXPECT_EQ(SignalGuard::received(), SIGTERM);
    std::raise(SIGINT);
    EXPECT_EQ(SignalGuard::received(), SIGTERM);  // the first one counts
    EXPECT_FALSE(seen_by_test);
  }
  std::raise(SIGTERM);
  EXPECT_TRUE(seen_by_test);
}

TEST_F(Signals, AClosedTerminalIsARequestToo) {
  const SignalGuard guard;
  std::raise(SIGHUP);
  EXPECT_EQ(SignalGuard::received(), SIGHUP);
  EXPECT_STREQ(name_of_request(SIGHUP), "SIGHUP");
  EXPECT_EQ(name_of_request(SIGSEGV), nullptr);
}

TEST_F(Signals, WhatNohupIgnoresStaysIgnored) {
  const auto before = std::signal(SIGHUP, SIG_IGN);
  {
    const SignalGuard guard;
    std::raise(SIGHUP);
    EXPECT_EQ(SignalGuard::received(), 0);
  }
  EXPECT_EQ(std::signal(SIGHUP, before), SIG_IGN);
}

TEST_F(Signals, AnInnerGuardChangesNothing) {
  const SignalGuard outer;
  { const SignalGuard inner; }
  std::raise(SIGTERM);
  EXPECT_FALSE(seen_by_test);
  const SignalGuard later;
  EXPECT_EQ(SignalGuard::received(), SIGTERM);  // not forgotten
}

TEST_F(Signals, GuardsMayEndInAnyOrder) {
  auto first = std::make_unique<SignalGuard>();
  const SignalGuard second;
  first.reset();
  std::raise(SIGTERM);
  EXPECT_FALSE(seen_by_test);
  EXPECT_EQ(SignalGuard::received(), SIGTERM);
}

TEST_F(Signals, ReachAllThreads) {
  const SignalGuard guard;
  int seen = 0;
  std::thread run([&] {
    const SignalGuard own;
    while (SignalGuard::received() == 0) std::this_thread::yield();
    seen = SignalGuard::received();
  });
  ::kill(::getpid(), SIGTERM);
  run.join();
  EXPECT_EQ(seen, SIGTERM);
}

TEST_F(Signals, AreForgottenByTheNextFirstGuard) {
  {
    const SignalGuard guard;
    std::raise(SIGTERM);
  }
  const SignalGuard guard;
  EXPECT_EQ(SignalGuard::received(), 0);
}

}  // namespace
}  // namespace nru::training
