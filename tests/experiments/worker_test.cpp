// The worker: its lines, and how it serves. Commands are made up; the real ones are in tests/cli.
#include "experiments/worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <latch>
#include <thread>

#include "../support/test_files.h"
#include "experiments/cores.h"
#include "training/signals.h"

namespace nru::experiments {
namespace {

using test::error_of;
using test::read_bytes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

TEST(WorkerLines, SayTheSameBothWays) {
  const WorkerCommand command{7, {{"train", "--set", "a=\"b\nc\""}, "a dir/log.txt", {0, 3}}};
  const std::string line = to_line(command);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const WorkerCommand read = read_command(line);
  EXPECT_EQ(read.id, 7);
  EXPECT_EQ(read.launch.arguments, command.launch.arguments);
  EXPECT_EQ(read.launch.log, command.launch.log);
  EXPECT_EQ(read.launch.cores, command.launch.cores);
  const WorkerAnswer answer = read_answer(to_line(WorkerAnswer{7, 143}));
  EXPECT_EQ(answer.id, 7);
  EXPECT_EQ(answer.code, 143);
}

TEST(WorkerLines, AreCheckedBothWays) {
  for (const char* line : {"", "train", "{}", "[1]", R"({"id": "1"})",
                           R"({"id": 1, "arguments": "train", "log": "x", "cores": []})"}) {
    EXPECT_THAT(error_of([&] { read_command(line); }), HasSubstr("not a command for nru worker"));
  }
  const WorkerCommand command{1, {{"train"}, "\xff/log.txt", {}}};
  EXPECT_THAT(error_of([&] { to_line(command); }), HasSubstr("not UTF-8; choose another --out"));
}

TEST(WorkerLines, ArriveInPieces) {
  LineBuffer buffer;
  std::string line;
  EXPECT_FALSE(buffer.next(line));
  buffer.add("on");
  EXPECT_FALSE(buffer.next(line));
  buffer.add("e\n\ntwo\nthr");
  std::vector<std::string> lines;
  while (buffer.next(line)) lines.push_back(line);
  EXPECT_THAT(lines, ElementsAre("one", "", "two"));
}

// A worker in this process, with pipes to and from it.
class Serve : public ::testing::Test {
 protected:
  Serve() {
    if (::pipe(to_worker_) < 0 || ::pipe(from_worker_) < 0) throw std::runtime_error("pipe");
  }
  ~Serve() override {
    close_requests();
    ::close(to_worker_[0]);
    ::close(from_worker_[0]);
  }

  void request(int id, const std::string& word, std::vector<int> cores = {}) {
    const std::string line = to_line(WorkerCommand{id, {{word}, log(id), std::move(cores)}});
    ASSERT_EQ(::write(to_worker_[1], line.data(), line.size()), std::ssize(line));
  }
  void close_requests() {
    if (to_worker_[1] >= 0) ::close(to_worker_[1]);
    to_worker_[1] = -1;
  }
  int serve_all(const RunCommand& run) {
    const int code = serve(to_worker_[0], from_worker_[1], run);
    ::close(from_worker_[1]);
    return code;
  }
  std::vector<std::string> answers() {
    LineBuffer buffer;
    char piece[256];
    for (ssize_t got; (got = ::read(from_worker_[0], piece, sizeof piece)) > 0;)
      buffer.add({piece, static_cast<std::size_t>(got)});
    std::vector<std::string> lines;
    for (std::string line; buffer.next(line);) lines.push_back(line);
    return lines;
  }
  std::filesystem::path log(int id) const { return folder_ / std::to_string(id); }

  test::TempDir folder_;
  int to_worker_[2], from_worker_[2];
};

TEST_F(Serve, RunsCommandsSideBySide) {
  std::latch all_there(3);
  for (const int id : {1, 2, 3}) request(id, std::to_string(id + 4));
  close_requests();
  const int code = serve_all([&](const std::vector<std::string>& arguments, std::ostream& log) {
    all_there.arrive_and_wait();  // for ever, if one came after the other
    log << "this is " << arguments.at(0);
    return std::stoi(arguments.at(0));
  });
  EXPECT_EQ(code, 0);
  EXPECT_THAT(answers(), UnorderedElementsAre(R"({"id":1,"code":5})", R"({"id":2,"code":6})",
                                              R"({"id":3,"code":7})"));
  EXPECT_EQ(read_bytes(log(2)), "this is 6");
}

TEST_F(Serve, AppendsToLogs) {
  test::write_bytes(log(1), "before\n");
  request(1, "x");
  close_requests();
  serve_all([](const auto&, std::ostream& log) {
    log << "after\n";
    return 0;
  });
  EXPECT_EQ(read_bytes(log(1)), "before\nafter\n");
}

TEST_F(Serve, PinsACommandToItsCores) {
  const std::vector<int> all = allowed_cores();
  request(1, "x", {all.back()});
  close_requests();
  std::vector<int> inside;
  serve_all([&](const auto&, std::ostream&) {
    inside = allowed_cores();
    return 0;
  });
  EXPECT_THAT(inside, ElementsAre(all.back()));
  EXPECT_EQ(allowed_cores(), all);
}

TEST_F(Serve, ALogThatCannotBeWrittenIsAFailureOfOneCommand) {
  std::filesystem::create_directories(log(1));
  request(1, "x");
  request(2, "x");
  close_requests();
  EXPECT_EQ(serve_all([](const auto&, std::ostream&) { return 0; }), 0);
  EXPECT_THAT(answers(), UnorderedElementsAre(R"({"id":1,"code":2})", R"({"id":2,"code":0})"));
}

// Requests stay open: the signal alone ends it.
TEST_F(Serve, ASignalReachesAllCommandsAndEndsTheWorker) {
  std::latch all_there(2);
  request(1, "x");
  request(2, "x");
  std::thread killer([&] {
    all_there.wait();
    ::kill(::getpid(), SIGTERM);
  });
  const int code = serve_all([&](const auto&, std::ostream&) {
    all_there.count_down();
    while (training::SignalGuard::received() == 0) std::this_thread::yield();
    return 128 + training::SignalGuard::received();
  });
  killer.join();
  EXPECT_EQ(code, 128 + SIGTERM);
  EXPECT_THAT(answers(), UnorderedElementsAre(R"({"id":1,"code":143})", R"({"id":2,"code":143})"));
}

TEST_F(Serve, WhatIsNoCommandIsAnError) {
  ASSERT_EQ(::write(to_worker_[1], "hello\n", 6), 6);
  EXPECT_THAT(error_of([&] { serve_all({}); }), HasSubstr("'hello'"));
}

}  // namespace
}  // namespace nru::experiments
