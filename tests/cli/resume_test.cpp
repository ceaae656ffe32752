// However a run is stopped, going on with it ends bit for bit where the uninterrupted run ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <random>
#include <thread>

#include "../support/test_files.h"
#include "program.h"
#include "runs.h"
#include "support/safetensors.h"

namespace nru::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr long kUpdates = 3000;

// Long enough to be caught in the middle. log_every, evaluate_every and checkpoint_every share no
// factor, so a stop finds half-filled windows.
Arguments long_run(const fs::path& out, const std::string& cell = "nru") {
  Arguments arguments =
      small_run() + Arguments{"--updates", std::to_string(kUpdates), "--set", "checkpoint_every=97",
                              "--set",     "evaluate_every=250",     "--out", out};
  *std::find(arguments.begin(), arguments.end(), "nru") = cell;
  if (cell != "nru") {  // an LSTM has only the first of the sizes
    for (const char* option : {"cell.memory_size=4", "cell.heads=1"}) {
      const auto at = std::find(arguments.begin(), arguments.end(), option);
      arguments.erase(at - 1, at + 1);
    }
  }
  return arguments;
}

class Resume : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    shared_ = new TempDir;
    ASSERT_EQ(nru(long_run(whole())).code, 0);
  }
  static void TearDownTestSuite() {
    delete shared_;
    shared_ = nullptr;
  }
  static fs::path whole() { return *shared_ / "whole"; }  // the uninterrupted run
  fs::path run() const { return directory_ / "run"; }

  // A new place at each test run; the seed is in the message, so a failure can be had again.
  long random(long least, long most) {
    return std::uniform_int_distribution<long>(least, most)(generator_);
  }

  // Starts (or goes on with) the run and hands it over once `update` was logged.
  std::unique_ptr<Program> started(const Arguments& arguments, long update) {
    auto program = std::make_unique<Program>(arguments);
    EXPECT_TRUE(program->wait_until([&] { return last_logged_update(run()) >= update; }));
    return program;
  }

  static inline TempDir* shared_ = nullptr;
  TempDir directory_;
  const unsigned seed_ = std::random_device{}();
  std::mt19937 generator_{seed_};
  ::testing::ScopedTrace trace_{__FILE__, __LINE__, "random seed " + std::to_string(seed_)};
};

TEST_F(Resume, AfterSigtermAndSigint) {
  const auto stop = [&](const Arguments& arguments, int signal, long update) {
    auto program = started(arguments, update);
    program->signal(signal);
    const Finished finished = program->wait();
    EXPECT_EQ(finished.code, 128 + signal) << finished.err;
    EXPECT_EQ(lines_in(finished.err), 1) << finished.err;
    EXPECT_THAT(finished.err, AllOf(HasSubstr("saved; go on with: nru train --resume --out "),
                                    HasSubstr(run().string())));
    EXPECT_EQ(json_file(run() / "result.json").at("status"), "interrupted");
  };
  const Arguments go_on{"train", "--quiet", "--resume", "--out", run()};
  stop(long_run(run()), SIGTERM, random(1, 900));
  const auto made = json_file(run() / "result.json").at("updates").get<long>();
  ASSERT_LT(made, kUpdates);
  stop(go_on, SIGINT, std::min(made + random(1, 500), kUpdates - 1000));
  ASSERT_LT(json_file(run() / "result.json").at("updates").get<long>(), kUpdates);
  ASSERT_EQ(nru(go_on).code, 0);
  EXPECT_EQ(difference(whole(), run()), "");
}

