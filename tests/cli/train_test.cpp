// What a run leaves behind and prints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../support/test_files.h"
#include "program.h"
#include "runs.h"
#include "support/safetensors.h"

namespace nru::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

std::vector<std::string> names_of(const Snapshot& files) {
  std::vector<std::string> names;
  for (const auto& [name, bytes] : files) names.push_back(name);
  return names;
}

template <class Json>
std::vector<std::string> keys_of(const Json& json) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  return keys;
}

TEST(Train, LeavesTheDocumentedRunDirectory) {
  const TempDir directory;
  const Finished finished = nru(small_run() + Arguments{"--out", directory / "run"});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(finished.out + finished.err, IsEmpty());  // --quiet
  const Snapshot files = snapshot(directory / "run");
  EXPECT_THAT(names_of(files), ElementsAre("best.safetensors", "checkpoint.safetensors",
                                           "config.toml", "metrics.csv", "result.json"));
  EXPECT_THAT(files.at("metrics.csv"),
              StartsWith("update,epoch,split,loss,relative_loss,accuracy,exact,bpc,grad_norm,"
                         "max_memory,max_hidden,skipped,overflows,seconds\n7,,train,"));
  EXPECT_THAT(files.at("metrics.csv"), HasSubstr("\n50,,valid,"));
  EXPECT_THAT(files.at("config.toml"), AllOf(HasSubstr("lag = 5\n"), HasSubstr("memory_size = 4")));

  const auto result = nlohmann::ordered_json::parse(files.at("result.json"));
  EXPECT_THAT(keys_of(result), ElementsAre("task", "cell", "seed", "parameters", "updates",
                                           "status", "baseline_loss", "solved_at", "solved_at_1pct",
                                           "spikes", "recoveries", "preset", "average", "seconds",
                                           "device", "commit", "versions", "final", "best"));
  EXPECT_EQ(result.at("status"), "finished");
  EXPECT_EQ(result.at("updates"), 60);
  for (const char* split : {"train", "valid", "test"})
    EXPECT_TRUE(result.at("final").at(split).at("loss").is_number()) << split;
  EXPECT_THAT(keys_of(result.at("best")), ElementsAre("update", "valid", "test"));
  EXPECT_EQ(result.at("best").at("update"), 60);
}

TEST(Train, NamesTheDirectoryAfterTheRun) {
  const TempDir directory;
  const Finished finished =
      nru({"train", "--task", "copy", "--cell", "lstm", "--lag", "3", "--seed", "7", "--updates",
           "2", "--set", "task_options.evaluation_batches=1"},
          {.directory = directory.path()});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_TRUE(std::filesystem::exists(directory / "runs/copy-3-lstm-seed7/result.json"));
  EXPECT_THAT(finished.err, HasSubstr("lstm copy-3: 2 updates, files in runs/copy-3-lstm-seed7"));
  EXPECT_THAT(finished.out, AllOf(HasSubstr("finished  lstm copy-3, seed 7, 23,529 parameters"),
                                  HasSubstr("  files    runs/copy-3-lstm-seed7\n")));
}

TEST(Train, JsonPrintsTheResult) {
  const TempDir directory;
  const Finished finished = nru(small_run() + Arguments{"--json", "--out", directory / "run"});
  EXPECT_EQ(finished.out, read_bytes(directory / "run/result.json"));
  EXPECT_EQ(parse_json(finished.out).at("cell"), "nru");
}

TEST(Train, ItsConfigurationRepeatsItBitForBit) {
  const TempDir directory;
  const std::string first = directory / "first", again = directory / "again";
  ASSERT_EQ(nru(small_run() + Arguments{"--out", first}).code, 0);
  const Finished finished =
      nru({"train", "--quiet", "--config", first + "/config.toml", "--out", again});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_EQ(difference(first, again), "");
}

TEST(Train, AnotherSeedIsAnotherRun) {
  const TempDir directory;
  ASSERT_EQ(nru(small_run() + Arguments{"--out", directory / "one"}).code, 0);
  ASSERT_EQ(nru(small_run() + Arguments{"--out", directory / "two", "--seed", "2"}).code, 0);
  EXPECT_NE(difference(directory / "one", directory / "two"), "");
}

TEST(Train, ThreadsDoNotChangeABit) {
  const TempDir directory;
  for (const char* cell : {"nru", "lstm"}) {
    const auto run = [&](const std::string& threads) {
      const std::string out = directory / (cell + threads);
      // 37 rows: several slices of the batch, the last one smaller.
      const Finished finished = nru({"train",     "--quiet",
                                     "--task",    "copy",
                                     "--cell",    cell,
                                     "--lag",     "5",
                                     "--set",     "cell.hidden_size=16",
                                     "--set",     "batch_size=37",
                                     "--set",     "task_options.evaluation_batches=2",
                                     "--updates", "60",
                                     "--threads", threads,
                                     "--out",     out});
      EXPECT_EQ(finished.code, 0) << finished.err;
      return out;
    };
    EXPECT_EQ(difference(run("1"), run("2")), "") << cell;
  }
}

