// The commands that look at a run: `nru inspect` and `nru sample`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../support/test_files.h"
#include "program.h"
#include "runs.h"

namespace nru::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

// ---- inspect ------------------------------------------------------------------------------------

class Inspect : public ::testing::Test {
 protected:
  void train(const Arguments& more = {}) {
    const Finished finished = nru(small_run() + more + Arguments{"--out", run(), "--quiet"});
    ASSERT_EQ(finished.code, 0) << finished.err;
  }
  std::string run() const { return (directory_ / "run").string(); }
  std::string file(const std::string& name) const {
    return read_bytes(directory_ / "run" / "inspect" / name);
  }

  TempDir directory_;
};

TEST_F(Inspect, ShowsParametersMemoryAndGradients) {
  train();
  const Finished finished = nru({"inspect", run()});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(finished.out, AllOf(HasSubstr("layer.head_weight_l0"), HasSubstr("parameters in all"),
                                  HasSubstr("of all change"), HasSubstr("recall"),
                                  HasSubstr("|dL/dh|"), HasSubstr("lags that training never saw")));
  EXPECT_THAT(file("lags.csv"), StartsWith("lag,accuracy,exact,relative_loss\n5,"));
  EXPECT_EQ(lines_in(file("lags.csv")), 6);
  EXPECT_THAT(file("memory.csv"), StartsWith("step,m0,m1,"));
  EXPECT_THAT(file("memory_change.pgm"), StartsWith("P2\n"));
  EXPECT_THAT(file("gradient_flow.csv"), StartsWith("step,norm\n0,"));
  EXPECT_THAT(file("input.csv"), StartsWith("step,input,target\n0,"));
  EXPECT_EQ(lines_in(file("memory.csv")), lines_in(file("input.csv")));
  EXPECT_FALSE(fs::exists(directory_ / "run" / "inspect" / "groups.csv"));
}

// Its accuracy at the run's own lag is not that of `nru eval`, which looks at more.
TEST_F(Inspect, SaysHowManySequencesTheLagsWereTriedOn) {
  train({"--set", "task_options.evaluation_batches=12", "--set", "batch_size=100"});
  EXPECT_THAT(nru({"inspect", run()}).out,
              HasSubstr("never saw (the first 1,000 of 1,200 test sequences each):\n"));
}

TEST_F(Inspect, SharesInJsonAddUpToOne) {
  train();
  const Finished finished = nru({"inspect", run(), "--json", "--out", run() + "/elsewhere"});
  const auto json = parse_json(finished.out);
  double sum = 0;
  for (const auto& part : json.at("memory").at("change")) sum += part.at("share").get<double>();
  EXPECT_NEAR(sum, 1, 1e-9);
  EXPECT_EQ(json.at("memory").at("part"), "m");
  EXPECT_EQ(json.at("lags").size(), 5u);
  EXPECT_EQ(json.at("lags").back().at("lag"), 100);
  EXPECT_TRUE(fs::exists(directory_ / "run" / "elsewhere" / "memory.csv"));
}

TEST_F(Inspect, FollowsAStateThatIsNotReset) {
  train({"--set", "task_options.reset_every=3", "--set", "task_options.evaluation_batches=6"});
  const Finished finished = nru({"inspect", run()});
  EXPECT_THAT(finished.out, HasSubstr("Sequences without a reset in between"));
  EXPECT_EQ(lines_in(file("groups.csv")), 4);  // header, three positions
  EXPECT_FALSE(fs::exists(directory_ / "run" / "inspect" / "lags.csv"));
}

TEST_F(Inspect, WithoutGnuplotTheDataIsThereAndTheWayToGetItIsSaid) {
  train();
  const Finished finished = nru({"inspect", run()}, {.environment = {{"PATH", "/nowhere"}}});
  EXPECT_EQ(finished.code, 0);
  EXPECT_THAT(finished.err, AllOf(HasSubstr("no figures"), HasSubstr("gnuplot")));
  EXPECT_THAT(file("memory.csv"), StartsWith("step,m0,"));
  EXPECT_FALSE(fs::exists(directory_ / "run" / "inspect" / "memory_change.svg"));
}

TEST_F(Inspect, RefusesWhatIsNotThere) {
  EXPECT_EQ(nru({"inspect", run()}).code, 2);
  train();
  const Finished beyond = nru({"inspect", run(), "--index", "100000"});
  EXPECT_EQ(beyond.code, 2);
  EXPECT_THAT(beyond.err, HasSubstr("index 100000 is beyond the test split"));
  EXPECT_EQ(nru({"inspect", run(), "--index", "-1"}).code, 2);
}

// ---- sample -------------------------------------------------------------------------------------