// An evaluation is made to its end, which may take a while: who wants to stop is told so.
TEST_F(Resume, ASignalDuringAnEvaluationIsAnswered) {
  Arguments loud = long_run(run()) +
                   Arguments{"--updates",         "98",    "--set",
                             "evaluate_every=49", "--set", "task_options.evaluation_batches=10000"};
  std::erase(loud, "--quiet");
  const auto stopped_at = [&](const Arguments& arguments, long update) {
    const auto program = started(arguments, update);  // the line of metrics before an evaluation
    program->signal(SIGINT);
    return program->wait();
  };
  const Finished first = stopped_at(loud, 49);
  EXPECT_EQ(first.code, 128 + SIGINT) << first.err;
  EXPECT_THAT(first.err, HasSubstr("stopping after this evaluation ("));
  EXPECT_EQ(json_file(run() / "result.json").at("status"), "interrupted");
  const Finished last = stopped_at({"train", "--resume", "--out", run()}, 98);
  EXPECT_EQ(last.code, 0) << last.err;
  EXPECT_THAT(last.err, HasSubstr("making the last evaluations ("));
  EXPECT_EQ(json_file(run() / "result.json").at("status"), "finished");
}

// Ctrl-C ends the reader of `nru train 2>&1 | tee log` as well; a lost ssh session closes the
// terminal.
TEST_F(Resume, WhenNobodyReadsAnyMore) {
  Arguments loud = long_run(run());
  std::erase(loud, "--quiet");
  Program program(loud, {.unread_errors = true});
  ASSERT_TRUE(program.wait_until([&] { return last_logged_update(run()) >= 100; }));
  program.signal(SIGHUP);
  EXPECT_EQ(program.wait().code, 128 + SIGHUP);
  EXPECT_EQ(json_file(run() / "result.json").at("status"), "interrupted");
  ASSERT_EQ(nru({"train", "--quiet", "--resume", "--out", run()}).code, 0);
  EXPECT_EQ(difference(whole(), run()), "");
}

TEST_F(Resume, AsksForMoreUpdatesThanThereAre) {
  ASSERT_EQ(nru(small_run() + Arguments{"--out", run()}).code, 0);
  const std::string result = read_bytes(run() / "result.json");
  const Finished less = nru({"train", "--resume", "--out", run(), "--updates", "7"});
  EXPECT_EQ(less.code, 2);
  EXPECT_THAT(less.err, HasSubstr("has made 60 updates already, and is asked for 7"));
  EXPECT_EQ(read_bytes(run() / "result.json"), result);
}

// The limit is that of a process: the command that is shown goes on to the end.
TEST_F(Resume, WithoutTheTimeLimitOfTheFirst) {
  const Finished first = nru(long_run(run()) + Arguments{"--time-limit", "0.001"});
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(json_file(run() / "result.json").at("status"), "interrupted");
  ASSERT_EQ(nru({"train", "--quiet", "--resume", "--out", run()}).code, 0);
  EXPECT_EQ(difference(whole(), run()), "");
}

TEST_F(Resume, DiffersFromAColdStart) {
  auto program = started(long_run(run()), 500);
  program->signal(SIGTERM);
  ASSERT_EQ(program->wait().code, 143);
  // The same directory without what it carries on from: a run of its own, with another seed.
  ASSERT_EQ(nru(long_run(directory_ / "cold") + Arguments{"--seed", "2"}).code, 0);
  ASSERT_EQ(nru({"train", "--quiet", "--resume", "--out", run()}).code, 0);
  EXPECT_EQ(difference(whole(), run()), "");
  EXPECT_NE(difference(directory_ / "cold", run()), "");
}

TEST_F(Resume, OnAnotherNumberOfThreads) {
  auto program = started(long_run(run()) + Arguments{"--threads", "1"}, random(1, 1000));
  program->signal(SIGTERM);
  ASSERT_EQ(program->wait().code, 143);
  ASSERT_EQ(nru({"train", "--quiet", "--resume", "--out", run(), "--threads", "2"}).code, 0);
  EXPECT_EQ(difference(whole(), run()), "");
}

TEST_F(Resume, AnLstmToo) {
  const fs::path uninterrupted = directory_ / "uninterrupted";
  ASSERT_EQ(nru(long_run(uninterrupted, "lstm")).code, 0);
  auto program = started(long_run(run(), "lstm"), random(1, 1000));
  program->signal(SIGINT);
  ASSERT_EQ(program->wait().code, 130);
  ASSERT_EQ(nru({"train", "--quiet", "--resume", "--out", run()}).code, 0);
  EXPECT_EQ(difference(uninterrupted, run()), "");
}

