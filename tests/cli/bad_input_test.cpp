// Whatever a user can get wrong: exit code 2, one line with the offending value and the fix, and
// not a byte of an existing run changed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../support/test_files.h"
#include "program.h"
#include "runs.h"

namespace nru::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

void expect_refusal(const Finished& finished, const std::vector<std::string>& parts) {
  EXPECT_EQ(finished.code, 2) << finished.err;
  EXPECT_THAT(finished.out, IsEmpty());
  EXPECT_THAT(finished.err, StartsWith("nru: "));
  EXPECT_EQ(lines_in(finished.err), 1) << finished.err;
  for (const std::string& part : parts) EXPECT_THAT(finished.err, HasSubstr(part));
}

struct Case {
  Arguments arguments;             // after those of a small run
  std::vector<std::string> parts;  // of the message: the value and the fix
};

TEST(BadInput, IsRefusedBeforeAnythingIsMade) {
  const std::vector<Case> cases = {
      {{"--set", "cell.memory_size=5"},
       {"heads = 1 and memory_size = 5", "the nearest memory_size that works is 4"}},
      {{"--set", "cell.hidden_size=0"}, {"hidden_size must be at least 1, got 0"}},
      {{"--set", "cell.hidden_size=-8"}, {"hidden_size must be at least 1, got -8"}},
      {{"--set", "cell.hidden_size=3000000000"}, {"at most 1000000, got 3000000000"}},
      {{"--set", "cell.heads=0"}, {"heads must be at least 1, got 0"}},
      {{"--set", "cell.heads=4294967297", "--set", "cell.memory_size=4294967297"},
       {"heads = 4294967297"}},
      {{"--set", "batch_size=0"}, {"batch_size 0 is not possible", "1 to 1000000"}},
      {{"--lag", "0"}, {"lag 0 is not possible; choose 1 to 1000000"}},
      {{"--lag", "-3"}, {"lag -3 is not possible; choose 1 to 1000000"}},
      {{"--task", "cpy"}, {"unknown task 'cpy'; did you mean 'copy'?"}},
      {{"--cell", "lsmt"}, {"unknown cell 'lsmt'; did you mean 'lstm'?"}},
      {{"--set", "larning_rate=0.1"}, {"'larning_rate'; did you mean 'learning_rate'?"}},
      {{"--set", "hidden_size=9"}, {"did you mean 'cell.hidden_size'?"}},
      {{"--set", "cell.hiden_size=9"}, {"hiden_size", "did you mean 'hidden_size'?"}},
      {{"--set", "task_options.x=1"}, {"'x'", "evaluation_batches"}},
      {{"--set", "amsgrad=maybe"}, {"amsgrad", "true or false", "maybe"}},
      {{"--lag", "ten"}, {"--lag: ", "an integer", "ten"}},
      {{"--set", "learning_rate=-1"}, {"learning_rate -1", "a number above 0"}},
      {{"--set", "lag"}, {"write key=value"}},
      {{"--seed", "-1"}, {"seed -1 is not possible; choose 0 or more"}},
      {{"--updates", "0"}, {"updates"}},
      {{"--updates", "1e5"}, {"must be an integer, not 100000.0; write 100000;"}},
      {{"--threads", "100000"}, {"threads 100000 is not possible", "0 for all cores"}},
      {{"--backend", "fast"}, {"'fast'; choose fused or reference"}},
      {{"--preset", "mine"}, {"'mine'; choose paper or authors or recommended"}},
      {{"--device", "gpu"}, {"device 'gpu' is not known; choose cpu"}},
      {{"--device", "cuda:99"}, {"'cuda:99'", "--device cpu"}},
      {{"--set", "cell.combine=max"}, {"'max'; choose mean or sum"}},
      {{"--set", "task_options.evaluation_batches=0"}, {"evaluation_batches 0", "1 or more"}},
      {{"--out", "caf\xE9"}, {"--out: out is not UTF-8"}},
      {{"--config", "/nowhere/run.toml"}, {"/nowhere/run.toml", "check the path"}},
  };
  const TempDir directory;
  for (const Case& wrong : cases) {
    const Finished finished =
        nru(small_run() + Arguments{"--out", directory / "run"} + wrong.arguments);
    SCOPED_TRACE(::testing::PrintToString(wrong.arguments));
    expect_refusal(finished, wrong.parts);
    EXPECT_EQ(count_files(directory.path()), 0u);
  }
}