// A run of char-lm: twenty updates on a small text.
class TextRun : public ::testing::Test {
 protected:
  void SetUp() override {
    while (text_.size() < 4000) text_ += "it was so, and it is so.\n";
    write_bytes(file(), text_);
    const Finished finished = nru({"train",   "--task",
                                   "char-lm", "--cell",
                                   "gru",     "--updates",
                                   "20",      "--quiet",
                                   "--out",   run(),
                                   "--set",   "cell.hidden_size=12",
                                   "--set",   "task_options.embedding=5",
                                   "--set",   "task_options.window=20",
                                   "--set",   "batch_size=4",
                                   "--set",   "task_options.text=" + file()});
    ASSERT_EQ(finished.code, 0) << finished.err;
  }
  std::string run() const { return (directory_ / "run").string(); }
  std::string file() const { return (directory_ / "text.txt").string(); }

  TempDir directory_;
  std::string text_;
};

TEST_F(TextRun, HasNoPartsWhoseChangeWouldBeShown) {
  const Finished finished = nru({"inspect", run()});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(finished.out, AllOf(HasSubstr("parameters in all"), HasSubstr("|dL/dh|"),
                                  Not(HasSubstr("One test sequence"))));
}

// Ids go by first appearance: with other text they would mean other symbols, and the splits would
// be other ones even where they do not.
TEST_F(TextRun, IsRefusedWhenItsTextHasChanged) {
  const std::string checkpoint = read_bytes(run() + "/checkpoint.safetensors");
  for (const std::string& other : {"We saw.\n" + text_, text_ + text_.substr(0, 250)}) {
    write_bytes(file(), other);
    for (const Arguments& look :
         {Arguments{"eval", run()}, Arguments{"inspect", run()},
          Arguments{"train", "--resume", "--out", run(), "--updates", "40"}}) {
      const Finished refused = nru(look);
      EXPECT_EQ(refused.code, 2) << look.front();
      EXPECT_THAT(refused.err, HasSubstr("put the data back as they were"));
    }
  }
  EXPECT_EQ(read_bytes(run() + "/checkpoint.safetensors"), checkpoint);
  write_bytes(file(), text_);
  EXPECT_EQ(nru({"eval", run()}).code, 0);
  EXPECT_EQ(nru({"train", "--resume", "--out", run(), "--updates", "40", "--quiet"}).code, 0);
}

class Sample : public TextRun {
 protected:
  // The text is not needed any more.
  void SetUp() override {
    TextRun::SetUp();
    fs::remove(file());
  }
};

TEST_F(Sample, WritesTheSameTextForASeed) {
  const Arguments sample{"sample", run(), "--prompt", "it was", "--length", "50", "--seed"};
  const Finished first = nru(sample + Arguments{"3"}), again = nru(sample + Arguments{"3"}),
                 other = nru(sample + Arguments{"4"});
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(first.out, StartsWith("it was"));
  EXPECT_EQ(first.out.size(), std::string("it was").size() + 50 + 1);
  EXPECT_EQ(first.out, again.out);
  EXPECT_NE(first.out, other.out);
}

TEST_F(Sample, FromTheLastWeightsWhereThereAreNoBest) {
  const Arguments last{"sample", run(), "--length", "20", "--weights", "last"};
  const std::string text = nru(last).out;
  EXPECT_EQ(text.size(), 21u);
  fs::remove(run() + "/best.safetensors");
  EXPECT_EQ(nru({"sample", run(), "--length", "20"}).out, text);
}

TEST_F(Sample, AsJsonAndWithoutAPrompt) {
  const Finished finished = nru({"sample", run(), "--length", "9", "--temperature", "0", "--json"});
  const auto json = parse_json(finished.out);
  EXPECT_EQ(json.at("text").get<std::string>().size(), 9u);
  EXPECT_EQ(json.at("prompt"), "");
  EXPECT_THAT(finished.err, IsEmpty());
}

TEST_F(Sample, SaysWhatIsWrong) {
  const Finished unknown = nru({"sample", run(), "--prompt", "it % is"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("%"));
  const Finished cold = nru({"sample", run(), "--temperature", "-1"});
  EXPECT_EQ(cold.code, 2);
  EXPECT_THAT(cold.err, HasSubstr("temperature -1 is not possible"));
  EXPECT_EQ(nru({"sample", run(), "--length", "0"}).code, 2);
  const std::string copy = (directory_ / "copy").string();
  ASSERT_EQ(nru(small_run() + Arguments{"--out", copy, "--quiet"}).code, 0);
  const Finished no_text = nru({"sample", copy});
  EXPECT_EQ(no_text.code, 2);
  EXPECT_THAT(no_text.err, HasSubstr("no vocabulary"));
}

}  // namespace
}  // namespace nru::test
