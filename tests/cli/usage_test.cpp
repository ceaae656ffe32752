// Help, version, wrong names, and the commands that only tell.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../support/test_files.h"
#include "program.h"
#include "runs.h"

namespace nru::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

const Arguments kCommands{"train", "eval",      "sample", "inspect", "bench",
                          "list",  "reproduce", "report", "data",    "doctor"};

TEST(Usage, AloneAndHelpShowTheCommandsAndExamples) {
  const Finished alone = nru({}), help = nru({"--help"});
  EXPECT_EQ(alone.code, 0);
  EXPECT_EQ(help.code, 0);
  EXPECT_EQ(alone.out, help.out);
  EXPECT_THAT(help.out, HasSubstr("Examples:\n  nru train --task copy --cell nru"));
  for (const std::string& command : kCommands) EXPECT_THAT(help.out, HasSubstr("\n  " + command));
  EXPECT_THAT(help.err, IsEmpty());
}

TEST(Usage, EveryCommandHasHelpWithExamples) {
  for (const std::string& command : kCommands) {
    const Finished help = nru({command, "--help"});
    EXPECT_EQ(help.code, 0) << command;
    EXPECT_THAT(help.out, HasSubstr("Examples:\n  nru " + command));
  }
}

TEST(Usage, HelpIsACommandToo) {
  EXPECT_EQ(nru({"help"}).out, nru({"--help"}).out);
  for (const Arguments& command : {Arguments{"train"}, Arguments{"data", "get"}}) {
    const Finished help = nru(Arguments{"help"} + command);
    EXPECT_EQ(help.code, 0) << help.err;
    EXPECT_EQ(help.out, nru(command + Arguments{"--help"}).out);
  }
  EXPECT_EQ(nru({"help", "trian"}).code, 2);
}

TEST(Usage, HelpTellsTheExitCodes) {
  EXPECT_THAT(nru({"--help"}).out,
              AllOf(HasSubstr("Exit codes: 0 done"), HasSubstr("130, 143 and 129")));
}

TEST(Usage, WhatIsNotForPeopleIsNotListed) {
  const Finished finished = nru({"quux"});
  EXPECT_THAT(finished.err, AllOf(HasSubstr("known: train, eval"), Not(HasSubstr("worker"))));
  EXPECT_THAT(nru({"worer"}).err, Not(HasSubstr("did you mean")));
}

TEST(Usage, VersionNamesCommitAndTorch) {
  const Finished version = nru({"--version"});
  EXPECT_EQ(version.code, 0);
  EXPECT_THAT(version.out,
              ::testing::MatchesRegex("nru [0-9]+\\.[0-9]+\\.[0-9]+ \\(commit [0-9a-z-]+, torch "
                                      "[0-9]+\\.[0-9]+[^)]*\\)\n"));
}

struct Slip {
  Arguments arguments;
  std::string message;
};

TEST(Usage, SlipsGetTheNearestNameAndExitCodeTwo) {
  const std::vector<Slip> slips = {
      {{"trian"}, "unknown command 'trian'; did you mean 'train'?"},
      {{"--verison"}, "nru has no flag '--verison'; did you mean '--version'?"},
      {{"train", "--taks", "copy"}, "nru train has no flag '--taks'; did you mean '--task'?"},
      {{"train", "--sed=3"}, "nru train has no flag '--sed'; did you mean '--seed'?"},
      {{"train", "copy"}, "nru train does not take 'copy'; see nru train --help"},
      {{"list", "nruu"}, "no cell, task or experiment is called 'nruu'; did you mean 'nru'?"},
      {{"eval"}, "RUN is required; see nru eval --help"},
      {{"train", "--lag"}, "--lag: 1 required T missing; see nru train --help"},
      {{"train", "--out", "--resume"}, "--out: expected a value, found the flag --resume"},
      {{"bench", "--json", "--task", "copy"}, "--json: expected a value, found the flag --task"},
  };
  for (const Slip& slip : slips) {
    const Finished finished = nru(slip.arguments);
    EXPECT_EQ(finished.code, 2) << slip.message;
    EXPECT_THAT(finished.err, StartsWith("nru: " + slip.message));
    EXPECT_EQ(lines_in(finished.err), 1) << finished.err;
    EXPECT_THAT(finished.out, IsEmpty());
  }
}

TEST(Usage, OutputThatCannotBeWrittenIsAnError) {
  const Finished finished = nru({"list"}, {.full_output = true});
  EXPECT_EQ(finished.code, 2);
  EXPECT_THAT(finished.err, AllOf(HasSubstr("cannot write to standard output"),
                                  HasSubstr("free some space or send it elsewhere")));
}

