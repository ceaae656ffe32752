// A grid of toy runs end to end: made once, whatever happens on the way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <thread>

#include "../support/test_files.h"
#include "program.h"
#include "runs.h"

namespace nru::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr long kUpdates = 3000;
constexpr long kEndless = 100'000'000;
const std::vector<std::string> kRuns = {"toy/lstm-seed1", "toy/gru-seed1", "toy/nru-seed1"};

// Three runs. log_every, evaluate_every and checkpoint_every share no factor, so a stop finds
// half-filled windows.
std::string toy(long updates, const std::string& more = "") {
  return R"(title = "Toy"
figure = "curves"
cells = ["lstm", "gru", "nru"]
seeds = [1]
[run]
task = "copy"
lag = 5
batch_size = 12
checkpoint_every = 97
log_every = 7
evaluate_every = 250
"cell.hidden_size" = 8
"task_options.evaluation_batches" = 2
updates = )" +
         std::to_string(updates) + R"(
[quick]
updates = 60
[run.nru]
"cell.memory_size" = 4
"cell.heads" = 1
)" + more;
}

class Reproduce : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    shared_ = new TempDir;
    write(*shared_, toy(kUpdates));
    const Finished finished = nru(command(*shared_));
    ASSERT_EQ(finished.code, 0) << finished.err;
    first_ = finished.out;
  }
  static void TearDownTestSuite() {
    delete shared_;
    shared_ = nullptr;
  }

  static void write(const TempDir& place, const std::string& experiment) {
    fs::create_directories(place / "experiments");
    write_bytes(place / "experiments" / "toy.toml", experiment);
  }
  static Arguments command(const TempDir& place) {
    return {"reproduce", "toy", "--experiments", place / "experiments", "--out", place / "runs"};
  }
  Arguments command() const { return command(place_); }
  fs::path run(const std::string& name) const { return place_ / "runs" / name; }

  // The grid as it came out without interruption.
  void expect_equal_to_the_whole() const {
    for (const std::string& name : kRuns) {
      SCOPED_TRACE(name);
      EXPECT_EQ(difference(*shared_ / "runs" / name, run(name)), "");
    }
  }
  // What `nru report` says about the grid of a place, wall-clock times and paths aside.
  static nlohmann::json report_on(const TempDir& place) {
    const Finished finished = nru({"report", place / "runs", "--experiments", place / "experiments",
                                   "--out", place / "report", "--json"});
    EXPECT_EQ(finished.code, 0) << finished.err;
    nlohmann::json report = parse_json(finished.out);
    for (auto& section : report.at("sections")) {
      for (auto& run : section.at("runs")) run.erase("directory");
      for (auto& table : section.at("tables")) {
        EXPECT_EQ(table.at("head").back(), "time");
        for (auto& row : table.at("rows")) row.erase(row.size() - 1);
      }
    }
    return report;
  }
  std::string status(const std::string& name) const {
    const fs::path result = run(name) / "result.json";
    return fs::exists(result) ? json_file(result).at("status").get<std::string>() : "none";
  }
  // The process that some run is in; it left its number in the lock.
  pid_t holder() const {
    const auto begun = std::find_if(kRuns.begin(), kRuns.end(), [&](const std::string& name) {
      return fs::exists(run(name) / ".lock");
    });
    return std::stoi(read_bytes(run(*begun) / ".lock"));
  }
  // Whether at least two runs have come this far.
  bool under_way(long update) const {
    return std::count_if(kRuns.begin(), kRuns.end(), [&](const std::string& name) {
             return last_logged_update(run(name)) >= update;
           }) >= 2;
  }

  static inline TempDir* shared_ = nullptr;
  static inline std::string first_;
  TempDir place_;
};

// Runs as processes, and as threads of one: as on a GPU, but on the CPU.
class EitherWay : public Reproduce, public ::testing::WithParamInterface<const char*> {
 protected:
  Arguments command() const {
    return std::string(GetParam()) == "worker" ? Reproduce::command() + Arguments{"--worker"}
                                               : Reproduce::command();
  }
};
INSTANTIATE_TEST_SUITE_P(, EitherWay, ::testing::Values("processes", "worker"),
                         [](const auto& info) { return std::string(info.param); });

