// The character model's batches: lanes, windows, what is carried, how it is scored and weighed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "data_files.h"

namespace nru::tasks {
namespace {

using test::batch_of;
using test::same_batch;
using testing::HasSubstr;

class CharLm : public testing::Test {
 protected:
  // Texts in which a character says where it stands: 26 letters, over and over, from `a` in train,
  // `b` in valid and `c` in test.
  CharLm() {
    const std::size_t sizes[] = {4 * 103 + 3, 4 * 31, 4 * 21 + 1};
    const char* names[] = {"train.txt", "valid.txt", "test.txt"};
    for (int i = 0; i < 3; ++i) {
      std::string text;
      for (std::size_t at = 0; at < sizes[i]; ++at) text += letter(at + i);
      test::write_bytes(directory_ / names[i], text);
    }
  }
  static char letter(std::size_t at) { return static_cast<char>('a' + at % 26); }

  std::unique_ptr<Task> make(int lanes, OptionMap options) const {
    options.emplace("text", directory_.path().string());
    return test::make_task("char-lm", lanes, options);
  }
  std::unique_ptr<Task> make(int lanes, std::int64_t window) const {
    return make(lanes, OptionMap{{"window", window}});
  }

  test::TempDir directory_;
};

// A lane of 103 tokens has 102 predictions: 10 windows of 10 and one of 2. Read on, lane by lane,
// the windows are the text without its remainder.
TEST_F(CharLm, WindowsTileTheLanes) {
  struct Case {
    Split split;
    int shift, length, windows, last;
  };
  const auto task = make(4, 10);
  for (const Case c : {Case{Split::train, 0, 103, 11, 2}, Case{Split::valid, 1, 31, 3, 10},
                       Case{Split::test, 2, 21, 2, 10}}) {
    SCOPED_TRACE(to_string(c.split));
    ASSERT_EQ(task->evaluation_batches(c.split), c.windows);
    std::vector<int> place(4, 0);
    double weight = 0;
    for (int window = 0; window < c.windows; ++window) {
      const Batch batch = batch_of(*task, c.split, window);
      ASSERT_EQ(batch.rows, 4);
      ASSERT_EQ(batch.steps, window + 1 < c.windows ? 10 : c.last);
      ASSERT_EQ(batch.symbols.size(), static_cast<std::size_t>(4 * batch.steps));
      ASSERT_EQ(batch.targets.size(), batch.symbols.size());
      EXPECT_EQ(batch.carry, window == 0 ? Carry::nothing : Carry::state);
      EXPECT_EQ(batch.loss_from, 0);
      EXPECT_EQ(batch.baseline, 0);
      EXPECT_TRUE(batch.dense.empty() && batch.weights.empty());
      for (int lane = 0; lane < 4; ++lane) {
        for (int t = 0; t < batch.steps; ++t, ++place[lane]) {
          // Ids by first appearance in train: a is 0.
          const int token = (c.shift + lane * c.length + place[lane]) % 26;
          ASSERT_EQ(batch.symbols[t * 4 + lane], token) << "window " << window << " lane " << lane;
          ASSERT_EQ(batch.targets[t * 4 + lane], (token + 1) % 26);
        }
      }
      weight += task->evaluation_weight(batch);
    }
    for (const int tokens : place) EXPECT_EQ(tokens, c.length - 1);
    EXPECT_EQ(weight, 4 * (c.length - 1));
  }
}

TEST_F(CharLm, EveryEpochBeginsAnew) {
  const auto task = make(4, 10);
  ASSERT_EQ(task->updates_per_epoch(), 11);
  EXPECT_TRUE(task->carries_state());
  for (std::uint64_t window = 0; window < 11; ++window) {
    EXPECT_TRUE(same_batch(batch_of(*task, Split::train, window),
                           batch_of(*task, Split::train, 11 * 7 + window)));
  }
  EXPECT_EQ(batch_of(*task, Split::train, 11).carry, Carry::nothing);
}

TEST_F(CharLm, TheStateBeginsAnewEverySoManyWindows) {
  const auto task = make(4, {{"window", std::int64_t{10}}, {"reset_every", std::int64_t{3}}});
  EXPECT_TRUE(task->carries_state());
  for (const Split split : {Split::train, Split::valid, Split::test}) {
    for (int window = 0; window < task->evaluation_batches(split); ++window) {
      EXPECT_EQ(batch_of(*task, split, window).carry,
                window % 3 == 0 ? Carry::nothing : Carry::state)
          << to_string(split) << " " << window;
    }
  }
  // 11 windows are an epoch: the second begins anew, and counts its own.
  for (int window : {11, 14}) {
    EXPECT_EQ(batch_of(*task, Split::train, window).carry, Carry::nothing);
    EXPECT_EQ(batch_of(*task, Split::train, window + 1).carry, Carry::state);
  }
  const auto apart = make(4, {{"window", std::int64_t{10}}, {"reset_every", std::int64_t{1}}});
  EXPECT_FALSE(apart->carries_state());
  EXPECT_EQ(batch_of(*apart, Split::train, 1).carry, Carry::nothing);
}

TEST_F(CharLm, AWindowLongerThanTheLanesIsOne) {
  const auto task = make(4, 1000);
  EXPECT_EQ(task->updates_per_epoch(), 1);
  EXPECT_FALSE(task->carries_state());
  EXPECT_EQ(batch_of(*task, Split::train, 0).steps, 102);
  EXPECT_EQ(batch_of(*task, Split::train, 1).carry, Carry::nothing);
}

TEST_F(CharLm, ABatchDependsOnNothingButItsCoordinates) {
  const auto task = make(4, 10);
  std::map<int, Batch> first;
  for (const int i : {0, 5, 10}) first[i] = batch_of(*task, Split::train, i);
  Batch reused = test::used_batch();
  for (const int i : {10, 0, 5}) {
    task->make_batch(Split::train, i, reused);
    EXPECT_TRUE(same_batch(reused, first[i])) << i;
    task->make_batch(Split::valid, 1, reused);
  }
}

TEST_F(CharLm, SizesOfTheTask) {
  const auto task = make(4, 10);
  EXPECT_EQ(task->input_size(), 26);
  EXPECT_EQ(task->output_size(), 26);
  EXPECT_EQ(task->embedding_size(), 200);
  EXPECT_EQ(make(4, OptionMap{{"embedding", std::int64_t{0}}})->embedding_size(), 0);
  EXPECT_EQ(task->baseline(), 0);
  const std::string vocabulary = task->metadata().at("vocabulary");
  EXPECT_THAT(vocabulary, testing::StartsWith(R"(["a","b","c",)"));
  const TaskInfo& info = find_task("char-lm");
  EXPECT_EQ(info.widths, (Widths{50, 200, 50}));
  EXPECT_EQ(info.select_by, SelectBy::loss);
  EXPECT_EQ(info.defaults.epochs, 20);
  EXPECT_EQ(info.defaults.batch_size, 128);
  TaskSettings settings;
  settings.options = resolve_options(info.options, {}, "task char-lm");
  EXPECT_EQ(info.chrono_t_max(settings), 50);
  settings.options["window"] = std::int64_t{3};
  EXPECT_EQ(info.chrono_t_max(settings), 2);
}

TEST_F(CharLm, MetricsOfOursAndOfTheAuthors) {
  const auto ours = make(4, 10);
  const auto theirs = make(4, OptionMap{{"window", std::int64_t{10}}, {"authors_metric", true}});
  const Batch last = batch_of(*ours, Split::train, 10);
  EXPECT_EQ(ours->evaluation_weight(last), 8);
  EXPECT_EQ(theirs->evaluation_weight(last), 1);
  EXPECT_EQ(theirs->evaluation_weight(batch_of(*theirs, Split::train, 0)), 1);
  EXPECT_DOUBLE_EQ(*ours->bpc(1.5), 1.5 / std::log(2.0));
  EXPECT_DOUBLE_EQ(*theirs->bpc(1.5), 1.5 / 0.693);
}

TEST_F(CharLm, ScoresEveryCharacter) {
  const auto task = make(4, 10);
  const Batch batch = batch_of(*task, Split::valid, 0);
  std::vector<std::int32_t> predictions = batch.targets;
  EXPECT_EQ(task->score(batch, predictions), (Score{40, 40, 0, 0}));
  predictions[0] = (predictions[0] + 1) % 26;
  predictions[39] = (predictions[39] + 1) % 26;
  EXPECT_EQ(task->score(batch, predictions), (Score{38, 40, 0, 0}));
}

TEST_F(CharLm, OneFileByFractions) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += letter(i);
  test::write_bytes(directory_ / "one", text);
  const OptionMap options = {{"text", (directory_ / "one").string()},
                             {"valid_fraction", 0.1},
                             {"test_fraction", 0.2},
                             {"window", std::int64_t{1000}}};
  const auto task = test::make_task("char-lm", 2, options);
  EXPECT_EQ(batch_of(*task, Split::train, 0).steps, 349);
  EXPECT_EQ(batch_of(*task, Split::valid, 0).steps, 49);
  EXPECT_EQ(batch_of(*task, Split::test, 0).steps, 99);
  EXPECT_EQ(batch_of(*task, Split::valid, 0).symbols[0], 700 % 26);
  EXPECT_EQ(batch_of(*task, Split::test, 0).symbols[0], 800 % 26);
}

TEST_F(CharLm, ImpossibleSettings) {
  const auto error = [&](int lanes, OptionMap options) {
    return test::error_of([&] { make(lanes, std::move(options)); });
  };
  EXPECT_THAT(error(4, {{"window", std::int64_t{0}}}),
              HasSubstr("task_options.window 0 is not possible; choose 1 to 1000000"));
  EXPECT_THAT(error(4, {{"reset_every", std::int64_t{-1}}}),
              HasSubstr("task_options.reset_every -1"));
  EXPECT_THAT(error(4, {{"embedding", std::int64_t{-1}}}), HasSubstr("task_options.embedding -1"));
  EXPECT_THAT(error(0, {}), HasSubstr("batch_size 0 is not possible"));
  EXPECT_THAT(error(50, {}), HasSubstr("the test text of 85 characters is too short for batch_size "
                                       "50; choose 42 or less"));
  EXPECT_THAT(error(4, {{"data", std::string("x")}}), HasSubstr("are both set"));
  for (const auto& [valid, test] :
       {std::pair(0.0, 0.1), std::pair(0.5, 0.5), std::pair(0.1, -0.1)}) {
    EXPECT_THAT(error(4, {{"text", (directory_ / "train.txt").string()},
                          {"valid_fraction", valid},
                          {"test_fraction", test}}),
                HasSubstr("both must be above 0 and their sum below 1"));
  }
  const test::TempDir empty;
  EXPECT_THAT(test::error_of([&] {
                test::make_task("char-lm", 4, {{"data", empty.path().string()}});
              }),
              HasSubstr("no ptb.char.train.txt in " + (empty.path() / "ptb").string() +
                        "; get it with: nru data get ptb --dir " + empty.path().string()));
}

TEST(CharLmGolden, PennTreebank) {
  const auto directory = test::real_data("ptb");
  if (!directory) GTEST_SKIP() << "no Penn Treebank here; get it with: nru data get ptb";
  const auto task = test::make_task("char-lm", 128, {{"data", directory->string()}});
  EXPECT_EQ(task->input_size(), 50);
  EXPECT_EQ(task->updates_per_epoch(), 262);
  EXPECT_EQ(batch_of(*task, Split::train, 260).steps, 150);
  EXPECT_EQ(batch_of(*task, Split::train, 261).steps, 48);
  EXPECT_EQ(task->evaluation_batches(Split::valid), 21);
  EXPECT_EQ(task->evaluation_batches(Split::test), 24);
  EXPECT_EQ(batch_of(*task, Split::test, 23).steps, 5);
}

}  // namespace
}  // namespace nru::tasks
