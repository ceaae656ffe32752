// Places in a task, with the ties of each kind.
#include "report/ranking.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "made_up.h"

namespace nru::report {
namespace {

using test::Cast;
using ::testing::ElementsAre;

std::vector<std::string> places(const std::string& task, const Cast& cast) {
  experiments::Experiment experiment = test::experiment_of("x", {});
  experiment.run["task"] = task;
  std::vector<std::string> found;
  for (const Place& place : rank(experiment, cast.series()).places) {
    found.push_back(std::to_string(place.place) + " " + place.cell);
  }
  return found;
}

TEST(Ranking, WithinTenPercentIsATie) {
  Cast cast;
  cast.add({.cell = "gru", .solved_at = 11001}).add({.cell = "nru", .solved_at = 10000});
  EXPECT_THAT(places("copy", cast), ElementsAre("1 nru", "2 gru"));
  cast.add({.cell = "janet", .solved_at = 11000});
  EXPECT_THAT(places("copy", cast), ElementsAre("1 nru", "1 janet", "3 gru"));
}

TEST(Ranking, TiesAreCountedFromTheirLeader) {
  // 100, 109, 118: the third is within 10 % of the second, not of the first.
  Cast cast;
  cast.add({.cell = "a", .solved_at = 100})
      .add({.cell = "b", .solved_at = 109})
      .add({.cell = "c", .solved_at = 118});
  EXPECT_THAT(places("copy", cast), ElementsAre("1 a", "1 b", "3 c"));
}

TEST(Ranking, UnsolvedComeLastByTheirLoss) {
  Cast cast;
  cast.add({.cell = "lstm", .best_ratio = 0.9})
      .add({.cell = "sru", .best_ratio = 0.5})
      .add({.cell = "nru", .solved_at = 50000});
  EXPECT_THAT(places("copy-variable", cast), ElementsAre("1 nru", "2 sru", "3 lstm"));
}

TEST(Ranking, DenoisingTiesAllThatSolve) {
  Cast cast;
  cast.add({.cell = "nru", .solved_at = 1000})
      .add({.cell = "gru", .solved_at = 50000})
      .add({.cell = "eurnn"});
  EXPECT_THAT(places("denoise", cast), ElementsAre("1 nru", "1 gru", "3 eurnn"));
}

TEST(Ranking, BitsToTwoDecimalsAccuracyToATenthOfAPoint) {
  Cast cast;
  cast.add({.cell = "gru", .accuracy = 0.9511, .bpc = 1.454})
      .add({.cell = "nru", .accuracy = 0.9496, .bpc = 1.446})
      .add({.cell = "lstm", .accuracy = 0.94, .bpc = 1.48});
  EXPECT_THAT(places("char-lm", cast), ElementsAre("1 gru", "1 nru", "3 lstm"));
  EXPECT_THAT(places("psmnist", cast), ElementsAre("1 gru", "2 nru", "3 lstm"));
  cast.add({.cell = "janet", .accuracy = 0.9504});
  EXPECT_THAT(places("psmnist", cast), ElementsAre("1 gru", "2 nru", "2 janet", "4 lstm"));
}

TEST(Ranking, RunsThatCannotBeComparedHaveNoPlace) {
  Cast cast;
  cast.add({.cell = "nru", .solved_at = 1000})
      .add({.cell = "gru", .solved_at = 500, .comparable = false})
      .add({.cell = "lstm", .shortened = true})
      .add({.cell = "janet", .solved_at = 3000, .shortened = true});
  EXPECT_THAT(places("copy", cast), ElementsAre("1 nru", "2 janet"));
}

TEST(Ranking, OnlyCompleteTasksCount) {
  Collection collection;
  collection.experiments = {test::experiment_of("one", {"nru", "gru"}),
                            test::experiment_of("two", {"nru", "gru"})};
  experiments::Experiment all = test::experiment_of("ranking", {"nru", "gru"});
  all.run.clear();
  all.figure = experiments::FigureKind::ranking;
  all.uses = {"one", "two"};
  const auto add = [&](const std::string& experiment, const test::MadeUp& made) {
    collection.runs.push_back(test::run_of(made));
    collection.runs.back().experiment = experiment;
  };
  add("one", {.cell = "nru", .solved_at = 100});
  add("one", {.cell = "gru", .solved_at = 900});
  add("two", {.cell = "nru", .solved_at = 100});
  Ranking ranking = rank_all(collection, all);
  EXPECT_EQ(ranking.complete, 1);
  EXPECT_EQ(ranking.top1.at("nru"), 1);
  EXPECT_EQ(ranking.top1.at("gru"), 0);
  EXPECT_EQ(ranking.top2.at("gru"), 1);
  EXPECT_THAT(ranking.tasks[1].missing, ElementsAre("gru"));
  add("two", {.cell = "gru", .solved_at = 50});
  ranking = rank_all(collection, all);
  EXPECT_EQ(ranking.complete, 2);
  EXPECT_EQ(ranking.top1.at("gru"), 1);
}

}  // namespace
}  // namespace nru::report