TEST_F(Reproduce, MakesEveryRun) {
  EXPECT_THAT(first_, HasSubstr("3 of 3 runs done in "));
  for (const std::string& name : kRuns) {
    const auto result = json_file(*shared_ / "runs" / name / "result.json");
    EXPECT_EQ(result.at("updates"), kUpdates);
    EXPECT_EQ(result.at("cell").get<std::string>() + "-seed1", fs::path(name).filename());
    EXPECT_THAT(read_bytes(*shared_ / "runs" / name / "log.txt"), HasSubstr("3,000 updates"));
  }
}

TEST_F(Reproduce, DoesNothingTheSecondTime) {
  const Snapshot before = snapshot(*shared_ / "runs");
  const Finished again = nru(command(*shared_));
  EXPECT_EQ(again.code, 0);
  EXPECT_THAT(again.out, HasSubstr("3 of 3 runs done in "));
  EXPECT_THAT(again.err, IsEmpty());
  EXPECT_EQ(snapshot(*shared_ / "runs"), before);
}

TEST_P(EitherWay, GoesOnAfterKills) {
  write(place_, toy(kUpdates));
  for (const long update : {300, 1200}) {
    Program program(command() + Arguments{"--jobs", "2"});
    ASSERT_TRUE(program.wait_until([&] { return under_way(update); }));
    program.signal(SIGKILL);
    ASSERT_EQ(program.wait().code, -SIGKILL);
  }
  // The runs were told of the death and saved; going on does not have to wait for that.
  const Finished finished = nru(command());
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("3 of 3 runs done"));
  expect_equal_to_the_whole();
  const nlohmann::json report = report_on(place_);
  EXPECT_EQ(report, report_on(*shared_));
  EXPECT_EQ(report.at("runs"), 3);
}

TEST_P(EitherWay, LeavesNoRunBehindWhenKilled) {
  write(place_, toy(kEndless));
  Program program(command() + Arguments{"--jobs", "2"});
  ASSERT_TRUE(program.wait_until([&] { return under_way(50); }));
  program.signal(SIGKILL);
  program.wait();
  const auto saved = [&] {
    return std::count_if(kRuns.begin(), kRuns.end(),
                         [&](const std::string& name) { return status(name) == "interrupted"; });
  };
  for (int i = 0; i < 3000 && saved() < 2; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(saved(), 2);
}

TEST_P(EitherWay, SavesAndSaysHowToGoOnAfterASignal) {
  write(place_, toy(kUpdates));
  for (const int signal : {SIGINT, SIGTERM}) {
    Program program(command() + Arguments{"--jobs", "2"});
    ASSERT_TRUE(program.wait_until([&] { return under_way(signal == SIGINT ? 200 : 900); }));
    program.signal(signal);
    const Finished finished = program.wait();
    EXPECT_EQ(finished.code, 128 + signal) << finished.err;
    EXPECT_THAT(finished.out,
                AllOf(HasSubstr("left"), HasSubstr("all saved; go on with: nru reproduce "
                                                   "toy --jobs 2 --out ")));
    EXPECT_TRUE(std::any_of(kRuns.begin(), kRuns.end(), [&](const std::string& name) {
      return status(name) == "interrupted";
    }));
  }
  ASSERT_EQ(nru(command()).code, 0);
  expect_equal_to_the_whole();
}

TEST_P(EitherWay, StopsAtTheTimeLimit) {
  write(place_, toy(kEndless));
  const Finished finished = nru(command() + Arguments{"--time-limit", "3", "--jobs", "3"});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(finished.out, AllOf(HasSubstr("0 of 3 runs done"), HasSubstr("3 left"),
                                  ContainsRegex("left: toy/nru-seed1: at .* of 100,000,000"),
                                  HasSubstr("the time limit is up")));
  const auto json =
      parse_json(nru(command() + Arguments{"--time-limit", "2", "--jobs", "3", "--json"}).out);
  EXPECT_EQ(json.at("stopped_by"), "time limit");
  EXPECT_EQ(json.at("left"), 3);
  EXPECT_EQ(json.at("runs").at(2).at("state"), "left");
}

TEST_P(EitherWay, AFailedRunDoesNotStopTheOthers) {
  write(place_, toy(60));
  fs::create_directories(run("toy/gru-seed1"));
  write_bytes(run("toy/gru-seed1") / "metrics.csv", "");
  const Finished finished = nru(command());
  EXPECT_EQ(finished.code, 2);
  EXPECT_THAT(finished.out, AllOf(HasSubstr("2 of 3 runs done"), HasSubstr("1 failed"),
                                  HasSubstr("failed: toy/gru-seed1: "),
                                  HasSubstr("holds a run already (metrics.csv)"),
                                  HasSubstr("gru-seed1/log.txt")));
  EXPECT_EQ(status("toy/nru-seed1"), "finished");
  fs::remove(run("toy/gru-seed1") / "metrics.csv");
  const Finished again = nru(command());
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("3 of 3 runs done"));
}