TEST(Usage, OnlyAFullDiskNeedsSpace) {
  const Finished finished = nru({"list"}, {.largest_file = 1000});
  EXPECT_EQ(finished.code, 2);
  EXPECT_THAT(finished.err, AllOf(HasSubstr("File too large"), Not(HasSubstr("free some space"))));
}

TEST(Usage, AReaderThatLeftHasSeenEnough) {
  const TempDir directory;
  const Arguments train = small_run() + Arguments{"--json", "--out", directory / "run"};
  for (const Arguments& command : {Arguments{"list", "--json"}, Arguments{"--help"}, train}) {
    const Finished finished = nru(command, {.unread_output = true});
    EXPECT_EQ(finished.code, 0) << command.front();
    EXPECT_THAT(finished.err, IsEmpty());
  }
  EXPECT_TRUE(std::filesystem::exists(directory / "run/result.json"));
}

TEST(Usage, ClosedOutputIsAnError) {
  const Finished finished = nru({"list"}, {.closed_output = true});
  EXPECT_EQ(finished.code, 2);
  EXPECT_THAT(finished.err, HasSubstr("cannot write to standard output: Bad file descriptor"));
}

// Progress is written to descriptor 2, whatever that is.
TEST(Usage, ClosedStreamsDoNotBecomeFilesOfTheRun) {
  const TempDir directory;
  Arguments loud = small_run();
  std::erase(loud, "--quiet");
  ASSERT_EQ(nru(loud + Arguments{"--out", directory / "open"}).code, 0);
  const Finished closed =
      nru(loud + Arguments{"--out", directory / "closed"}, {.closed_streams = true});
  EXPECT_EQ(closed.code, 0);
  EXPECT_EQ(difference(directory / "open", directory / "closed"), "");
  EXPECT_THAT(read_bytes(directory / "closed/.lock"), ::testing::MatchesRegex("[0-9]+\n"));
  const auto lines = [&](const char* run) {
    return lines_in(read_bytes(directory / run / "metrics.csv"));
  };
  EXPECT_EQ(lines("closed"), lines("open"));
}

TEST(List, ShowsEveryCellWithItsParameters) {
  const Finished finished = nru({"list"});
  EXPECT_EQ(finished.code, 0);
  // SPEC 1.9: 23,569 = 154*80+80 + (8+2*2*16)*144+(8+2*2*16) + 9*81.
  EXPECT_THAT(finished.out, ::testing::ContainsRegex("nru +2,152,450 +23,569"));
  EXPECT_THAT(finished.out, HasSubstr("heads=4 hidden_size=80 memory_size=64"));
  EXPECT_THAT(finished.out, ::testing::ContainsRegex("copy +.*lag 100"));
}

TEST(List, JsonHasTheDocumentedForm) {
  const auto json = parse_json(nru({"list", "--json"}).out);
  ASSERT_EQ(json.size(), 3u);
  std::map<std::string, int> on_copy;
  for (const auto& cell : json.at("cells"))
    on_copy[cell.at("name")] = cell.at("parameters").at("copy").get<int>();
  EXPECT_EQ(on_copy.at("nru"), 23569);
  EXPECT_EQ(on_copy.at("lstm"), 23529);
  ASSERT_FALSE(json.at("tasks").empty());
  EXPECT_EQ(json.at("tasks").at(0).at("name"), "char-lm");
  ASSERT_EQ(json.at("experiments").size(),
            parse_json(nru({"reproduce", "--list", "--json"}).out).size());
  EXPECT_EQ(json.at("experiments").at(2).at("name"), "copy-100");
  EXPECT_EQ(json.at("experiments").at(2).at("runs"), 30);
}

TEST(List, ShowsAnExperiment) {
  const Finished finished = nru({"list", "memory-size"});
  EXPECT_EQ(finished.code, 0);
  for (const char* part : {"lag=100", "cell.memory_size=144", "claim", "nru reproduce memory-size"})
    EXPECT_THAT(finished.out, HasSubstr(part));
  EXPECT_EQ(parse_json(nru({"list", "memory-size", "--json"}).out).at("name"), "memory-size");
}

TEST(List, ShowsATaskAndTheExperimentOfItsName) {
  EXPECT_THAT(nru({"list", "psmnist"}).out,
              AllOf(HasSubstr("Task psmnist: "), HasSubstr("task_options."),
                    HasSubstr("Experiment psmnist: "), HasSubstr("nru reproduce psmnist")));
  const auto json = parse_json(nru({"list", "psmnist", "--json"}).out);
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json.at("task").at("size_class"), "psmnist");
  EXPECT_FALSE(json.at("experiment").at("seeds").empty());
}

