// Every kind of claim, confirmed and refuted by made-up runs, and "not run" until there are enough.
#include "report/claims.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "made_up.h"

namespace nru::report {
namespace {

using experiments::CheckKind;
using experiments::Claim;
using test::Cast;
using ::testing::HasSubstr;

Claim claim(CheckKind check, std::vector<std::string> cells, std::vector<std::string> among = {}) {
  Claim made;
  made.text = "a claim";
  made.check = check;
  made.cells = std::move(cells);
  made.among = std::move(among);
  return made;
}

Claim metric_claim(CheckKind check, const std::string& metric, std::vector<std::string> cells,
                   std::vector<std::string> among = {}) {
  Claim made = claim(check, std::move(cells), std::move(among));
  made.metric = metric;
  return made;
}

Claim value_claim(CheckKind check, const std::string& metric, double value,
                  std::vector<std::string> cells) {
  Claim made = metric_claim(check, metric, std::move(cells));
  made.value = value;
  return made;
}

Judgement judged(const Claim& about, const Cast& cast) { return judge(about, cast.series()); }
Verdict verdict(const Claim& about, const Cast& cast) { return judged(about, cast).verdict; }

constexpr Verdict kYes = Verdict::confirmed, kNo = Verdict::not_confirmed, kOpen = Verdict::not_run;

TEST(Claims, First) {
  const Claim first = claim(CheckKind::first, {"nru"}, {"nru", "janet", "lstm"});
  Cast cast;
  cast.add({.cell = "nru", .solved_at = 20000});
  EXPECT_EQ(verdict(first, cast), kOpen);  // the others have not been run
  cast.add({.cell = "janet", .solved_at = 50000}).add({.cell = "lstm"});
  const Judgement judgement = judged(first, cast);
  EXPECT_EQ(judgement.verdict, kYes);
  EXPECT_EQ(judgement.reason,
            "solved at: NRU 20,000; JANET 50,000, LSTM not solved in 60,000 updates");
  cast.add({.cell = "lstm", .seed = 2, .solved_at = 10000});
  EXPECT_EQ(verdict(first, cast), kYes);  // its median is still "not solved"
  cast.add({.cell = "lstm", .seed = 3, .solved_at = 10000});
  EXPECT_EQ(verdict(first, cast), kNo);
}

// The table counts them, so that "not run" would contradict it.
TEST(Claims, RunsWithOtherSettingsAreNamedAsSuch) {
  const Claim first = claim(CheckKind::first, {"nru"}, {"nru", "janet", "eurnn"});
  Cast cast;
  cast.add({.cell = "nru", .solved_at = 20000});
  cast.add({.cell = "eurnn", .solved_at = 207, .comparable = false});
  EXPECT_EQ(judged(first, cast).verdict, kOpen);
  EXPECT_EQ(judged(first, cast).reason,
            "solved at: NRU 20,000; JANET not run, EURNN only with other settings");
  EXPECT_EQ(judged(claim(CheckKind::solves, {"eurnn", "janet"}), cast).reason,
            "EURNN only with other settings; JANET not run");
}

TEST(Claims, FirstNeedsToSolveAndATieIsNoLead) {
  const Claim first = claim(CheckKind::first, {"nru"}, {"nru", "janet"});
  EXPECT_EQ(verdict(first, Cast().add({.cell = "nru"}).add({.cell = "janet"})), kNo);
  EXPECT_EQ(
      verdict(
          first,
          Cast().add({.cell = "nru", .solved_at = 500}).add({.cell = "janet", .solved_at = 500})),
      kNo);
}

TEST(Claims, ARefutationNeedsNoCompleteField) {
  const Claim first = claim(CheckKind::first, {"nru"}, {"nru", "janet", "gru"});
  EXPECT_EQ(
      verdict(
          first,
          Cast().add({.cell = "nru", .solved_at = 500}).add({.cell = "janet", .solved_at = 400})),
      kNo);
}

TEST(Claims, ARunTooShortToSolveSaysNothing) {
  const Claim first = claim(CheckKind::first, {"nru"}, {"nru", "janet"});
  Cast cast;
  cast.add({.cell = "nru", .solved_at = 20000});
  EXPECT_EQ(verdict(first, Cast(cast).add({.cell = "janet", .updates = 5000})), kOpen);
  EXPECT_EQ(verdict(first, Cast(cast).add({.cell = "janet",
                                           .updates = 5000,
                                           .status = training::RunStatus::diverged})),
            kYes);
}

TEST(Claims, SolvesInMostSeeds) {
  const Claim solves = claim(CheckKind::solves, {"nru", "gru"});
  Cast cast;
  cast.add({.cell = "nru", .solved_at = 500});
  EXPECT_EQ(verdict(solves, cast), kOpen);
  cast.add({.cell = "gru", .solved_at = 500}).add({.cell = "gru", .seed = 2});
  EXPECT_EQ(verdict(solves, cast), kNo);  // one of two is not most
  cast.add({.cell = "gru", .seed = 3, .solved_at = 500});
  EXPECT_EQ(verdict(solves, cast), kYes);
  EXPECT_THAT(judged(solves, cast).reason, HasSubstr("GRU 2 of 3 solved in 60,000 updates"));
}

TEST(Claims, Unsolved) {
  const Claim unsolved = claim(CheckKind::unsolved, {"eurnn"});
  Cast cast;
  EXPECT_EQ(verdict(unsolved, cast), kOpen);
  cast.add({.cell = "eurnn"});
  EXPECT_EQ(verdict(unsolved, cast), kYes);
  cast.add({.cell = "eurnn", .seed = 2, .solved_at = 59000});
  EXPECT_EQ(verdict(unsolved, cast), kNo);
}

TEST(Claims, AtBaseline) {
  const Claim stuck = value_claim(CheckKind::at_baseline, "", 0.9, {"rnn-orth"});
  EXPECT_EQ(verdict(stuck, Cast().add({.cell = "rnn-orth", .best_ratio = 1})), kYes);
  EXPECT_EQ(verdict(stuck, Cast().add({.cell = "rnn-orth", .best_ratio = 0.5})), kNo);
}

TEST(Claims, Ratio) {
  Claim ratio = metric_claim(CheckKind::ratio, "solved_at", {"janet", "nru"});
  ratio.low = 2;
  ratio.high = 3;
  const auto cast = [](std::int64_t janet) {
    return Cast()
        .add({.cell = "nru", .solved_at = 10000})
        .add({.cell = "janet", .solved_at = janet});
  };
  EXPECT_EQ(verdict(ratio, cast(25000)), kYes);
  EXPECT_THAT(judged(ratio, cast(25000)).reason, HasSubstr("ratio 2.5"));
  EXPECT_EQ(verdict(ratio, cast(19000)), kNo);
  EXPECT_EQ(verdict(ratio, cast(31000)), kNo);
  // Not solved in 60,000: more than six times as many.
  const Cast never = Cast().add({.cell = "nru", .solved_at = 10000}).add({.cell = "janet"});
  EXPECT_EQ(verdict(ratio, never), kNo);
  EXPECT_THAT(judged(ratio, never).reason, HasSubstr("at least 6"));
  ratio.high.reset();
  EXPECT_EQ(verdict(ratio, never), kYes);
  // Not solved in a budget that leaves it open.
  ratio.high = 8;
  EXPECT_EQ(verdict(ratio, never), kOpen);
  EXPECT_EQ(verdict(ratio, Cast().add({.cell = "nru"}).add({.cell = "janet", .solved_at = 5})),
            kNo);
  EXPECT_EQ(verdict(ratio, Cast().add({.cell = "janet", .solved_at = 5})), kOpen);
}

TEST(Claims, BestKnowsWhichWayIsBetter) {
  const Claim accuracy = metric_claim(CheckKind::best, "test_accuracy", {"nru"}, {"nru", "gru"});
  const auto cast = [](double nru, double gru) {
    return Cast()
        .add({.cell = "nru", .accuracy = nru, .bpc = nru})
        .add({.cell = "gru", .accuracy = gru, .bpc = gru});
  };
  EXPECT_EQ(verdict(accuracy, cast(0.95, 0.92)), kYes);
  EXPECT_EQ(verdict(accuracy, cast(0.92, 0.95)), kNo);
  const Claim bits = metric_claim(CheckKind::best, "test_bpc", {"nru"}, {"nru", "gru"});
  EXPECT_EQ(verdict(bits, cast(1.4, 1.5)), kYes);
  EXPECT_EQ(verdict(bits, cast(1.5, 1.4)), kNo);
}

TEST(Claims, Order) {
  const Claim order = metric_claim(CheckKind::order, "test_accuracy", {"nru", "gru", "lstm"});
  Cast cast;
  cast.add({.cell = "nru", .accuracy = 0.9}).add({.cell = "lstm", .accuracy = 0.8});
  EXPECT_EQ(verdict(order, cast), kOpen);
  EXPECT_EQ(verdict(order, Cast(cast).add({.cell = "gru", .accuracy = 0.85})), kYes);
  EXPECT_EQ(verdict(order, Cast(cast).add({.cell = "gru", .accuracy = 0.7})), kNo);
  EXPECT_EQ(verdict(order, Cast(cast).add({.cell = "gru", .accuracy = 0.9})), kYes);  // no worse
}

TEST(Claims, ARunThatDivergesHasBurst) {
  const Claim unstable = value_claim(CheckKind::at_least, "bursts", 1, {"nru"});
  EXPECT_EQ(verdict(unstable, Cast().add({.cell = "nru"})), kNo);
  EXPECT_EQ(verdict(unstable, Cast().add({.cell = "nru", .status = training::RunStatus::diverged})),
            kYes);
}

TEST(Claims, AtLeastAndAtMost) {
  const Claim quick = value_claim(CheckKind::at_most, "solved_at", 1000, {"eurnn"});
  EXPECT_EQ(verdict(quick, Cast().add({.cell = "eurnn", .solved_at = 700})), kYes);
  EXPECT_EQ(verdict(quick, Cast().add({.cell = "eurnn", .solved_at = 1700})), kNo);
  EXPECT_EQ(verdict(quick, Cast().add({.cell = "eurnn"})), kNo);  // never
  const Claim good = value_claim(CheckKind::at_least, "test_accuracy", 0.95, {"nru/k2", "nru/k5"});
  Cast cast;
  cast.add({.cell = "nru", .variant = "k2", .accuracy = 0.97});
  EXPECT_EQ(verdict(good, cast), kOpen);
  EXPECT_EQ(verdict(good, Cast(cast).add({.cell = "nru", .variant = "k5", .accuracy = 0.96})),
            kYes);
  EXPECT_EQ(verdict(good, Cast(cast).add({.cell = "nru", .variant = "k5", .accuracy = 0.9})), kNo);
}

TEST(Claims, Finite) {
  const Claim finite = claim(CheckKind::finite, {"nru"});
  Cast cast;
  cast.add({.cell = "nru"});
  EXPECT_EQ(verdict(finite, cast), kYes);
  cast.add({.cell = "nru", .seed = 2, .status = training::RunStatus::diverged});
  EXPECT_EQ(verdict(finite, cast), kNo);
  EXPECT_THAT(judged(finite, cast).reason, HasSubstr("1 of 2 diverged"));
}

TEST(Claims, UnfinishedRunsDoNotCount) {
  const Claim unsolved = claim(CheckKind::unsolved, {"nru"});
  EXPECT_EQ(
      verdict(unsolved, Cast().add({.cell = "nru", .status = training::RunStatus::interrupted})),
      kOpen);
  EXPECT_EQ(verdict(unsolved, Cast().add({.cell = "nru",
                                          .solved_at = 100,
                                          .status = training::RunStatus::interrupted})),
            kNo);  // what it solved stays solved
}

TEST(Claims, RunsWithOtherSettingsDoNotCount) {
  const Claim solves = claim(CheckKind::solves, {"nru"});
  EXPECT_EQ(verdict(solves, Cast().add({.solved_at = 100, .comparable = false})), kOpen);
  EXPECT_EQ(verdict(solves, Cast().add({.comparable = false})), kOpen);
}

TEST(Claims, WhatAShortenedRunDidNotReachIsOpen) {
  const Cast unsolved = Cast().add({.updates = 6000, .shortened = true});
  const Cast solved = Cast().add({.updates = 6000, .solved_at = 500, .shortened = true});
  const Claim solves = claim(CheckKind::solves, {"nru"});
  EXPECT_EQ(verdict(solves, unsolved), kOpen);
  EXPECT_EQ(verdict(solves, solved), kYes);
  const Claim never = claim(CheckKind::unsolved, {"nru"});
  EXPECT_EQ(verdict(never, unsolved), kOpen);
  EXPECT_EQ(verdict(never, solved), kNo);
  const Claim stuck = value_claim(CheckKind::at_baseline, "", 0.9, {"nru"});
  EXPECT_EQ(verdict(stuck, unsolved), kOpen);
  EXPECT_EQ(verdict(stuck, Cast().add({.best_ratio = 0.3, .shortened = true})), kNo);
  EXPECT_EQ(verdict(value_claim(CheckKind::at_most, "solved_at", 1000, {"nru"}), unsolved), kNo);
  EXPECT_EQ(verdict(value_claim(CheckKind::at_most, "solved_at", 9000, {"nru"}), unsolved), kOpen);
  const Claim first = claim(CheckKind::first, {"nru"}, {"nru", "gru"});
  EXPECT_EQ(verdict(first, Cast(unsolved).add({.cell = "gru", .solved_at = 9000})), kOpen);
  EXPECT_EQ(verdict(first, Cast(solved).add({.cell = "gru", .updates = 6000, .shortened = true})),
            kYes);
  const Claim best = metric_claim(CheckKind::best, "test_accuracy", {"nru"}, {"nru", "gru"});
  EXPECT_EQ(
      verdict(
          best,
          Cast().add({.accuracy = 0.9, .shortened = true}).add({.cell = "gru", .accuracy = 0.8})),
      kOpen);
  Claim same = metric_claim(CheckKind::ratio, "test_accuracy", {"nru", "gru"});
  same.low = 0.9;
  same.high = 1.1;
  Cast alike = Cast().add({.accuracy = 0.1}).add({.cell = "gru", .accuracy = 0.1});
  EXPECT_EQ(verdict(same, alike), kYes);
  alike.add({.cell = "gru", .seed = 2, .accuracy = 0.1, .shortened = true});
  EXPECT_EQ(verdict(same, alike), kOpen);
}

// What went well so far does not say that it goes well to the end.
TEST(Claims, WhatAShortenedRunWasSparedIsOpen) {
  using training::RunStatus;
  const Cast whole = Cast().add({.updates = 6000});
  const Cast part = Cast().add({.updates = 100, .shortened = true});
  const Cast solved = Cast().add({.updates = 6000, .solved_at = 500, .shortened = true});
  const Cast stopped =
      Cast().add({.updates = 6000, .solved_at = 500, .status = RunStatus::interrupted});
  const Cast diverged = Cast(part).add({.seed = 2, .status = RunStatus::diverged});
  const Claim finite = claim(CheckKind::finite, {"nru"});
  EXPECT_EQ(verdict(finite, whole), kYes);
  EXPECT_EQ(verdict(finite, part), kOpen);
  EXPECT_EQ(verdict(finite, solved), kOpen);
  EXPECT_EQ(verdict(finite, stopped), kOpen);
  EXPECT_EQ(verdict(finite, diverged), kNo);
  EXPECT_EQ(verdict(finite, Cast(whole).add({.seed = 2, .shortened = true})), kOpen);
  const Claim settles = value_claim(CheckKind::at_most, "baseline_ratio", 1.2, {"nru"});
  EXPECT_EQ(verdict(settles, whole), kYes);
  EXPECT_EQ(verdict(settles, part), kOpen);
  EXPECT_EQ(verdict(settles, solved), kOpen);
  const Claim low = value_claim(CheckKind::at_most, "baseline_ratio", 0.01, {"nru"});
  EXPECT_EQ(verdict(low, whole), kNo);
  EXPECT_EQ(verdict(low, part), kOpen);
  const Claim stable = value_claim(CheckKind::at_most, "bursts", 0, {"nru"});
  EXPECT_EQ(verdict(stable, whole), kYes);
  EXPECT_EQ(verdict(stable, part), kOpen);
  EXPECT_EQ(verdict(stable, stopped), kOpen);
  EXPECT_EQ(verdict(stable, Cast().add({.status = RunStatus::diverged, .shortened = true})), kNo);
  const Cast rises =
      Cast().add({.task = "psmnist", .accuracy = 0.9, .epochs = 4, .shortened = true});
  EXPECT_EQ(verdict(value_claim(CheckKind::at_most, "valid_drop", 0.05, {"nru"}), rises), kOpen);
  // What was too much stays so.
  EXPECT_EQ(verdict(value_claim(CheckKind::at_most, "max_hidden", 5, {"nru"}), rises), kNo);
  // What is reached stays so, and what the first updates decide is known after them.
  EXPECT_EQ(verdict(value_claim(CheckKind::at_most, "solved_at", 1000, {"nru"}), solved), kYes);
  const Claim early = value_claim(CheckKind::at_most, "early_grad_norm", 100, {"nru"});
  EXPECT_EQ(verdict(early, Cast().add({.updates = 20000, .shortened = true})), kYes);
  EXPECT_EQ(verdict(early, part), kOpen);
}

TEST(Claims, OfARanking) {
  Ranking ranking;
  ranking.tasks.resize(3);
  ranking.complete = 2;
  ranking.top2 = {{"nru", 2}, {"gru", 1}};
  const Claim all = value_claim(CheckKind::at_least, "top2", 3, {"nru"});
  const Claim best = metric_claim(CheckKind::best, "top2", {"nru"}, {"nru", "gru"});
  EXPECT_EQ(judge(all, {}, ranking).verdict, kOpen);
  EXPECT_EQ(judge(best, {}, ranking).verdict, kOpen);
  ranking.top2["nru"] = 1;  // can reach two at most
  EXPECT_EQ(judge(all, {}, ranking).verdict, kNo);
  ranking.complete = 3;
  ranking.top2["nru"] = 3;
  EXPECT_EQ(judge(all, {}, ranking).verdict, kYes);
  EXPECT_EQ(judge(best, {}, ranking).verdict, kYes);
  EXPECT_THAT(judge(best, {}, ranking).reason, HasSubstr("3 of 3 tasks"));
  ranking.top2["gru"] = 3;
  EXPECT_EQ(judge(best, {}, ranking).verdict, kNo);
}

}  // namespace
}  // namespace nru::report