TEST_P(EitherWay, ADivergedRunIsAnOutcome) {
  write(place_, toy(500, "learning_rate = 1000\nclip_norm = 0\n"));  // of [run.nru]
  const Finished finished = nru(command());
  EXPECT_EQ(finished.code, 0) << finished.out;
  EXPECT_THAT(finished.out, HasSubstr("3 of 3 runs done"));
  EXPECT_THAT(finished.out, HasSubstr("1 of them diverged"));
  EXPECT_THAT(finished.err, ContainsRegex("toy/nru-seed1: diverged after .*see .*log.txt"));
  EXPECT_THAT(read_bytes(run("toy/nru-seed1") / "log.txt"), HasSubstr("training diverged: "));
  EXPECT_THAT(nru(command()).err, IsEmpty());  // not tried again
}

TEST_F(Reproduce, RefusesRunsOfAnotherPlan) {
  write(place_, toy(60));
  ASSERT_EQ(nru(command()).code, 0);
  const Snapshot before = snapshot(place_ / "runs");
  write(place_, toy(50));
  const Finished shorter = nru(command());
  EXPECT_EQ(shorter.code, 2);
  EXPECT_THAT(shorter.err, AllOf(HasSubstr("holds a run of 60 updates and the plan has 50"),
                                 HasSubstr("choose another --out")));
  std::string text = toy(60);
  write(place_, text.replace(text.find("lag = 5"), 7, "lag = 6"));
  EXPECT_THAT(nru(command()).err, HasSubstr("(lag: 5 there, 6 here"));
  EXPECT_EQ(snapshot(place_ / "runs"), before);
}

TEST_F(Reproduce, ALongerPlanGoesOn) {
  write(place_, toy(500));  // a multiple of evaluate_every: its end leaves no trace
  ASSERT_EQ(nru(command()).code, 0);
  write(place_, toy(kUpdates));
  ASSERT_EQ(nru(command()).code, 0);
  expect_equal_to_the_whole();
}

TEST_P(EitherWay, TwoAtOnceShareTheWork) {
  write(place_, toy(kUpdates));
  Program first(command() + Arguments{"--jobs", "1"}), second(command() + Arguments{"--jobs", "1"});
  const Finished one = first.wait(), other = second.wait();
  EXPECT_EQ(one.code, 0) << one.out << one.err;
  EXPECT_EQ(other.code, 0) << other.out << other.err;
  EXPECT_THAT(one.out, HasSubstr("3 of 3 runs done"));
  EXPECT_THAT(other.out, HasSubstr("3 of 3 runs done"));
  expect_equal_to_the_whole();
}

TEST_F(Reproduce, ThreadsOfOneProcessGiveTheSameBits) {
  write(place_, toy(kUpdates));
  const Finished finished = nru(command() + Arguments{"--worker", "--jobs", "3"});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("3 of 3 runs done"));
  expect_equal_to_the_whole();
  for (const std::string& name : kRuns) {
    const std::string log = read_bytes(run(name) / "log.txt");
    EXPECT_THAT(log, AllOf(HasSubstr("3,000 updates"), HasSubstr("finished")));
    EXPECT_EQ(log.find("files in "), log.rfind("files in "));  // its own alone
  }
  EXPECT_EQ(read_bytes(place_ / "runs" / "worker.txt"), "");
}