TEST(List, ShowsTheSizesOfATask) {
  const std::string copy = nru({"list", "copy"}).out;
  const auto json = parse_json(nru({"list", "copy", "--json"}).out);
  for (const char* size : {"lag", "batch_size", "input_size", "output_size"}) {
    EXPECT_THAT(copy, ::testing::ContainsRegex(std::string(size) + " +" + json.at(size).dump()));
  }
  EXPECT_THAT(copy, ::testing::ContainsRegex("updates +200,000\n"));
  // 10 * ln 8 / (lag 100 + 20), the loss of guessing.
  EXPECT_THAT(copy, ::testing::ContainsRegex("baseline_loss +0\\.1733"));
  EXPECT_THAT(nru({"list", "psmnist"}).out, ::testing::ContainsRegex("epochs +[0-9]+\n"));
}

TEST(List, JsonHasEveryKeyOnDemand) {
  const auto json = parse_json(nru({"list", "--options", "--json"}).out);
  EXPECT_TRUE(std::any_of(json.at("keys").begin(), json.at("keys").end(),
                          [](const auto& key) { return key.at("key") == "learning_rate"; }));
}

TEST(List, ShowsTheOptionsOfACellAndATask) {
  EXPECT_THAT(nru({"list", "nru"}).out,
              AllOf(HasSubstr("cell.memory_size"), HasSubstr("23,569 parameters"),
                    ::testing::ContainsRegex("recommended +on char-lm +anneal=0.5 average=0.999"),
                    Not(HasSubstr("peephole"))));
  EXPECT_THAT(nru({"list", "copy"}).out, HasSubstr("task_options.evaluation_batches"));
  EXPECT_THAT(nru({"list", "--options"}).out,
              AllOf(HasSubstr("checkpoint_every"), HasSubstr("cell.peephole")));
  EXPECT_EQ(parse_json(nru({"list", "nru", "--json"}).out).at("name"), "nru");
}

TEST(Doctor, SaysWhatTheMachineOffers) {
  const Finished human = nru({"doctor"}, {.environment = {{"NRU_DATA", "/nowhere/at-all"}}});
  EXPECT_EQ(human.code, 0) << human.out;
  for (const char* topic : {"torch ", "BLAS ", "SIMD ", "threads ", "memory ", "CUDA ", "gnuplot ",
                            "/nowhere/at-all", "training  works"})
    EXPECT_THAT(human.out, HasSubstr(topic));

  const auto json = parse_json(nru({"doctor", "--json"}).out);
  EXPECT_TRUE(json.at("can_train").get<bool>());
  EXPECT_GE(json.at("threads").get<int>(), 1);
  EXPECT_FALSE(json.at("blas").at("kind").get<std::string>().empty());
}

TEST(Doctor, NamesTheFixForWhatIsMissing) {
  const Finished finished = nru({"doctor"}, {.environment = {{"PATH", "/nowhere"}}});
  EXPECT_EQ(finished.code, 0);  // training works without gnuplot
  EXPECT_THAT(finished.out, HasSubstr("fix: sudo apt-get install gnuplot-nox"));
}

// The paper's sizes, output layer and embedding included.
TEST(List, GivesTheExactNumberOfParametersOnEveryTask) {
  struct Row {
    const char* cell;
    int copy, psmnist, char_lm;
  };
  const std::vector<Row> rows = {
      {"rnn-orth", 23604, 165610, 2150540}, {"rnn-id", 23604, 165610, 2150540},
      {"lstm", 23529, 164210, 2137560},     {"lstm-chrono", 23529, 164210, 2137560},
      {"gru", 23625, 165194, 2187300},      {"janet", 23542, 164150, 2160210},
      {"sru", 23010, 164770, 2117078},      {"eurnn", 23484, 17418, 2119490},
      {"goru", 23642, 164677, 2150220},     {"nru", 23569, 165554, 2152450}};
  const auto json = parse_json(nru({"list", "--json"}).out);
  ASSERT_EQ(json.at("cells").size(), rows.size());
  for (const Row& row : rows) {
    for (const auto& cell : json.at("cells")) {
      if (cell.at("name") != row.cell) continue;
      const auto& counts = cell.at("parameters");
      EXPECT_EQ(counts.at("copy"), row.copy) << row.cell;
      EXPECT_EQ(counts.at("copy-variable"), row.copy) << row.cell;
      EXPECT_EQ(counts.at("denoise"), row.copy) << row.cell;
      EXPECT_EQ(counts.at("psmnist"), row.psmnist) << row.cell;
      EXPECT_EQ(counts.at("char-lm"), row.char_lm) << row.cell;
    }
  }
}

}  // namespace
}  // namespace nru::test
