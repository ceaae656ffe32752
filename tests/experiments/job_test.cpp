// What the files of a run directory say about a run of the plan.
#include "experiments/job.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include "../support/test_files.h"
#include "training/metrics.h"
#include "training/result.h"
#include "training/run_directory.h"

namespace nru::experiments {
namespace {

using test::error_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using training::Result;
using training::RunStatus;
using Stage = RunState::Stage;

class JobTest : public ::testing::Test {
 protected:
  JobTest() {
    job_.run.directory = "copy/nru-seed1";
    job_.config.task = "copy";
    job_.config.cell = "nru";
    job_.config.updates = 100'000;
    job_.config.lag = 100;
    job_.config.stop_when_settled = true;
    job_.config.out = (folder_ / "run").string();
    job_.updates = 100'000;
  }

  training::RunPaths paths() const { return {job_.directory()}; }

  void begin() {
    std::filesystem::create_directories(job_.directory());
    test::write_bytes(paths().config(), to_toml(job_.config));
  }
  void log_update(std::int64_t update) {
    training::MetricsRow row;
    row.update = update;
    row.split = "train";
    row.loss = 0.5;
    row.relative_loss = 0.25;
    auto writer = std::filesystem::exists(paths().metrics())
                      ? training::MetricsWriter::resume(paths().metrics(), update)
                      : training::MetricsWriter::create(paths().metrics());
    writer.append(row);
  }
  void end(RunStatus status, std::int64_t updates, std::optional<std::int64_t> solved_at = {}) {
    Result result;
    result.status = status;
    result.updates = updates;
    result.solved_at = solved_at;
    result.seconds = 3;
    write_result(paths().result(), result);
  }