TEST_F(Reproduce, AKilledWorkerIsTheEndOfTheRunsInIt) {
  write(place_, toy(kUpdates));
  Program program(command() + Arguments{"--worker", "--jobs", "2"});
  ASSERT_TRUE(program.wait_until([&] { return under_way(300); }));
  ::kill(holder(), SIGKILL);
  const Finished finished = program.wait();
  EXPECT_EQ(finished.code, 1);
  EXPECT_THAT(finished.out, AllOf(HasSubstr("1 of 3 runs done"), HasSubstr("2 failed"),
                                  HasSubstr("killed by SIGKILL")));
  ASSERT_EQ(nru(command() + Arguments{"--worker"}).code, 0);
  expect_equal_to_the_whole();
}

TEST_P(EitherWay, InspectsRunsWhoseFigureNeedsIt) {
  std::string text = toy(60);
  text.replace(text.find("curves"), 6, "heatmap");
  text.replace(text.find("\"lstm\", \"gru\", "), 15, "");
  write(place_, text);
  ASSERT_EQ(nru(command()).code, 0);
  const fs::path memory = run("toy/nru-seed1") / "inspect" / "memory.csv";
  EXPECT_TRUE(fs::exists(memory));
  const auto made = fs::last_write_time(memory);
  ASSERT_EQ(nru(command()).code, 0);
  EXPECT_EQ(fs::last_write_time(memory), made);
  remove_tree(memory.parent_path());
  ASSERT_EQ(nru(command()).code, 0);
  EXPECT_TRUE(fs::exists(memory));
}

TEST_F(Reproduce, InspectsForEveryFigureOfWhatIsInside) {
  for (const std::string figure : {"groups", "lags"}) {
    std::string text = toy(60);
    text.replace(text.find("curves"), 6, figure);
    text.replace(text.find("\"lstm\", \"gru\", "), 15, "");
    write(place_, text);
    ASSERT_EQ(nru(command()).code, 0);
    EXPECT_TRUE(fs::exists(run("toy/nru-seed1") / "inspect" / "lags.csv")) << figure;
    remove_tree(place_ / "runs");
  }
}

TEST_F(Reproduce, DrawsOnATerminalOnly) {
  write(place_, toy(kUpdates));
  const Finished live = nru(command(), {.environment = {{"TERM", "xterm"}}, .terminal = true});
  EXPECT_EQ(live.code, 0);
  EXPECT_THAT(live.out, AllOf(ContainsRegex("toy/nru-seed1 +[0-9,]+/3,000"),
                              HasSubstr("of 3 runs done, "), HasSubstr("\x1b[")));
  remove_tree(place_ / "runs");
  const Finished plain = nru(command());
  EXPECT_THAT(plain.err,
              AllOf(HasSubstr("toy/nru-seed1: done after 3,000 updates"), Not(HasSubstr("\x1b["))));
}

TEST_F(Reproduce, PlansWithoutDoing) {
  write(place_, toy(kUpdates));
  const Finished plan = nru(command() + Arguments{"--dry-run"});
  EXPECT_EQ(plan.code, 0);
  EXPECT_THAT(plan.out, AllOf(ContainsRegex("toy/lstm-seed1 +3,000 +new"), HasSubstr("0 of 3")));
  EXPECT_FALSE(fs::exists(place_ / "runs"));
  const auto json =
      parse_json(nru(command() + Arguments{"--dry-run", "--json", "--quick", "--seeds", "2"}).out);
  EXPECT_EQ(json.at("runs").size(), 6u);
  EXPECT_EQ(json.at("runs").at(0).at("total_updates"), 60);
  EXPECT_EQ(json.at("runs").at(1).at("seed"), 2);
  EXPECT_THAT(nru(command(*shared_) + Arguments{"--dry-run"}).out, HasSubstr("3 of 3 runs done"));
}

