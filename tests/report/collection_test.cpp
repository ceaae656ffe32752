// Folders of runs in every condition: what is read of them, and what is left aside.
#include "report/collection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../support/test_files.h"
#include "made_up.h"
#include "report/report.h"
#include "training/run_directory.h"

namespace nru::report {
namespace {

namespace fs = std::filesystem;
using test::copying;
using test::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Run& run_in(const Collection& collection, const std::string& name) {
  for (const Run& run : collection.runs) {
    if (run.directory.filename() == name) return run;
  }
  throw std::runtime_error("no run " + name);
}

TEST(Collection, RunsInEveryCondition) {
  const TempDir root;
  const fs::path folder = root / "copy-100";
  test::write_run(folder / "nru-seed1", {.solved_at = 20000});
  test::write_run(folder / "nru-seed2",
                  {.seed = 2, .status = training::RunStatus::diverged, .best_ratio = 0.8});
  // Killed in the middle of a line.
  test::write_run(folder / "nru-seed3", {.seed = 3});
  const training::RunPaths half{folder / "nru-seed3"};
  fs::remove(half.result());
  const std::string metrics = test::read_bytes(half.metrics());
  test::write_bytes(half.metrics(), metrics.substr(0, metrics.size() - 20));
  // Damaged: a line that is no row, a result that is no JSON.
  test::write_run(folder / "lstm-seed1", {.cell = "lstm"});
  const training::RunPaths torn{folder / "lstm-seed1"};
  test::write_bytes(torn.metrics(), metrics.substr(0, metrics.size() / 2) + "\nnonsense\n");
  fs::create_directories(folder / "lstm-seed2");
  test::write_bytes(folder / "lstm-seed2/result.json", "{\"task\":");
  // Beyond the plan, and not of it.
  test::write_run(folder / "nru-seed9", {.seed = 9, .solved_at = 30000});
  fs::create_directories(folder / "notes");

  const Collection collection = read_collection(root.path(), copying());
  EXPECT_EQ(run_in(collection, "nru-seed1").state, RunState::finished);
  EXPECT_EQ(run_in(collection, "nru-seed2").state, RunState::diverged);
  const report::Run& killed = run_in(collection, "nru-seed3");
  EXPECT_EQ(killed.state, RunState::unfinished);
  EXPECT_EQ(killed.train.size(), 99u);
  EXPECT_FALSE(killed.counts());
  const report::Run& damaged = run_in(collection, "lstm-seed1");
  EXPECT_EQ(damaged.state, RunState::damaged);
  EXPECT_THAT(damaged.problem, HasSubstr("metrics.csv:"));
  EXPECT_GT(damaged.train.size(), 10u);  // what came before is kept
  EXPECT_EQ(run_in(collection, "lstm-seed2").state, RunState::damaged);
  EXPECT_EQ(run_in(collection, "lstm-seed3").state, RunState::missing);
  EXPECT_TRUE(run_in(collection, "nru-seed9").counts());
  EXPECT_THAT(collection.notes, ElementsAre(HasSubstr("copy-100/notes")));

  const std::vector<Series> series = series_of(collection, collection.experiments[0]);
  ASSERT_EQ(series.size(), 2u);
  EXPECT_EQ(runs_in_words(series[0]), "0 of 3, 2 damaged");
  EXPECT_EQ(runs_in_words(series[1]), "3 of 4, 1 diverged, 1 unfinished");

  // All of it makes a report that says so.
  const Report report = make_report(read_collection(root.path(), copying()));
  EXPECT_EQ(report.claims(Verdict::not_run), 1);
  const std::string page = to_html(report, {});
  for (const char* word : {"damaged", "unfinished", "diverged", "fields instead of 14"}) {
    EXPECT_TRUE(page.find(word) != std::string::npos) << word;
  }
}

TEST(Collection, FoldersWithoutRuns) {
  const TempDir root;
  EXPECT_THAT(test::error_of([&] { read_collection(root / "missing", copying()); }),
              HasSubstr("not a folder of runs"));
  EXPECT_THAT(test::error_of([&] { read_collection(root.path(), copying()); }),
              HasSubstr("there are no runs"));
  const std::string spaced = root / "my runs";
  fs::create_directory(spaced);
  EXPECT_THAT(test::error_of([&] { read_collection(spaced, copying()); }),
              HasSubstr("nru reproduce --out '" + spaced + "'"));
}

TEST(Collection, RunsOfOnesOwnAreGroupedByTask) {
  const TempDir root;
  test::write_run(root / "a", {.solved_at = 20000});
  test::write_run(root / "b", {.cell = "my-cell", .seed = 4});
  test::write_run(root / "c", {.lag = 200});
  fs::remove(root / "c/result.json");
  const Report report = make_report(read_collection(root.path(), copying()));
  ASSERT_EQ(report.sections.size(), 2u);  // nothing of the paper was run
  EXPECT_EQ(report.sections[0].experiment->title, "copy, T = 100");
  EXPECT_EQ(report.sections[1].experiment->title, "copy, T = 200");
  EXPECT_EQ(report.sections[1].runs.at(0)->seed, 1);  // of a run without a result, too
  EXPECT_EQ(report.sections[0].runs.size(), 2u);
  ASSERT_EQ(report.sections[0].figures.figures.size(), 1u);
  const auto& figure = std::get<LineFigure>(report.sections[0].figures.figures[0].drawing);
  EXPECT_EQ(figure.lines.size(), 2u);
  EXPECT_EQ(figure.lines[1].name, "my-cell");
  EXPECT_EQ(read_collection(root / "a", copying()).experiments.back().title, "copy, T = 100");
}

TEST(Collection, RunsOfOnesOwnWithoutAConfigurationAreLeftOut) {
  const TempDir root;
  for (const char* name : {"a", "gone", "empty"}) test::write_run(root / name, {});
  fs::remove(root / "gone/config.toml");
  test::write_bytes(root / "empty/config.toml", "");
  fs::create_directory(root / "photos");
  const Collection collection = read_collection(root.path(), copying());
  EXPECT_THAT(collection.notes,
              ElementsAre("gone: no config.toml, left out",
                          "empty: its config.toml names no task and cell, left out"));
  const Report report = make_report(read_collection(root.path(), copying()));
  ASSERT_EQ(report.sections.size(), 1u);
  EXPECT_EQ(report.sections[0].runs.size(), 1u);
  EXPECT_THAT(to_markdown(report), HasSubstr("gone: no config"));
  fs::remove_all(root / "a");
  EXPECT_THAT(test::error_of([&] { read_collection(root.path(), copying()); }),
              HasSubstr("(gone: no config.toml, left out; empty:"));
}

TEST(Collection, KnowsTheFolderOfOneExperiment) {
  const TempDir root;
  test::write_run(root / "rq/copy-100/nru-seed1", {});
  for (const char* given : {"rq/copy-100", "rq/copy-100/", "rq/./copy-100/."})
    EXPECT_EQ(read_collection(root / given, copying()).folder_of, "copy-100") << given;
  EXPECT_EQ(read_collection(root / "rq", copying()).folder_of, "");
  EXPECT_EQ(read_collection(root / "rq/copy-100/nru-seed1", copying()).folder_of, "");
  test::write_run(root / "other/copy-100/mine", {});
  EXPECT_EQ(read_collection(root / "other/copy-100", copying()).folder_of, "");
}

TEST(Collection, WhatIsNotAsPlannedIsTold) {
  const TempDir root;
  test::write_run(root / "copy-100/nru-seed1", {.updates = 3000, .lag = 20});
  const Report report = make_report(read_collection(root.path(), copying()));
  EXPECT_THAT(report.sections[0].deviations,
              ElementsAre("lag 20 instead of 100", "updates 3000 instead of 60000"));
  EXPECT_THAT(to_markdown(report), HasSubstr("lag 20 instead of 100"));
  EXPECT_FALSE(report.sections[0].runs[0]->comparable);
  EXPECT_TRUE(report.sections[0].runs[0]->shortened);
}

// config.toml has absolute paths, and data may be moved.
TEST(Collection, WhereDataLieMakesNoOtherRun) {
  const TempDir root;
  std::vector<experiments::Experiment> all = copying();
  all[0].run["task_options.text"] = std::string("texts/mine.txt");
  test::write_run(root / "copy-100/nru-seed1",
                  {.settings = {{"task", std::string("copy")},
                                {"updates", std::int64_t{60000}},
                                {"lag", std::int64_t{100}},
                                {"task_options.text", std::string("/home/me/texts/mine.txt")}}});
  const Collection collection = read_collection(root.path(), all);
  EXPECT_TRUE(run_in(collection, "nru-seed1").comparable);
  EXPECT_THAT(run_in(collection, "nru-seed1").deviations, IsEmpty());
}

TEST(Collection, AReportThatLiesThereIsNoRun) {
  const TempDir root;
  test::write_run(root / "copy-100/nru-seed1", {});
  fs::create_directory(root / "copy-100" / kReportFolder);
  EXPECT_THAT(read_collection(root.path(), copying()).notes, IsEmpty());
}

}  // namespace
}  // namespace nru::report
