// Run directories: what is made, what is refused, and that refusing changes nothing.
#include "training/run_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "../support/test_files.h"

namespace nru::training {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

RunConfig config_for(const std::filesystem::path& out) {
  RunConfig config;
  config.task = "copy";
  config.cell = "nru";
  config.updates = 1000;
  config.batch_size = 10;
  config.lag = 100;
  config.out = out.string();
  config.cell_options = {{"hidden_size", std::int64_t{80}}};
  config.task_options = {{"evaluation_batches", std::int64_t{50}}};
  return config;
}

std::string create_error(const RunConfig& config) {
  return test::error_of([&] { RunDirectory::create(config); });
}
std::string resume_error(const RunConfig& config) {
  return test::error_of([&] { RunDirectory::resume(config); });
}

TEST(RunDirectory, MakesTheDirectoryAndTheConfiguration) {
  const test::TempDir directory;
  const RunConfig config = config_for(directory / "deep/er");
  const RunDirectory run = RunDirectory::create(config);
  EXPECT_EQ(run.paths().directory, directory / "deep/er");
  EXPECT_EQ(test::read_bytes(run.paths().config()), to_toml(config));
  EXPECT_EQ(run.paths().metrics().filename(), "metrics.csv");
  EXPECT_EQ(run.paths().checkpoint().filename(), "checkpoint.safetensors");
  EXPECT_EQ(run.paths().best().filename(), "best.safetensors");
  EXPECT_EQ(run.paths().result().filename(), "result.json");
}

TEST(RunDirectory, NeverOverwritesARun) {
  const test::TempDir directory;
  RunConfig config = config_for(directory / "run");
  RunDirectory::create(config);
  config.lag = 200;
  EXPECT_THAT(create_error(config), AllOf(HasSubstr("holds a run already"), HasSubstr("--resume")));
  config.lag = 100;
  EXPECT_EQ(test::read_bytes(directory / "run/config.toml"), to_toml(config));
  for (const char* file :
       {"metrics.csv", "checkpoint.safetensors", "best.safetensors", "result.json"}) {
    const RunConfig other = config_for(directory / (std::string("with-") + file));
    std::filesystem::create_directory(other.out);
    test::write_bytes(std::filesystem::path(other.out) / file, "precious");
    EXPECT_THAT(create_error(other), HasSubstr(file));
    EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(other.out) / "config.toml"));
  }
}

TEST(RunDirectory, FilesOfOthersDoNotMatter) {
  const test::TempDir directory;
  test::write_bytes(directory / "notes.txt", "mine");
  RunDirectory::create(config_for(directory.path()));
  EXPECT_EQ(test::read_bytes(directory / "notes.txt"), "mine");
}

TEST(RunDirectory, ResumesItsOwnConfiguration) {
  const test::TempDir directory;
  RunConfig config = config_for(directory / "run");
  EXPECT_THAT(resume_error(config), HasSubstr("no run to go on with"));
  EXPECT_FALSE(std::filesystem::exists(directory / "run"));
  RunDirectory::create(config);
  EXPECT_EQ(resume_error(config), "");

  config.updates = 5000;
  config.threads = 2;
  config.checkpoint_every = 7;
  config.time_limit = 60;
  config.stop_when_solved = true;
  const std::string before = test::read_bytes(directory / "run/config.toml");
  EXPECT_EQ(resume_error(config), "");
  EXPECT_EQ(test::read_bytes(directory / "run/config.toml"), before);
  RunDirectory::resume(config).record(config);
  RunConfig recorded = config;
  recorded.time_limit = 0;  // the process's, not the run's
  EXPECT_EQ(test::read_bytes(directory / "run/config.toml"), to_toml(recorded));

  std::filesystem::rename(directory / "run", directory / "moved");
  config.out = (directory / "moved").string();
  EXPECT_EQ(resume_error(config), "");
}

TEST(RunDirectory, RefusesAnotherConfiguration) {
  const test::TempDir directory;
  const RunConfig config = config_for(directory / "run");
  RunDirectory::create(config);
  const std::string before = test::read_bytes(directory / "run/config.toml");
  const auto error_with = [&](auto change) {
    RunConfig other = config;
    change(other);
    return resume_error(other);
  };
  EXPECT_THAT(
      error_with([](RunConfig& c) { c.lag = 200; }),
      AllOf(HasSubstr("belongs to another configuration"), HasSubstr("lag: 100 there, 200 here")));
  EXPECT_THAT(error_with([](RunConfig& c) { c.seed = 2; }), HasSubstr("seed: 1 there, 2 here"));
  EXPECT_THAT(error_with([](RunConfig& c) { c.learning_rate = 0.01; }), HasSubstr("learning_rate"));
  EXPECT_THAT(error_with([](RunConfig& c) { c.log_every = 1; }), HasSubstr("log_every"));
  EXPECT_THAT(error_with([](RunConfig& c) { c.cell_options["hidden_size"] = std::int64_t{81}; }),
              HasSubstr("cell.hidden_size: 80 there, 81 here"));
  EXPECT_THAT(error_with([](RunConfig& c) { c.seed = 2, c.lag = 3; }), HasSubstr("1 more"));
  EXPECT_EQ(test::read_bytes(directory / "run/config.toml"), before);
}