TEST_F(Reproduce, TakesSomeCellsAndFewerUpdatesForNow) {
  write(place_, toy(kUpdates));
  const Finished some = nru(command() + Arguments{"--cells", "nru,gru", "--updates", "500"});
  EXPECT_EQ(some.code, 0) << some.err;
  EXPECT_THAT(some.out, HasSubstr("2 of 2 runs done"));
  EXPECT_EQ(json_file(run("toy/nru-seed1") / "result.json").at("updates"), 500);
  EXPECT_FALSE(fs::exists(run("toy/lstm-seed1")));
  ASSERT_EQ(nru(command()).code, 0);
  expect_equal_to_the_whole();
  EXPECT_THAT(nru(command() + Arguments{"--cells", "nruu"}).err,
              HasSubstr("unknown cell 'nruu'; did you mean 'nru'?"));
  EXPECT_THAT(nru(command() + Arguments{"--cells", "janet"}).err,
              HasSubstr("there are no runs of janet in toy"));
}

TEST_F(Reproduce, TakesSomeVariants) {
  write(place_, toy(60, R"(
[[variant]]
name = "short"
label = "T = 5"
[[variant]]
name = "long"
label = "T = 9"
lag = 9
)"));
  const Arguments some = command() + Arguments{"--cells", "gru,nru", "--variants", "long"};
  const Finished planned = nru(some + Arguments{"--dry-run"});
  EXPECT_THAT(planned.out, AllOf(HasSubstr("toy/gru-long-seed1"), HasSubstr("toy/nru-long-seed1"),
                                 HasSubstr("0 of 2 runs done")));
  EXPECT_THAT(nru(command() + Arguments{"--variants", "lang"}).err,
              HasSubstr("unknown variant 'lang'; did you mean 'long'?"));
  const Finished listed = nru(command() + Arguments{"--list", "--json"});
  EXPECT_EQ(nlohmann::json::parse(listed.out).at(0).at("variants"),
            (nlohmann::json{"short", "long"}));
  const Finished stopped = nru(some + Arguments{"--time-limit", "0.001"});
  EXPECT_THAT(stopped.out, HasSubstr("--cells gru,nru --variants long"));
}

TEST_F(Reproduce, SlipsGetTheNearestName) {
  const Finished slip = nru({"reproduce", "copy-10"});
  EXPECT_EQ(slip.code, 2);
  EXPECT_EQ(slip.err, "nru: unknown experiment 'copy-10'; did you mean 'copy-100'?\n");
  EXPECT_THAT(nru({"reproduce"}).err, HasSubstr("no experiment was named"));
  EXPECT_THAT(nru({"reproduce", "all", "--out", "--quick"}).err,
              HasSubstr("found the flag --quick"));
  write(place_, toy(60, "[run.lstmm]\nupdates = 3\n"));
  EXPECT_THAT(nru(command()).err, ContainsRegex("toy\\.toml:[0-9]+: .*did you mean 'lstm'"));
  write(place_, toy(60, "\"cell.memory_sise\" = 3\n"));
  EXPECT_THAT(nru(command()).err, AllOf(HasSubstr("experiment toy, nru-seed1: "),
                                        HasSubstr("did you mean 'memory_size'")));
}

TEST_F(Reproduce, ListsThePapersExperiments) {
  EXPECT_THAT(nru({"reproduce", "--list"}).out, ContainsRegex("copy-100 +30 +10  Copying memory"));
  const auto json = parse_json(nru({"reproduce", "--list", "--json"}).out);
  const fs::directory_iterator files(fs::path(NRU_SOURCE_DIR) / "experiments");
  EXPECT_EQ(json.size(), static_cast<std::size_t>(std::distance(begin(files), end(files))));
}

// Every setting of the paper's files is one that the cells and tasks know.
TEST_F(Reproduce, ThePapersGridIsPossible) {
  for (const char* quick : {"--json", "--quick"}) {
    const Finished plan =
        nru({"reproduce", "all", "--dry-run", quick, "--out", (place_ / "paper").string()});
    EXPECT_EQ(plan.code, 0) << plan.err;
  }
}

}  // namespace
}  // namespace nru::test
