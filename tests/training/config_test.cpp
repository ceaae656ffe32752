// Configurations: who wins over whom, what is refused and with which words, and the round trip.
#include "training/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nru/error.h>

#include <cmath>

#include "../support/test_files.h"
#include "support/suggest.h"
#include "tasks/registry.h"

namespace nru::training {
namespace {

using testing::AllOf;
using testing::HasSubstr;

CellDefaults toy_nru() {
  CellDefaults cell;
  cell.name = "nru";
  cell.options = {{"hidden_size", std::int64_t{32}, "units", {}},
                  {"heads", std::int64_t{4}, "heads", {}},
                  {"combine", std::string("mean"), "heads' writes", {"mean", "sum"}},
                  {"layer_norm", false, "normalise", {}},
                  {"scale", 1.0, "a number", {}},
                  {"note", std::string(""), "free text", {}}};
  cell.sizes_by_class["copy"] = {{"hidden_size", std::int64_t{80}}};
  cell.presets["authors"]["copy@100"] = {{"clip_norm", 0.5}, {"amsgrad", true}};
  cell.presets["authors"]["copy"] = {{"clip_norm", 0.75}};
  cell.presets["recommended"]["copy"] = {{"anneal", 0.5},
                                         {"cell.heads", std::int64_t{2}},
                                         {"task_options.first_updates", std::int64_t{7}}};
  return cell;
}

CellDefaults find_toy(const std::string& name) {
  if (name == "nru") return toy_nru();
  if (name == "lstm-chrono") {
    CellDefaults cell;
    cell.name = name;
    cell.options = {{"chrono_t_max", std::int64_t{0}, "T", {}}};
    cell.chrono = true;
    return cell;
  }
  if (name == "goru") {
    CellDefaults cell;
    cell.name = "goru";
    cell.options = {{"hidden_size", std::int64_t{98}, "units", {}}};
    cell.clip = false;
    return cell;
  }
  throw Error("unknown cell '" + name + "'" + did_you_mean(name, {"nru", "goru"}));
}

// Stands for the tasks on data sets: epochs, and no lag.
tasks::TaskInfo toy_epochs() {
  tasks::TaskInfo info;
  info.name = "toy-epochs";
  info.summary = "a task with epochs for this test";
  info.defaults.epochs = 20;
  info.size_class = "char-lm";
  info.chrono_t_max = [](const tasks::TaskSettings&) { return 50; };
  info.make = [](const tasks::TaskSettings&) -> std::unique_ptr<tasks::Task> {
    throw Error("toy-epochs makes no batches");
  };
  return info;
}
const tasks::Registrar registrar(toy_epochs());

class Config : public testing::Test {
 protected:
  RunConfig resolve(const std::string& toml, std::vector<std::string> sets = {},
                    std::vector<std::pair<std::string, std::string>> flags = {}) {
    ConfigSources sources;
    file_ = directory_ / "run.toml";
    test::write_bytes(file_, toml);
    sources.file = file_;
    sources.sets = std::move(sets);
    sources.flags = std::move(flags);
    return resolve_config(sources, find_toy);
  }
  std::string error(const std::string& toml, std::vector<std::string> sets = {},
                    std::vector<std::pair<std::string, std::string>> flags = {}) {
    const std::string message =
        test::error_of([&] { resolve(toml, std::move(sets), std::move(flags)); });
    EXPECT_EQ(message.find('\n'), std::string::npos);
    return message;
  }
  test::TempDir directory_;
  std::filesystem::path file_;
};

constexpr char kCopyNru[] = "task = \"copy\"\ncell = \"nru\"\n";

TEST_F(Config, DefaultsComeFromTheTables) {
  ConfigSources sources;
  sources.flags = {{"task", "copy"}, {"cell", "nru"}};
  const RunConfig config = resolve_config(sources, find_toy);
  EXPECT_EQ(config.task, "copy");
  EXPECT_EQ(config.cell, "nru");
  EXPECT_EQ(config.preset, "paper");
  EXPECT_EQ(config.seed, 1);
  EXPECT_EQ(config.updates, 200'000);
  EXPECT_EQ(config.epochs, 0);
  EXPECT_EQ(config.batch_size, 10);
  EXPECT_EQ(config.lag, 100);
  EXPECT_EQ(config.learning_rate, 1e-3);
  EXPECT_EQ(config.clip_norm, 1.0);
  EXPECT_FALSE(config.amsgrad);
  EXPECT_EQ(config.log_every, 10);
  EXPECT_EQ(config.evaluate_every, 1000);
  EXPECT_EQ(config.backend, "fused");
  EXPECT_EQ(config.out, "runs/copy-100-nru-seed1");
  EXPECT_EQ(get<std::int64_t>(config.cell_options, "hidden_size"),
            80);  // of its class, not the spec's 32
  EXPECT_EQ(get<std::int64_t>(config.cell_options, "heads"), 4);
  EXPECT_EQ(get<std::int64_t>(config.task_options, "evaluation_batches"), 50);
}

TEST_F(Config, NamesMayBeQuoted) {
  const RunConfig config = resolve("", {"task=\"copy\"", "cell='nru'"});
  EXPECT_EQ(config.task, "copy");
  EXPECT_EQ(config.cell, "nru");
}

TEST_F(Config, FlagsBeatSetsBeatTheFile) {
  const std::string toml = std::string(kCopyNru) + "lag = 20\nseed = 2\nbatch_size = 3\n";
  EXPECT_EQ(resolve(toml).lag, 20);
  const RunConfig config =
      resolve(toml, {"lag=30", "lag=31", "seed=3"}, {{"seed", "4"}, {"out", "here"}});
  EXPECT_EQ(config.lag, 31);
  EXPECT_EQ(config.seed, 4);
  EXPECT_EQ(config.batch_size, 3);
  EXPECT_EQ(config.out, "here");
}

TEST_F(Config, OptionsInTablesDottedAndQuotedKeys) {
  const std::string table =
      "task = \"copy\"\ntask_options.evaluation_batches = 7\n[cell]\nname = \"nru\"\nheads = 9\n";
  EXPECT_EQ(get<std::int64_t>(resolve(table).cell_options, "heads"), 9);
  EXPECT_EQ(get<std::int64_t>(resolve(table).task_options, "evaluation_batches"), 7);
  const std::string flat = std::string(kCopyNru) + "\"cell.heads\" = 5\n";
  EXPECT_EQ(get<std::int64_t>(resolve(flat).cell_options, "heads"), 5);
  const RunConfig set = resolve(kCopyNru, {"cell.scale=2", "cell.note=123", "cell.combine=sum"});
  EXPECT_EQ(get<double>(set.cell_options, "scale"), 2.0);
  EXPECT_EQ(get<std::string>(set.cell_options, "note"),
            "123");  // typed like a number, wanted as text
  EXPECT_EQ(get<std::string>(set.cell_options, "combine"), "sum");
  EXPECT_THAT(error(std::string(kCopyNru) + "[cell]\nheads = 4\n"), HasSubstr("[cell], name ="));
  EXPECT_THAT(error(table + "[\"x\"]\n"), "");
  EXPECT_THAT(error("\"cell.heads\" = 1\ntask = \"copy\"\n[cell]\nname = \"nru\"\nheads = 2\n"),
              HasSubstr("set twice"));
}

TEST_F(Config, PresetAndCellDecideTheOptimiser) {
  const RunConfig authors = resolve(kCopyNru, {"preset=authors"});
  EXPECT_EQ(authors.clip_norm, 0.5);
  EXPECT_TRUE(authors.amsgrad);
  EXPECT_EQ(authors.out, "runs/copy-100-nru-authors-seed1");
  const RunConfig other_lag = resolve(kCopyNru, {"preset=authors", "lag=300"});
  EXPECT_EQ(other_lag.clip_norm, 0.75);
  EXPECT_FALSE(other_lag.amsgrad);
  EXPECT_EQ(resolve(kCopyNru, {"preset=authors", "clip_norm=2"}).clip_norm, 2.0);
  EXPECT_EQ(resolve(kCopyNru, {}, {{"cell", "goru"}}).clip_norm, 0.0);
  EXPECT_EQ(resolve(kCopyNru, {"clip_norm=3"}, {{"cell", "goru"}}).clip_norm, 3.0);
}

TEST_F(Config, APresetMaySayAnythingOfCellAndTask) {
  const RunConfig config = resolve(kCopyNru, {"preset=recommended"});
  EXPECT_EQ(config.anneal, 0.5);
  EXPECT_EQ(get<std::int64_t>(config.cell_options, "heads"), 2);
  EXPECT_EQ(get<std::int64_t>(config.task_options, "first_updates"), 7);
  const RunConfig other = resolve(kCopyNru, {"preset=recommended", "anneal=0.1", "cell.heads=1"});
  EXPECT_EQ(other.anneal, 0.1);
  EXPECT_EQ(get<std::int64_t>(other.cell_options, "heads"), 1);
}

TEST_F(Config, WhatNobodyTriedIsNotRecommended) {
  EXPECT_THAT(error(kCopyNru, {"preset=recommended"}, {{"cell", "goru"}}),
              AllOf(HasSubstr("'recommended' has no settings for cell goru on task copy"),
                    HasSubstr("choose paper or authors")));
  EXPECT_THAT(error(kCopyNru, {"preset=recommended"}, {{"task", "denoise"}}),
              HasSubstr("task denoise"));
}

// A resolved file has every key; naming another cell or preset on top must not keep the old one's
// settings.
TEST_F(Config, ReplacingTheCellOrPresetDropsWhatBelongedToIt) {
  const std::string resolved = to_toml(resolve(kCopyNru, {"cell.hidden_size=50"}));
  EXPECT_EQ(get<std::int64_t>(resolve(resolved).cell_options, "hidden_size"), 50);
  const RunConfig goru = resolve(resolved, {}, {{"cell", "goru"}});
  EXPECT_EQ(goru.cell_options, (OptionMap{{"hidden_size", std::int64_t{98}}}));
  const RunConfig same = resolve(resolved, {}, {{"cell", "nru"}});
  EXPECT_EQ(get<std::int64_t>(same.cell_options, "hidden_size"), 50);
  EXPECT_EQ(resolve(resolved, {"preset=authors"}).clip_norm, 0.5);
  EXPECT_EQ(resolve(resolved, {"preset=paper"}).clip_norm, 1.0);
}

TEST_F(Config, ATaskWithoutLagRefusesOne) {
  const std::string toy = "task = \"toy-epochs\"\ncell = \"nru\"\n";
  EXPECT_EQ(resolve(toy).lag, 0);
  EXPECT_EQ(resolve(toy).out, "runs/toy-epochs-nru-seed1");
  EXPECT_EQ(get<std::int64_t>(resolve(toy).cell_options, "hidden_size"), 32);
  EXPECT_EQ(resolve(to_toml(resolve(toy))), resolve(toy));
  EXPECT_THAT(error(toy, {"lag=5"}), HasSubstr("task toy-epochs has no lag"));
}

TEST_F(Config, ChronoCellsTakeTheTasksLongestDependency) {
  const std::string toml = "task = \"copy\"\ncell = \"lstm-chrono\"\n";
  const auto t_max = [](const RunConfig& config) {
    return get<std::int64_t>(config.cell_options, "chrono_t_max");
  };
  EXPECT_EQ(t_max(resolve(toml)), 120);
  EXPECT_EQ(t_max(resolve(toml, {"lag=7"})), 27);
  EXPECT_EQ(t_max(resolve(toml, {"lag=7", "cell.chrono_t_max=5"})), 5);
  const std::string resolved = to_toml(resolve(toml, {"lag=7", "cell.chrono_t_max=5"}));
  EXPECT_EQ(t_max(resolve(resolved)), 5);
  EXPECT_EQ(t_max(resolve(resolved, {"lag=200"})), 220);
}

TEST_F(Config, RoundTripIsExact) {
  const RunConfig config = resolve(
      kCopyNru,
      {"seed=9223372036854775807", "learning_rate=0.1", "clip_norm=0.30000000000000004", "lag=7",
       "amsgrad=true", "stop_when_solved=true", "time_limit=12.5", "threads=2", "cell.scale=1e-300",
       "cell.layer_norm=true", "preset=authors", "task_options.evaluation_batches=3"},
      {{"out", "a \"quoted\" dir/\\back\xc3\xa9"}});
  const std::string toml = to_toml(config);
  EXPECT_EQ(resolve(toml), config);
  EXPECT_EQ(to_toml(resolve(toml)), toml);
  // Every key is there: nothing is left to a later version's defaults.
  const GivenValues keys = read_flat_toml(toml, "toml");
  EXPECT_EQ(keys.size(), flatten(config).size());
  for (const auto& [key, value] : flatten(config)) {
    ASSERT_TRUE(keys.contains(key)) << key;
    EXPECT_EQ(keys.at(key).value, value) << key;
  }
}

TEST_F(Config, UpdatesAndEpochsReplaceEachOther) {
  EXPECT_EQ(resolve(kCopyNru, {"updates=50"}).updates, 50);
  EXPECT_THAT(error(kCopyNru, {"updates=5", "epochs=5"}), HasSubstr("both set"));
  EXPECT_THAT(error(kCopyNru, {"updates=0"}), HasSubstr("both 0"));
  EXPECT_THAT(error(kCopyNru, {"epochs=5"}),
              AllOf(HasSubstr("--set epochs=5"), HasSubstr("no epochs")));
  const std::string toy = "task = \"toy-epochs\"\ncell = \"nru\"\n";
  EXPECT_EQ(resolve(toy).epochs, 20);
  EXPECT_EQ(resolve(toy).updates, 0);
  EXPECT_EQ(resolve(toy, {"updates=50"}).epochs, 0);
  EXPECT_EQ(resolve(to_toml(resolve(toy)), {"updates=50"}).epochs, 0);
  EXPECT_EQ(resolve(to_toml(resolve(toy, {"updates=50"})), {"epochs=3"}).updates, 0);
  // The later layer replaces the file's choice instead of clashing with it.
  EXPECT_EQ(resolve(std::string(kCopyNru) + "epochs = 5\n", {"updates=6"}).updates, 6);
}

TEST_F(Config, UnknownNamesGetThePlaceAndTheNearest) {
  EXPECT_THAT(error(std::string(kCopyNru) + "\nlerning_rate = 0.1\n"),
              AllOf(HasSubstr("run.toml:4: "), HasSubstr("did you mean 'learning_rate'")));
  EXPECT_THAT(error(kCopyNru, {"hidden_size=3"}), HasSubstr("did you mean 'cell.hidden_size'"));
  EXPECT_THAT(error(kCopyNru, {"evaluation_batches=3"}),
              HasSubstr("did you mean 'task_options.evaluation_batches'"));
  EXPECT_THAT(
      error(kCopyNru, {"cell.hiden_size=3"}),
      AllOf(HasSubstr("--set cell.hiden_size=3: "), HasSubstr("did you mean 'hidden_size'")));
  EXPECT_THAT(error(kCopyNru, {"task_options.x=3"}), HasSubstr("task copy"));
  EXPECT_THAT(error("task = \"cpoy\"\ncell = \"nru\"\n"),
              AllOf(HasSubstr("run.toml:1: "), HasSubstr("did you mean 'copy'")));
  EXPECT_THAT(error(kCopyNru, {}, {{"cell", "nur"}}),
              AllOf(HasSubstr("--cell: "), HasSubstr("did you mean 'nru'")));
  EXPECT_THAT(error("task = \"copy\"\n[cell.deep]\nname = \"nru\"\n"),
              HasSubstr("no cell was given"));
  EXPECT_THAT(error("cell = \"nru\"\n"), HasSubstr("no task was given"));
}

TEST_F(Config, WrongTypesAndValuesOutOfRange) {
  const struct {
    const char* set;
    const char* expected;
  } cases[] = {
      {"lag=0", "lag 0 is not possible; choose 1 to 1000000"},
      {"lag=-5", "lag -5 is not possible; choose 1 to 1000000"},
      {"lag=1000001", "lag 1000001 is not possible"},
      {"lag=ten", "must be an integer"},
      {"lag=1.5", "must be an integer"},
      {"lag=99999999999999999999", "out of range"},
      {"lag=", "empty"},
      {"lag", "write key=value"},
      {"=3", "write key=value"},
      {"seed=-1", "seed -1 is not possible"},
      {"batch_size=0", "batch_size 0 is not possible"},
      {"updates=-1", "updates -1 is not possible"},
      {"learning_rate=0", "learning_rate 0.0 is not possible"},
      {"learning_rate=1e6", "choose a number above 0 and up to 1000, such as 0.001"},
      {"clip_norm=1e31", "choose a number above 0 and up to 1e30, or 0 for no clipping"},
      {"clip_state=1e31", "choose a number above 0 and up to 1e30, or 0 for no limit"},
      {"lag=1e2", "must be an integer, not 100.0; write 100; the default is"},
      {"learning_rate=-0.1", "learning_rate -0.1 is not possible"},
      {"learning_rate=nan", "learning_rate nan is not possible"},
      {"learning_rate=inf", "learning_rate inf is not possible"},
      {"clip_norm=-1", "clip_norm -1.0 is not possible"},
      {"clip_state=-1", "clip_state -1.0 is not possible"},
      {"anneal=1.5", "anneal 1.5 is not possible; choose 0 for none, or up to 1, such as 0.5"},
      {"adam_beta2=1", "adam_beta2 1.0 is not possible; choose 0 to 0.9999999, such as 0.999"},
      {"average=1", "average 1.0 is not possible; choose 0 for none, or up to 0.999999"},
      {"average=-0.1", "average -0.1 is not possible"},
      {"time_limit=-1", "time_limit -1.0 is not possible"},
      {"log_every=0", "log_every 0 is not possible"},
      {"threads=-1", "threads -1 is not possible"},
      {"amsgrad=1", "must be true or false"},
      {"backend=fast", "choose fused or reference"},
      {"preset=mine", "choose paper or authors or recommended"},
      {"device=gpu", "choose cpu, cuda or cuda:N"},
      {"device=cuda:", "choose cpu, cuda or cuda:N"},
      {"cell.combine=max", "choose mean or sum"},
      {"cell.heads=many", "must be an integer"},
  };
  for (const auto& [set, expected] : cases) {
    EXPECT_THAT(error(kCopyNru, {set}),
                AllOf(HasSubstr(std::string("--set ") + set + ": "), HasSubstr(expected)));
  }
  EXPECT_THAT(error(std::string(kCopyNru) + "lag = \"x\"\n"),
              AllOf(HasSubstr("run.toml:3: "), HasSubstr("must be an integer")));
  EXPECT_THAT(error(std::string(kCopyNru) + "lag = [1]\n"), HasSubstr("run.toml:3: "));
  EXPECT_THAT(error("task = 3\ncell = \"nru\"\n"),
              HasSubstr("run.toml:1: the task must be a name"));
  EXPECT_EQ(resolve(kCopyNru, {"device=cuda:12"}).device, "cuda:12");
}

TEST_F(Config, UnreadableFiles) {
  EXPECT_THAT(error("task = \"copy\"\nlag = = 3\n"), HasSubstr("run.toml:2: "));
  EXPECT_THAT(error("task = \"\xff\"\n"), HasSubstr("run.toml:1: "));
  ConfigSources sources;
  for (const char* name : {"missing.toml", "."}) {
    sources.file = directory_ / name;
    EXPECT_THAT(test::error_of([&] { resolve_config(sources, find_toy); }),
                AllOf(HasSubstr("cannot read the configuration"), HasSubstr(name)));
  }
}

TEST_F(Config, TaskSettingsCarryTheValues) {
  const RunConfig config = resolve(kCopyNru, {"seed=8", "lag=9", "batch_size=4"});
  const tasks::TaskSettings settings = task_settings(config);
  EXPECT_EQ(settings.seed, 8u);
  EXPECT_EQ(settings.lag, 9);
  EXPECT_EQ(settings.batch_size, 4);
  EXPECT_NEAR(tasks::find_task("copy").make(settings)->baseline(), 10 * std::log(8.0) / 29, 1e-12);
}

}  // namespace
}  // namespace nru::training