TEST(Train, DivergenceIsExitCodeThreeAndKeepsTheLastGoodCheckpoint) {
  const TempDir directory;
  const std::string out = directory / "run";
  const Finished finished =
      nru(small_run() + Arguments{"--out", out, "--updates", "500", "--set", "learning_rate=1000",
                                  "--set", "clip_norm=0", "--set", "checkpoint_every=1"});
  EXPECT_EQ(finished.code, 3) << finished.err;
  EXPECT_EQ(lines_in(finished.err), 1) << finished.err;
  EXPECT_THAT(finished.err, AllOf(StartsWith("nru: training diverged: "), HasSubstr("update "),
                                  HasSubstr("try --preset recommended"), HasSubstr("clip_norm"),
                                  HasSubstr(out + "/checkpoint.safetensors")));
  const auto result = json_file(out + "/result.json");
  EXPECT_EQ(result.at("status"), "diverged");
  // The update that the message names is the one the run stopped at.
  EXPECT_THAT(finished.err, HasSubstr("update " + std::to_string(result.at("updates").get<int>())));
  const Finished eval = nru({"eval", out, "--weights", "last", "--json"});
  EXPECT_EQ(eval.code, 0) << eval.err;  // loads: all there, no bit wrong
}

TEST(Train, TimeLimitSavesAndSaysHowToGoOn) {
  const TempDir directory;
  Arguments arguments = small_run() + Arguments{"--out",     directory / "run", "--updates",
                                                "100000000", "--time-limit",    "0.2"};
  std::erase(arguments, "--quiet");
  const Finished finished = nru(arguments);
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr("go on with: nru train --resume --out "));
  EXPECT_EQ(json_file(directory / "run/result.json").at("status"), "interrupted");
  EXPECT_TRUE(std::filesystem::exists(directory / "run/checkpoint.safetensors"));
}

// A checkpoint as a machine with a GPU leaves it, without one.
TEST(Train, ARunThatWasMovedSaysSo) {
  const TempDir directory;
  const std::string run = directory / "run";
  ASSERT_EQ(nru(small_run() + Arguments{"--out", run}).code, 0);
  const std::string checkpoint = run + "/checkpoint.safetensors";
  const SafetensorsFile file = SafetensorsFile::load(checkpoint);
  auto metadata = file.metadata();
  metadata["trained_on"] = "cuda (NVIDIA H200)";
  save_safetensors(checkpoint, file.tensors(), metadata);
  std::string config = read_bytes(run + "/config.toml");
  write_bytes(run + "/config.toml", config.replace(config.find("\"cpu\""), 5, "\"cuda\""));

  const Finished moved =
      nru({"train", "--resume", "--out", run, "--device", "cpu", "--updates", "70"});
  EXPECT_EQ(moved.code, 0) << moved.err;
  const std::string both = "cuda (NVIDIA H200), from update 61 on cpu";
  EXPECT_THAT(moved.err, HasSubstr("trained on " + both));
  EXPECT_THAT(json_file(run + "/result.json").at("device").get<std::string>(), StartsWith(both));
}

TEST(Train, StopsWhenSolved) {
  const TempDir directory;
  // One symbol later: the smallest network learns it in a few hundred updates.
  const Finished finished = nru({"train",
                                 "--quiet",
                                 "--task",
                                 "copy",
                                 "--cell",
                                 "lstm",
                                 "--lag",
                                 "1",
                                 "--set",
                                 "cell.hidden_size=48",
                                 "--set",
                                 "learning_rate=0.01",
                                 "--set",
                                 "batch_size=32",
                                 "--set",
                                 "task_options.evaluation_batches=2",
                                 "--updates",
                                 "20000",
                                 "--stop-when-solved",
                                 "--json",
                                 "--out",
                                 directory / "run"});
  EXPECT_EQ(finished.code, 0) << finished.err;
  const auto result = parse_json(finished.out);
  EXPECT_EQ(result.at("status"), "solved");
  EXPECT_EQ(result.at("updates"), result.at("solved_at"));
  EXPECT_LT(result.at("updates").get<int>(), 20000);
  EXPECT_GT(result.at("final").at("test").at("accuracy").get<double>(), 0.9);
}

TEST(Train, NoEscapeCodesWithoutATerminal) {
  const TempDir directory;
  Arguments arguments = small_run() + Arguments{"--out", directory / "run"};
  std::erase(arguments, "--quiet");
  const Finished finished = nru(arguments);
  EXPECT_THAT(finished.out, AllOf(HasSubstr("finished"), Not(HasSubstr("\x1b"))));
  EXPECT_THAT(finished.err, AllOf(HasSubstr("update 60 of 60"), Not(HasSubstr("\x1b"))));
}