TEST(BadInput, NumbersOfFlags) {
  const std::vector<Case> cases = {
      {{"bench", "--seconds", "0"}, {"--seconds 0 is not possible; choose a number above 0"}},
      {{"bench", "--seconds", "nan"}, {"--seconds nan is not possible"}},
      {{"bench", "--threads", "two"}, {"--threads two is not possible; choose 1"}},
      {{"reproduce", "--time-limit", "-1"}, {"--time-limit -1 is not", "seconds, or 0 for no"}},
      {{"reproduce", "--seeds", "1,2"}, {"--seeds 1,2 is not possible; choose one number N"}},
      {{"reproduce", "--jobs", "abc"}, {"--jobs abc is not possible; choose 1 to 1024"}},
      {{"reproduce", "--updates", "2.5"}, {"--updates 2.5 is not possible; choose 1 or more\n"}},
      {{"reproduce", "--updates", "1e5"}, {"--updates 1e5 is not", "; write 100000\n"}},
      {{"sample", "run", "--temperature", "abc"}, {"--temperature abc is not possible; choose 0"}},
      {{"sample", "run", "--temperature", "-1"}, {"--temperature -1 is not possible"}},
      {{"sample", "run", "--seed", "-1"}, {"--seed -1 is not possible; choose 0 or more"}},
      {{"sample", "run", "--length", "0"}, {"--length 0 is not possible; choose 1 or more"}},
  };
  for (const Case& wrong : cases) expect_refusal(nru(wrong.arguments), wrong.parts);
}

TEST(BadInput, TaskAndCellAreNeeded) {
  expect_refusal(nru({"train", "--cell", "nru"}), {"no task was given", "--task"});
  expect_refusal(nru({"train", "--task", "copy"}), {"no cell was given", "--cell"});
  expect_refusal(nru({"train", "--resume"}), {"--resume needs", "--out DIR"});
}

TEST(BadInput, ConfigurationFiles) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> files = {
      {"task = \"copy\"\nlag = = 5\n", {"run.toml:2"}},
      {"task = \"copy\"\nlag = \"5\n", {"run.toml:2"}},
      {"task = \"copy\"\ncell = \"nru\"\nlags = 5\n", {"run.toml:3", "did you mean 'lag'?"}},
      {"task = \"copy\"\ncell = \"nru\"\nlag = \"five\"\n", {"run.toml:3", "an integer"}},
      {"task = \"copy\"\ncell = \"nru\"\nlag = [5]\n", {"run.toml:3", "'lag'"}},
      {std::string("\x7f\x45\x4c\x46\0\xff\xfe", 7), {"run.toml"}},
      {"", {"no task was given"}},
  };
  const TempDir directory;
  for (const auto& [text, parts] : files) {
    SCOPED_TRACE(text);
    write_bytes(directory / "run.toml", text);
    expect_refusal(nru({"train", "--config", directory / "run.toml", "--out", directory / "run"}),
                   parts);
    EXPECT_FALSE(fs::exists(directory / "run"));
  }
  expect_refusal(nru({"train", "--config", directory.path()}), {"Is a directory"});
}

TEST(BadInput, OutputThatCannotBeMade) {
  const TempDir directory;
  write_bytes(directory / "file", "mine");
  for (const std::string out : {directory / "file", directory / "file/run"})
    expect_refusal(nru(small_run() + Arguments{"--out", out}), {out, "choose another --out"});
  expect_refusal(nru(small_run() + Arguments{"--out", "/proc/nru"}), {"/proc/nru", "--out"});
  EXPECT_EQ(read_bytes(directory / "file"), "mine");
}

TEST(BadInput, UnwritableDirectory) {
  if (::geteuid() == 0) GTEST_SKIP() << "permissions do not bind root";
  const TempDir directory;
  fs::create_directory(directory / "locked");
  fs::permissions(directory / "locked", fs::perms::owner_read | fs::perms::owner_exec);
  for (const std::string out : {directory / "locked", directory / "locked/run"})
    expect_refusal(nru(small_run() + Arguments{"--out", out}), {out, "choose another --out"});
}

// A finished run of 60 updates, made once, copied by each test that harms it.
class Harmed : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    original_ = new TempDir;
    ASSERT_EQ(nru(small_run() + Arguments{"--out", *original_ / "run"}).code, 0);
  }
  static void TearDownTestSuite() {
    delete original_;
    original_ = nullptr;
  }
  void SetUp() override { fs::copy(*original_ / "run", run()); }

  fs::path run() const { return directory_ / "run"; }
  // Runs, and sees that the directory is as it was.
  Finished unchanged(const Arguments& arguments) {
    const Snapshot before = snapshot(run());
    const Finished finished = nru(arguments);
    EXPECT_EQ(snapshot(run()), before);
    return finished;
  }

  static inline TempDir* original_ = nullptr;
  TempDir directory_;
};

TEST_F(Harmed, ARunIsNotOverwritten) {
  expect_refusal(unchanged(small_run() + Arguments{"--out", run()}),
                 {run().string(), "holds a run already", "--resume"});
  for (const char* name : {"config.toml", "metrics.csv", "result.json", "best.safetensors"}) {
    fs::remove(run() / name);  // what is left still is somebody's run
    expect_refusal(unchanged(small_run() + Arguments{"--out", run()}), {"holds a run already"});
  }
}