  test::TempDir folder_;
  Job job_;
};

TEST_F(JobTest, IsAbsentWhereNothingIs) {
  EXPECT_EQ(look_at(job_).stage, Stage::absent);
  EXPECT_FALSE(in_use(job_.directory()));
  EXPECT_FALSE(last_progress(job_.directory()).has_value());
  check_fits(job_);
}

TEST_F(JobTest, IsBegunWithoutAResult) {
  begin();
  EXPECT_EQ(look_at(job_).stage, Stage::begun);
  log_update(10);
  log_update(70);
  EXPECT_EQ(look_at(job_).updates, 70);
  end(RunStatus::interrupted, 75);
  EXPECT_EQ(look_at(job_).stage, Stage::begun);
  EXPECT_EQ(look_at(job_).updates, 75);
}

TEST_F(JobTest, IsDoneAfterAllItsUpdates) {
  begin();
  end(RunStatus::finished, 100'000);
  EXPECT_EQ(look_at(job_).stage, Stage::done);
  job_.updates = 100'001;  // a longer budget: it goes on
  EXPECT_EQ(look_at(job_).stage, Stage::begun);
}

TEST_F(JobTest, IsDoneWhenSettled) {
  begin();
  end(RunStatus::solved, 50'000, 30'000);
  EXPECT_EQ(look_at(job_).stage, Stage::done);
  end(RunStatus::solved, 49'999, 30'000);  // made with a shorter budget, which was over
  EXPECT_EQ(look_at(job_).stage, Stage::begun);
  job_.config.stop_when_settled = false;
  end(RunStatus::solved, 50'000, 30'000);
  EXPECT_EQ(look_at(job_).stage, Stage::begun);
  job_.config.stop_when_solved = true;
  EXPECT_EQ(look_at(job_).stage, Stage::done);
}

TEST_F(JobTest, IsNotDoneWhenItWentOnAfterItsResult) {
  begin();
  log_update(100'000);
  end(RunStatus::finished, 100'000);
  EXPECT_EQ(look_at(job_).stage, Stage::done);
  log_update(100'010);
  EXPECT_EQ(look_at(job_).stage, Stage::begun);
  EXPECT_EQ(look_at(job_).updates, 100'010);
  end(RunStatus::diverged, 100'005);
  EXPECT_EQ(look_at(job_).stage, Stage::begun);
  end(RunStatus::diverged, 100'015);
  EXPECT_EQ(look_at(job_).stage, Stage::diverged);
  EXPECT_EQ(look_at(job_).updates, 100'015);
}

TEST_F(JobTest, IsNotDoneWhereItsUpdatesAreNotKnown) {
  begin();
  end(RunStatus::finished, 100'000);
  job_.updates = 0;  // epochs, and the data is not there
  EXPECT_EQ(look_at(job_).stage, Stage::begun);
  end(RunStatus::solved, 50'000, 30'000);
  EXPECT_EQ(look_at(job_).stage, Stage::done);
}

TEST_F(JobTest, IsBegunWhereTheResultIsDamaged) {
  begin();
  end(RunStatus::finished, 100'000);
  const std::string text = test::read_bytes(paths().result());
  test::write_bytes(paths().result(), text.substr(0, text.size() / 2));
  EXPECT_EQ(look_at(job_).stage, Stage::begun);
}

TEST_F(JobTest, DivergedIsAnOutcome) {
  begin();
  end(RunStatus::diverged, 10);
  EXPECT_EQ(look_at(job_).stage, Stage::diverged);
  EXPECT_TRUE(look_at(job_).training_over());
}

TEST_F(JobTest, MissesItsInspectionUntilItIsNewerThanTheWeights) {
  begin();
  end(RunStatus::finished, 100'000);
  job_.inspect = true;
  EXPECT_FALSE(look_at(job_).inspection_missing);  // no weights
  test::write_bytes(paths().best(), "weights");
  EXPECT_TRUE(look_at(job_).inspection_missing);
  std::filesystem::create_directory(job_.directory() / "inspect");
  const auto made = job_.directory() / "inspect" / "gradient_flow.csv";
  test::write_bytes(made, "0\n");
  EXPECT_FALSE(look_at(job_).inspection_missing);
  std::filesystem::last_write_time(
      made, std::filesystem::last_write_time(paths().best()) - std::chrono::seconds(1));
  EXPECT_TRUE(look_at(job_).inspection_missing);
  job_.inspect = false;
  EXPECT_FALSE(look_at(job_).inspection_missing);
}

TEST_F(JobTest, FitsALongerBudgetOnly) {
  begin();
  check_fits(job_);
  job_.config.updates = job_.updates = 200'000;
  check_fits(job_);
  job_.config.updates = job_.updates = 2'000;
  EXPECT_THAT(error_of([&] { check_fits(job_); }),
              AllOf(HasSubstr(job_.config.out), HasSubstr("100,000 updates and the plan has 2,000"),
                    HasSubstr("--out")));
}

TEST_F(JobTest, DoesNotFitOtherSettings) {
  begin();
  job_.config.lag = 20;
  EXPECT_THAT(error_of([&] { check_fits(job_); }),
              AllOf(HasSubstr("lag: 100 there, 20 here"), HasSubstr("--out")));
}

TEST_F(JobTest, IsOfOneDeviceUnlessItIsDone) {
  begin();
  end(RunStatus::interrupted, 50);
  job_.config.device = "cuda";
  EXPECT_THAT(error_of([&] { check_fits(job_); }), HasSubstr("device: \"cpu\" there"));
  end(RunStatus::finished, 100'000);
  check_fits(job_);
}

TEST_F(JobTest, ComparesEpochsWithUpdates) {
  job_.config.updates = 0;
  job_.config.epochs = 100;
  begin();
  job_.updates_per_epoch = 500;
  job_.config.epochs = 0;
  job_.config.updates = job_.updates = 20;
  EXPECT_THAT(error_of([&] { check_fits(job_); }), HasSubstr("50,000 updates and the plan has 20"));
}

TEST_F(JobTest, ProgressIsTheLastWholeTrainingLine) {
  begin();
  log_update(10);
  const std::string text = test::read_bytes(paths().metrics());
  test::write_bytes(paths().metrics(), text + "20,,valid,0.1,,,,,,,,,,\n30,,train,0.2,0.");
  const auto progress = last_progress(job_.directory());
  ASSERT_TRUE(progress);
  EXPECT_EQ(progress->update, 10);
  EXPECT_EQ(progress->loss, 0.5);
  EXPECT_EQ(progress->relative_loss, 0.25);
}

TEST_F(JobTest, IsInUseWhileSomeoneHoldsTheLock) {
  begin();
  const int lock = ::open(paths().lock().c_str(), O_RDWR | O_CREAT, 0666);
  ASSERT_EQ(::flock(lock, LOCK_EX), 0);
  EXPECT_TRUE(in_use(job_.directory()));
  ::close(lock);
  EXPECT_FALSE(in_use(job_.directory()));
}

TEST_F(JobTest, LastWordsAreTheLastErrorOrElseTheLastLine) {
  begin();
  EXPECT_EQ(last_words(job_.log()), "");
  EXPECT_EQ(log_size(job_.log()), 0);
  test::write_bytes(job_.log(), "only line");
  EXPECT_EQ(last_words(job_.log()), "only line");
  const std::string old = "update 1\nnru: old\n";
  test::write_bytes(job_.log(), old + "update 2\n\n");
  EXPECT_EQ(last_words(job_.log()), "old");
  EXPECT_EQ(last_words(job_.log(), static_cast<std::int64_t>(old.size())), "update 2");
  test::write_bytes(job_.log(), old + "nru: new\x1b[2J\nof another process\n");
  EXPECT_EQ(last_words(job_.log(), static_cast<std::int64_t>(old.size())), "new [2J");
}

TEST_F(JobTest, CommandHasEverySetting) {
  job_.run.settings = {{"task", std::string("copy")}, {"lag", std::int64_t{100}}};
  EXPECT_THAT(train_command(job_, 2),
              ElementsAre("train", "--resume", "--set", "lag=100", "--set", "task=\"copy\"",
                          "--threads", "2", "--out", job_.config.out));
}

}  // namespace
}  // namespace nru::experiments