TEST(Train, ATerminalGetsColourAndACurveUnlessNoColor) {
  const TempDir directory;
  Arguments arguments = small_run();
  std::erase(arguments, "--quiet");
  const auto on_terminal = [&](const std::string& out, std::map<std::string, std::string> extra) {
    extra.insert({{"TERM", "xterm"}, {"LC_ALL", "C.UTF-8"}});
    return nru(arguments + Arguments{"--out", directory / out},
               {.environment = extra, .terminal = true})
        .out;
  };
  const std::string colour = "\x1b[1;32mfinished";
  EXPECT_THAT(on_terminal("a", {}), AllOf(HasSubstr(colour), HasSubstr("training loss")));
  EXPECT_THAT(on_terminal("b", {{"NO_COLOR", "1"}}),
              AllOf(HasSubstr("finished"), HasSubstr("training loss"), Not(HasSubstr("\x1b[1")),
                    Not(HasSubstr("\x1b[3"))));
}

// A path is relative to where training began, and data may be moved.
TEST(Eval, FindsTheTextFromAnywhere) {
  const TempDir directory;
  std::string text;
  while (text.size() < 3000) text += "so it is.\n";
  write_bytes(directory / "text.txt", text);
  const Finished trained = nru({"train",   "--task",
                                "char-lm", "--cell",
                                "gru",     "--updates",
                                "4",       "--out",
                                "run",     "--quiet",
                                "--set",   "cell.hidden_size=4",
                                "--set",   "task_options.embedding=3",
                                "--set",   "task_options.window=10",
                                "--set",   "batch_size=4",
                                "--set",   "task_options.text=text.txt"},
                               {.directory = directory.path()});
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_EQ(nru({"eval", directory / "run"}).code, 0);
  fs::create_directory(directory / "moved");
  fs::rename(directory / "text.txt", directory / "moved/text.txt");
  EXPECT_EQ(nru({"eval", directory / "run"}).code, 2);
  const Finished moved = nru({"train", "--resume", "--out", directory / "run", "--set",
                              "task_options.text=" + (directory / "moved/text.txt").string()});
  EXPECT_EQ(moved.code, 0) << moved.err;
  EXPECT_THAT(moved.err, HasSubstr("is finished already"));
  EXPECT_EQ(nru({"eval", directory / "run"}).code, 0);
}

// As what a run leaves that was made on a GPU and copied to a computer without one.
TEST(Eval, ElsewhereThanWhereTheRunWasMade) {
  const TempDir directory;
  const std::string run = directory / "run";
  ASSERT_EQ(nru(small_run() + Arguments{"--out", run}).code, 0);
  const std::string here = nru({"eval", run}).out;
  std::string config = read_bytes(run + "/config.toml");
  config.replace(config.find("\"cpu\""), 5, "\"cuda:99\"");
  write_bytes(run + "/config.toml", config);
  EXPECT_EQ(nru({"eval", run}).code, 2);
  EXPECT_EQ(nru({"eval", run, "--device", "cpu", "--threads", "1"}).out, here);
  EXPECT_EQ(nru({"inspect", run, "--device", "cpu"}).code, 0);
}

TEST(Eval, OnATerminalSaysHowFarItIs) {
  const TempDir directory;
  ASSERT_EQ(nru(small_run() + Arguments{"--out", directory / "run", "--set",
                                        "task_options.evaluation_batches=200"})
                .code,
            0);
  const Arguments slow{"eval", directory / "run", "--lag", "5000"};
  EXPECT_THAT(nru(slow, {.terminal = true}).out, HasSubstr("test split: batch "));
  EXPECT_THAT(nru(slow).err, IsEmpty());
}

TEST(Eval, GivesTheResultsNumbers) {
  const TempDir directory;
  ASSERT_EQ(nru(small_run() + Arguments{"--out", directory / "run"}).code, 0);
  const auto result = json_file(directory / "run/result.json");
  const auto eval = [&](const Arguments& more) {
    return parse_json(nru(Arguments{"eval", directory / "run", "--json"} + more).out);
  };
  const auto best = eval({});
  EXPECT_EQ(best.at("weights"), "best");
  EXPECT_EQ(best.at("split"), "test");
  EXPECT_EQ(best.at("update"), result.at("best").at("update"));
  EXPECT_EQ(best.at("loss"), result.at("best").at("test").at("loss"));
  const auto last = eval({"--weights", "last", "--split", "valid"});
  EXPECT_EQ(last.at("loss"), result.at("final").at("valid").at("loss"));
  EXPECT_EQ(last.at("accuracy"), result.at("final").at("valid").at("accuracy"));
  EXPECT_NEAR(last.at("relative_loss").get<double>(),
              last.at("loss").get<double>() / result.at("baseline_loss").get<double>(), 1e-12);
  EXPECT_NE(eval({"--split", "train"}).at("loss"), last.at("loss"));
  EXPECT_EQ(best.at("lag"), 5);
  const auto longer = eval({"--lag", "50"});
  EXPECT_EQ(longer.at("lag"), 50);
  EXPECT_NE(longer.at("loss"), best.at("loss"));
  EXPECT_EQ(json_file(directory / "run/result.json"), result) << "the run stays as it is";
  EXPECT_THAT(nru({"eval", directory / "run"}).out,
              AllOf(HasSubstr("nru copy-5, best weights (update 60), test split"),
                    HasSubstr("accuracy"), HasSubstr("of the baseline")));
}

}  // namespace
}  // namespace nru::test