TEST(RunDirectory, ARunMayBeMovedToAnotherDevice) {
  const test::TempDir directory;
  RunConfig config = config_for(directory / "run");
  RunDirectory::create(config);
  const GivenValues stored = read_flat_toml(to_toml(config), "config.toml");
  config.device = "cuda";
  EXPECT_EQ(resume_error(config), "");
  EXPECT_THAT(config_differences(stored, config), ElementsAre(HasSubstr("device")));
  EXPECT_THAT(config_differences(stored, config, true), IsEmpty());
}

TEST(RunDirectory, DifferencesCountKeysOnEitherSide) {
  RunConfig config = config_for("run");
  GivenValues stored = read_flat_toml(to_toml(config), "config.toml");
  EXPECT_THAT(config_differences(stored, config), IsEmpty());
  stored.erase("seed");
  stored["cell.extra"] = {true, "config.toml:1", ""};
  EXPECT_THAT(config_differences(stored, config),
              ElementsAre("seed: not set there, 1 here", "cell.extra: true there, unknown here"));
}

TEST(RunDirectory, RunsOlderThanAKeyWentByItsDefault) {
  RunConfig config = config_for("run");
  GivenValues stored = read_flat_toml(to_toml(config), "config.toml");
  for (const char* key : {"adam_beta2", "anneal", "average", "cell.write_limit", "cell.write_scale",
                          "clip_state", "recover"})
    stored.erase(key);
  config.task_options["first_lag"] = std::int64_t{0};  // of any task, too
  EXPECT_THAT(config_differences(stored, config), IsEmpty());
  config.average = 0.5;
  EXPECT_THAT(config_differences(stored, config), ElementsAre("average: not set there, 0.5 here"));
  config.average = 0;
  config.task_options["first_lag"] = std::int64_t{10};
  EXPECT_THAT(config_differences(stored, config),
              ElementsAre("task_options.first_lag: not set there, 10 here"));
}

// The step size of an annealed run goes by its length.
TEST(RunDirectory, OnlyRunsWithoutAnnealMayChangeTheirLength) {
  RunConfig config = config_for("run");
  GivenValues stored = read_flat_toml(to_toml(config), "config.toml");
  config.updates += 1;
  EXPECT_THAT(config_differences(stored, config), IsEmpty());
  config.anneal = 0.5;
  stored = read_flat_toml(to_toml(config), "config.toml");
  config.updates = 123;
  EXPECT_THAT(config_differences(stored, config), ElementsAre(HasSubstr("123 here")));
}

TEST(RunDirectory, DamagedConfigurationIsNamed) {
  const test::TempDir directory;
  const RunConfig config = config_for(directory / "run");
  RunDirectory::create(config);
  test::write_bytes(directory / "run/config.toml", "task = \n");
  EXPECT_THAT(resume_error(config), HasSubstr("config.toml:1: "));
}

TEST(RunDirectory, OneWriterAtATime) {
  const test::TempDir directory;
  const RunConfig config = config_for(directory / "run");
  {
    const RunDirectory run = RunDirectory::create(config);
    EXPECT_THAT(
        resume_error(config),
        AllOf(HasSubstr("in use by process " + std::to_string(::getpid())), HasSubstr("run")));
  }
  EXPECT_EQ(resume_error(config), "");
}

// The lock belongs to the process: a killed one leaves none behind.
TEST(RunDirectory, AKilledWriterLeavesNoLock) {
  const test::TempDir directory;
  const RunConfig config = config_for(directory / "run");
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const RunDirectory run = RunDirectory::create(config);
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(resume_error(config), "");
}

TEST(RunDirectory, ImpossiblePlaces) {
  const test::TempDir directory;
  test::write_bytes(directory / "file", "x");
  EXPECT_THAT(create_error(config_for(directory / "file")),
              AllOf(HasSubstr("cannot make the run directory"), HasSubstr("--out")));
  EXPECT_THAT(create_error(config_for(directory / "file/below")), HasSubstr("cannot make"));
  EXPECT_THAT(create_error(config_for("/proc/nru-run")), HasSubstr("cannot make"));
  if (::geteuid() != 0) {  // root may write anywhere
    std::filesystem::create_directory(directory / "closed");
    std::filesystem::permissions(directory / "closed", std::filesystem::perms::owner_read);
    EXPECT_THAT(create_error(config_for(directory / "closed")), HasSubstr("cannot write"));
    std::filesystem::permissions(directory / "closed", std::filesystem::perms::owner_all);
  }
}

}  // namespace
}  // namespace nru::training
