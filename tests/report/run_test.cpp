// One run directory: what its files say together.
#include "report/run.h"

#include <gtest/gtest.h>

#include "../support/test_files.h"
#include "made_up.h"

namespace nru::report {
namespace {

using test::MadeUp;
using test::TempDir;
using training::RunStatus;

// Of a run with `more_rows` at the end of its metrics.csv.
report::Run read(const MadeUp& made, const std::string& more_rows = "") {
  const TempDir place;
  report::Run run;
  run.directory = place / "run";
  test::write_run(run.directory, made);
  const training::RunPaths paths{run.directory};
  test::write_bytes(paths.metrics(), test::read_bytes(paths.metrics()) + more_rows);
  read_run(run);
  EXPECT_EQ(run.result.has_value(), run.state != RunState::unfinished);
  return run;
}

RunState state(const MadeUp& made, const std::string& more_rows = "") {
  return read(made, more_rows).state;
}

const OptionMap kMore = {{"task", std::string("copy")}, {"updates", std::int64_t{200000}}};

// config.toml says what is asked for now, result.json how the run ended the last time.
TEST(RunOnDisk, IsUnfinishedWhereMoreUpdatesAreAskedFor) {
  EXPECT_EQ(state({.updates = 12000}), RunState::finished);
  EXPECT_EQ(state({.updates = 12000, .settings = kMore}), RunState::unfinished);
  EXPECT_FALSE(read({.updates = 12000, .settings = kMore}).counts());
  EXPECT_EQ(state({.updates = 12000, .status = RunStatus::diverged, .settings = kMore}),
            RunState::diverged);
  EXPECT_EQ(state({.updates = 12000, .status = RunStatus::interrupted, .settings = kMore}),
            RunState::interrupted);
}

TEST(RunOnDisk, IsUnfinishedWhereItsRowsGoBeyondItsResult) {
  const std::string row = "12001,,train,0.1,0.5,,,,,,,0,0,1\n";
  EXPECT_EQ(state({.updates = 12000}, row), RunState::unfinished);
  for (const RunStatus status : {RunStatus::interrupted, RunStatus::diverged}) {
    EXPECT_EQ(state({.updates = 12000, .status = status}, row), RunState::unfinished);
  }
}

TEST(RunOnDisk, SolvedEarlyIsItsEndWhereItWasToStopThere) {
  MadeUp made{.updates = 42000, .solved_at = 500, .status = RunStatus::solved, .settings = kMore};
  EXPECT_EQ(state(made), RunState::unfinished);
  made.settings["stop_when_solved"] = true;
  EXPECT_EQ(state(made), RunState::solved);
  made.settings.erase("stop_when_solved");
  made.settings["stop_when_settled"] = true;
  EXPECT_EQ(state(made), RunState::solved);
  made.updates = 20499;
  EXPECT_EQ(state(made), RunState::unfinished);
}

TEST(RunOnDisk, EpochsAreCountedByTheRows) {
  MadeUp made{.task = "psmnist", .updates = 46900, .epochs = 99};
  made.settings = {{"task", std::string("psmnist")}, {"epochs", std::int64_t{100}}};
  EXPECT_EQ(state(made), RunState::unfinished);
  made.epochs = 100;
  EXPECT_EQ(state(made), RunState::finished);
  made.epochs = 0;  // no rows that say so
  EXPECT_EQ(state(made), RunState::finished);
}

}  // namespace
}  // namespace nru::report