TEST_F(Harmed, ARunOfAnotherConfiguration) {
  expect_refusal(unchanged(small_run() + Arguments{"--out", run(), "--resume", "--lag", "6"}),
                 {"belongs to another configuration", "lag: 5 there, 6 here", "another --out"});
  expect_refusal(unchanged({"train", "--resume", "--out", run(), "--seed", "2", "--updates", "90"}),
                 {"seed: 1 there, 2 here"});
}

TEST_F(Harmed, ADamagedConfiguration) {
  write_bytes(run() / "config.toml", "task = \"co");
  expect_refusal(unchanged({"train", "--resume", "--out", run()}), {"config.toml:1"});
  expect_refusal(unchanged({"eval", run()}), {"config.toml:1"});
}

TEST_F(Harmed, ADamagedCheckpoint) {
  const std::string whole = read_bytes(run() / "checkpoint.safetensors");
  std::vector<std::string> damaged = {"",
                                      "x",
                                      whole.substr(0, whole.size() / 2),
                                      whole.substr(0, whole.size() - 1),
                                      whole + '\0',
                                      std::string(whole.size(), '\0')};
  // A flipped bit in the header's size, in the header, in the tensors and in the last byte.
  for (const std::size_t at :
       {std::size_t{0}, std::size_t{30}, whole.size() / 2, whole.size() - 1}) {
    damaged.push_back(whole);
    damaged.back()[at] = static_cast<char>(damaged.back()[at] ^ 4);
  }
  for (std::size_t i = 0; i < damaged.size(); ++i) {
    SCOPED_TRACE(i);
    write_bytes(run() / "checkpoint.safetensors", damaged[i]);
    expect_refusal(unchanged({"train", "--resume", "--out", run(), "--updates", "90"}),
                   {"checkpoint.safetensors"});
  }
  expect_refusal(unchanged({"eval", run(), "--weights", "last"}), {"checkpoint.safetensors"});
}

TEST_F(Harmed, ACheckpointOfAnotherNetwork) {
  ASSERT_EQ(
      nru(small_run() + Arguments{"--out", directory_ / "other", "--set", "cell.hidden_size=9"})
          .code,
      0);
  fs::copy_file(directory_ / "other/checkpoint.safetensors", run() / "checkpoint.safetensors",
                fs::copy_options::overwrite_existing);
  expect_refusal(unchanged({"train", "--resume", "--out", run(), "--updates", "90"}),
                 {"checkpoint.safetensors", "layer."});
}

TEST_F(Harmed, DamagedMetrics) {
  write_bytes(run() / "metrics.csv", "update,loss\n1,2\n");
  expect_refusal(unchanged({"train", "--resume", "--out", run(), "--updates", "90"}),
                 {"metrics.csv:1", "damaged"});
}

TEST_F(Harmed, DamagedBestWeights) {
  write_bytes(run() / "best.safetensors", "nothing");
  expect_refusal(unchanged({"eval", run()}), {"best.safetensors"});
  EXPECT_EQ(unchanged({"eval", run(), "--weights", "last"}).code, 0);
}

TEST_F(Harmed, EvalNeedsARunWithWeights) {
  expect_refusal(nru({"eval", directory_.path()}), {"is not a run directory", "config.toml"});
  expect_refusal(nru({"eval", "/nowhere"}), {"/nowhere is not a run directory"});
  expect_refusal(unchanged({"eval", run(), "--split", "tst"}), {"'tst'; did you mean 'test'?"});
  expect_refusal(unchanged({"eval", run(), "--lag", "0"}), {"--lag: lag 0"});
  expect_refusal(unchanged({"eval", run(), "--weights", "bst"}), {"'bst'; did you mean 'best'?"});
  fs::remove(run() / "best.safetensors");
  expect_refusal(unchanged({"eval", run(), "--weights", "best"}), {"use --weights last"});
  fs::remove(run() / "checkpoint.safetensors");
  expect_refusal(unchanged({"eval", run()}), {"has no weights yet", "nru train --resume"});
}

TEST_F(Harmed, ARunInUse) {
  const TempDir directory;
  Program first(small_run() + Arguments{"--out", directory / "run", "--updates", "100000000"});
  ASSERT_TRUE(first.wait_until([&] { return last_logged_update(directory / "run") > 0; }));
  expect_refusal(nru({"train", "--resume", "--out", directory / "run"}),
                 {"is in use by process", "another --out"});
}

TEST_F(Harmed, NothingToResume) {
  expect_refusal(nru({"train", "--resume", "--out", directory_ / "no-such"}),
                 {"there is no run to go on with in", "no-such"});
  EXPECT_FALSE(fs::exists(directory_ / "no-such"));
}

}  // namespace
}  // namespace nru::test