TEST_F(Resume, AfterKillsAtAnyMoment) {
  Arguments arguments = long_run(run());
  long update = 0;
  for (int kill = 0; kill < 6; ++kill) {
    update = std::min(std::max(last_logged_update(run()), update) + random(1, 400), kUpdates - 500);
    auto program = started(arguments, update);
    std::this_thread::sleep_for(std::chrono::microseconds(random(0, 3000)));
    program->signal(SIGKILL);
    ASSERT_EQ(program->wait().code, -SIGKILL);
    arguments = {"train", "--quiet", "--resume", "--out", run()};
  }
  ASSERT_EQ(nru(arguments).code, 0);
  EXPECT_EQ(difference(whole(), run()), "");
}

// With a checkpoint after every update, nearly all of the time goes into saving.
TEST_F(Resume, FiftyKillsWhileSavingLeaveALoadableCheckpoint) {
  const fs::path checkpoint = run() / "checkpoint.safetensors";
  Arguments arguments = small_run() + Arguments{"--updates",          "100000000", "--set",
                                                "checkpoint_every=1", "--out",     run()};
  long update = 0;
  for (int kill = 0; kill < 50; ++kill) {
    SCOPED_TRACE(kill);
    std::error_code missing;
    const auto before = fs::last_write_time(checkpoint, missing);
    Program program(arguments);
    // A new checkpoint shows that it resumed from the one the last kill left.
    ASSERT_TRUE(program.wait_until([&] {
      std::error_code ignored;
      return fs::exists(checkpoint) && fs::last_write_time(checkpoint, ignored) != before;
    })) << program.wait().err;
    std::this_thread::sleep_for(std::chrono::microseconds(random(0, 4000)));
    program.signal(SIGKILL);
    ASSERT_EQ(program.wait().code, -SIGKILL);

    const auto file = SafetensorsFile::load(checkpoint);  // strict, with checksums
    const long saved = std::stol(file.metadata().at("update"));
    EXPECT_GT(saved, update);
    update = saved;
    if (kill % 10 == 0) {
      const Finished eval = nru({"eval", run(), "--weights", "last", "--json"});
      ASSERT_EQ(eval.code, 0) << eval.err;
      EXPECT_EQ(parse_json(eval.out).at("update"), saved);
    }
    arguments = {"train", "--quiet", "--resume", "--out", run()};
  }
}

TEST_F(Resume, AFinishedRunHasNothingToDo) {
  const fs::path copy = directory_ / "copy";
  fs::copy(whole(), copy);
  const Snapshot before = snapshot(copy);
  const Finished finished = nru({"train", "--resume", "--out", copy});
  // config.toml follows the directory to its new place; all else stays.
  EXPECT_EQ(finished.code, 0);
  EXPECT_THAT(finished.err, AllOf(HasSubstr("is finished already (3,000 updates)"),
                                  HasSubstr("raise --updates")));
  EXPECT_THAT(finished.out, IsEmpty());
  Snapshot after = snapshot(copy);
  after["config.toml"] = before.at("config.toml");
  EXPECT_EQ(after, before);
}

TEST_F(Resume, GoesFurtherWhenAskedTo) {
  ASSERT_EQ(nru(long_run(run()) + Arguments{"--updates", "500"}).code, 0);
  ASSERT_EQ(
      nru({"train", "--quiet", "--resume", "--out", run(), "--updates", std::to_string(kUpdates)})
          .code,
      0);
  // 500 is a multiple of evaluate_every: the first end left no trace.
  EXPECT_EQ(difference(whole(), run()), "");
}

TEST_F(Resume, StartsWhereThereIsNothingYet) {
  EXPECT_EQ(nru(small_run() + Arguments{"--resume", "--out", run()}).code, 0);
  EXPECT_EQ(json_file(run() / "result.json").at("updates"), 60);
}

}  // namespace
}  // namespace nru::test
