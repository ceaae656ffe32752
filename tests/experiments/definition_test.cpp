// Experiments as data: what a file says is what is planned, and a slip in it is an error with its
// place.
#include "experiments/definition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../support/test_files.h"

namespace nru::experiments {
namespace {

using test::error_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kWhole[] = R"(title = "Copying"
paper = "Figure 1"
figure = "curves"
cells = ["lstm", "nru"]
seeds = [1, 2]

[run]
task = "copy"
lag = 100
updates = 1000
stop_when_settled = true
cell.hidden_size = 8

[run.nru]
stop_when_settled = false
epochs = 3

[quick]
cells = ["nru"]
updates = 10

[[variant]]
name = "m64"

[[variant]]
name = "m144"
label = "memory 144"
"cell.memory_size" = 144

[[paper_value]]
cell = "nru"
variant = "m144"
metric = "solved_at"
value = 25000

[[claim]]
text = "faster"
check = "ratio"
cells = ["nru/m64", "nru/m144"]
metric = "solved_at"
low = 1.5
)";

Experiment parse(const std::string& text) { return parse_experiment(text, "dir/copying.toml"); }

// kWhole with one change.
std::string with(const std::string& old, const std::string& now) {
  std::string text = kWhole;
  const std::size_t at = text.find(old);
  EXPECT_NE(at, std::string::npos) << old;
  return text.replace(at, old.size(), now);
}

std::vector<std::string> directories(const std::vector<PlannedRun>& runs) {
  std::vector<std::string> names;
  for (const PlannedRun& run : runs) names.push_back(run.directory.string());
  return names;
}

TEST(ParseExperiment, ReadsEverything) {
  const Experiment e = parse(kWhole);
  EXPECT_EQ(e.name, "copying");
  EXPECT_EQ(e.title, "Copying");
  EXPECT_EQ(e.paper, "Figure 1");
  EXPECT_EQ(e.figure, FigureKind::curves);
  EXPECT_THAT(e.cells, ElementsAre("lstm", "nru"));
  EXPECT_THAT(e.seeds, ElementsAre(1, 2));
  EXPECT_EQ(get<std::int64_t>(e.run, "cell.hidden_size"), 8);
  EXPECT_FALSE(e.run.contains("nru"));
  EXPECT_EQ(get<bool>(e.run_by_cell.at("nru"), "stop_when_settled"), false);
  EXPECT_THAT(e.quick_cells, ElementsAre("nru"));
  ASSERT_THAT(e.variants, SizeIs(2));
  EXPECT_EQ(e.variants[0].label, "m64");
  EXPECT_EQ(e.variants[1].label, "memory 144");
  EXPECT_EQ(get<std::int64_t>(e.variants[1].settings, "cell.memory_size"), 144);
  ASSERT_THAT(e.paper_values, SizeIs(1));
  EXPECT_EQ(e.paper_values[0].value, 25000);
  ASSERT_THAT(e.claims, SizeIs(1));
  EXPECT_EQ(e.claims[0].check, CheckKind::ratio);
  EXPECT_EQ(e.claims[0].low, 1.5);
  EXPECT_EQ(e.claims[0].high, std::nullopt);
}

struct BadFile {
  const char* old;
  const char* now;
  const char* place;  // "" : anywhere
  const char* message;
};

void PrintTo(const BadFile& bad, std::ostream* out) { *out << bad.now; }

class Slip : public ::testing::TestWithParam<BadFile> {};

TEST_P(Slip, IsAnErrorWithItsPlace) {
  const BadFile& bad = GetParam();
  const std::string text = with(bad.old, bad.now);
  EXPECT_THAT(
      error_of([&] { parse(text); }),
      AllOf(HasSubstr(std::string("dir/copying.toml:") + bad.place), HasSubstr(bad.message)));
}

INSTANTIATE_TEST_SUITE_P(
    Files, Slip,
    ::testing::Values(
        BadFile{"title", "titel", "1: ", "has no title"},
        BadFile{"paper =", "papr =", "2: ",
                "unknown key 'papr' in the experiment; did you mean 'paper'?"},
        BadFile{"\"curves\"", "\"curvs\"", "3: ", "unknown figure 'curvs'; did you mean 'curves'?"},
        BadFile{"[\"lstm\", \"nru\"]", "\"nru\"", "4: ", "cells must be a list"},
        BadFile{"[\"lstm\", \"nru\"]", "[\"nru\", \"nru\"]", "4: ", "'nru' is in cells twice"},
        BadFile{"[1, 2]", "[1, 1]", "5: ", "1 is in seeds twice"},
        BadFile{"[1, 2]", "[1, -2]", "5: ", "0 or more"},
        BadFile{"seeds = [1, 2]", "", "1: ", "no seeds"},
        BadFile{"epochs = 3", "seeds = []", "16: ", "no seeds"},
        BadFile{"epochs = 3", "seeds = [3, 3]", "16: ", "3 is in seeds twice"},
        BadFile{"task = \"copy\"", "", "7: ", "[run] has no task"},
        BadFile{"lag = 100", "lga = 100", "9: ", "unknown setting 'lga'; did you mean 'lag'?"},
        BadFile{"lag = 100", "seed = 100", "9: ", "'seed' is not for an experiment to set"},
        BadFile{"lag = 100", "lag = [100]", "9: ", "'lag' must be true or false, a number"},
        BadFile{"[run.nru]", "[run.nruu]",
                "14: ", "[run.nruu] is for no cell of this experiment; did you mean 'nru'?"},
        BadFile{"cells = [\"nru\"]", "cells = [\"gru\"]", "19: ", "unknown cells 'gru'"},
        BadFile{"name = \"m144\"", "name = \"m64\"", "25: ", "two variants 'm64'"},
        BadFile{"name = \"m144\"", "name = \"../x\"", "26: ", "'../x' becomes part of a directory"},
        BadFile{"cell = \"nru\"", "cell = \"gru\"", "31: ", "unknown cell 'gru'"},
        BadFile{"variant = \"m144\"", "variant = \"m14\"",
                "32: ", "unknown variant 'nru/m14'; did you mean"},
        BadFile{"metric = \"solved_at\"\nvalue", "metric = \"solvedat\"\nvalue",
                "33: ", "unknown metric 'solvedat'; did you mean 'solved_at'?"},
        BadFile{"value = 25000", "value = \"25000\"", "34: ", "value must be a number"},
        BadFile{"value = 25000", "", "30: ", "has no value"},
        BadFile{"\"ratio\"", "\"ration\"", "38: ", "unknown check 'ration'; did you mean 'ratio'?"},
        BadFile{"\"nru/m144\"]", "\"nru/m145\"]",
                "39: ", "unknown cells 'nru/m145'; did you mean 'nru/m144'?"},
        BadFile{"low = 1.5", "lo = 1.5", "36: ", "needs 'low', 'high' or both"},
        BadFile{"low = 1.5", "low = 1.5\nvalue = 2", "42: ", "does not look at 'value'; remove it"},
        BadFile{"\"ratio\"", "\"first\"", "36: ", "check 'first' needs 'among'; add it"},
        BadFile{"[[claim]]", "[claim]", "36: ", "write [[claim]]"},
        BadFile{"lag = 100", "lag = ", "9: ", ""}));

TEST(ParseExperiment, NeedsRunsOrOthers) {
  EXPECT_THAT(error_of([] { parse("title = \"T\"\nfigure = \"table\"\n"); }),
              HasSubstr("neither a [run] nor 'uses'"));
}

TEST(Plan, IsCellsTimesVariantsTimesSeeds) {
  EXPECT_THAT(
      directories(plan(parse(kWhole), {})),
      ElementsAre("copying/lstm-m64-seed1", "copying/lstm-m64-seed2", "copying/lstm-m144-seed1",
                  "copying/lstm-m144-seed2", "copying/nru-m64-seed1", "copying/nru-m64-seed2",
                  "copying/nru-m144-seed1", "copying/nru-m144-seed2"));
}

TEST(Plan, LaysTheCellsAndTheVariantsSettingsOverTheRuns) {
  const auto runs = plan(parse(kWhole), {});
  const OptionMap& lstm = runs[0].settings;
  EXPECT_EQ(get<std::string>(lstm, "cell"), "lstm");
  EXPECT_EQ(get<std::string>(lstm, "task"), "copy");
  EXPECT_EQ(get<std::int64_t>(lstm, "seed"), 1);
  EXPECT_EQ(get<std::int64_t>(lstm, "updates"), 1000);
  EXPECT_EQ(get<bool>(lstm, "stop_when_settled"), true);
  EXPECT_FALSE(lstm.contains("cell.memory_size"));
  const OptionMap& nru = runs[7].settings;
  EXPECT_EQ(get<bool>(nru, "stop_when_settled"), false);
  EXPECT_EQ(get<std::int64_t>(nru, "cell.memory_size"), 144);
  EXPECT_EQ(get<std::int64_t>(nru, "seed"), 2);
  // The cell's epochs take the place of everyone's updates.
  EXPECT_EQ(get<std::int64_t>(nru, "epochs"), 3);
  EXPECT_FALSE(nru.contains("updates"));
}

TEST(Plan, QuickIsLaidOverAllElse) {
  const auto runs = plan(parse(kWhole), {.quick = true, .seeds = {}});
  EXPECT_THAT(directories(runs), ElementsAre("copying/nru-m64-seed1", "copying/nru-m144-seed1"));
  EXPECT_EQ(get<std::int64_t>(runs[0].settings, "updates"), 10);
  EXPECT_FALSE(runs[0].settings.contains("epochs"));
}

TEST(Plan, QuickMayTakeSomeVariants) {
  const std::string text = with("[quick]\n", "[quick]\nvariants = [\"m144\"]\n");
  EXPECT_THAT(directories(plan(parse(text), {.quick = true, .seeds = {}})),
              ElementsAre("copying/nru-m144-seed1"));
  EXPECT_THAT(plan(parse(text), {}), SizeIs(8));
  EXPECT_THAT(error_of([] { parse(with("[quick]\n", "[quick]\nvariants = [\"m1444\"]\n")); }),
              HasSubstr("unknown variants 'm1444'; did you mean 'm144'?"));
}

TEST(Plan, TakesAsManySeedsAsAskedFor) {
  EXPECT_THAT(plan(parse(kWhole), {.quick = false, .seeds = 5}), SizeIs(2 * 2 * 5));
  EXPECT_THAT(plan(parse(kWhole), {.quick = true, .seeds = 3}), SizeIs(2 * 3));
}

TEST(Plan, ACellMayHaveSeedsOfItsOwn) {
  const Experiment e = parse(with("epochs = 3", "seeds = [3, 4, 5]"));
  EXPECT_THAT(plan(e, {}), SizeIs(2 * 2 + 2 * 3));
  EXPECT_THAT(directories(plan(e, {.quick = true, .seeds = {}})),
              ElementsAre("copying/nru-m64-seed3", "copying/nru-m144-seed3"));
  EXPECT_THAT(plan(e, {.quick = false, .seeds = 1}), SizeIs(2 * 2));
}

class Folder : public ::testing::Test {
 protected:
  Folder() {
    test::write_bytes(folder_ / "copying.toml", kWhole);
    test::write_bytes(
        folder_ / "bars.toml",
        "title = \"Bars\"\nfigure = \"bars\"\ncells = [\"nru\"]\nuses = [\"copying\"]\n");
  }
  test::TempDir folder_;
};

TEST_F(Folder, IsLoadedInOrder) {
  const auto experiments = load_experiments(folder_.path());
  ASSERT_THAT(experiments, SizeIs(2));
  EXPECT_EQ(experiments[0].name, "copying");
  EXPECT_EQ(experiments[1].name, "bars") << "not in the paper: last";
  EXPECT_EQ(find_experiment(experiments, "copying").title, "Copying");
  EXPECT_THAT(error_of([&] { find_experiment(experiments, "copyin"); }),
              HasSubstr("unknown experiment 'copyin'; did you mean 'copying'?"));
}

TEST_F(Folder, ShowsRunsOfOthersWithItsOwnCells) {
  const auto experiments = load_experiments(folder_.path());
  const Experiment& bars = find_experiment(experiments, "bars");
  EXPECT_THAT(plan(bars, {}), IsEmpty());
  EXPECT_THAT(directories(plan_shown(experiments, bars, {})),
              ElementsAre("copying/nru-m64-seed1", "copying/nru-m64-seed2",
                          "copying/nru-m144-seed1", "copying/nru-m144-seed2"));
}

TEST_F(Folder, UsesMustBeThere) {
  test::write_bytes(folder_ / "bars.toml",
                    "title = \"Bars\"\nfigure = \"bars\"\nuses = [\"coping\"]\n");
  EXPECT_THAT(error_of([&] { load_experiments(folder_.path()); }),
              AllOf(HasSubstr("bars.toml"), HasSubstr("'coping'; did you mean 'copying'?")));
}

TEST_F(Folder, MustHoldExperiments) {
  EXPECT_THAT(error_of([&] { load_experiments(folder_ / "none"); }),
              HasSubstr("check --experiments"));
  std::filesystem::create_directory(folder_ / "empty");
  EXPECT_THAT(error_of([&] { load_experiments(folder_ / "empty"); }), HasSubstr("no experiments"));
  EXPECT_THAT(error_of([&] { find_experiments(folder_ / "none"); }), HasSubstr("is not a folder"));
}

// The paper's own files.
TEST(Paper, IsAllThere) {
  const auto experiments = load_experiments(find_experiments());
  std::vector<std::string> names;
  for (const Experiment& e : experiments) names.push_back(e.name);
  EXPECT_THAT(
      names,
      ElementsAre("char-ptb", "converge", "copy-100", "copy-200", "copy-variable-100",
                  "copy-variable-200", "denoise-100", "forgetting", "gradient-norm", "memory-map",
                  "memory-size", "multiplicative", "psmnist", "random-labels", "ranking",
                  "sensitivity", "stability", "beyond-calm", "beyond-char-ptb", "beyond-copy",
                  "beyond-forgetting", "beyond-lags", "beyond-long", "beyond-psmnist",
                  "beyond-stable", "settings-char-ptb", "settings-denoise", "settings-psmnist"));
  EXPECT_THAT(plan(find_experiment(experiments, "copy-100"), {}), SizeIs(30));
  EXPECT_THAT(plan(find_experiment(experiments, "sensitivity"), {}), SizeIs(9));
  for (const Experiment& e : experiments) {
    EXPECT_THAT(plan_shown(experiments, e, {}), ::testing::Not(IsEmpty())) << e.name;
    EXPECT_THAT(plan_shown(experiments, e, {.quick = true, .seeds = {}}), ::testing::Not(IsEmpty()))
        << e.name;
  }
}

TEST(Names, OfKindsReadBack) {
  EXPECT_STREQ(to_string(FigureKind::heatmap), "heatmap");
  EXPECT_STREQ(to_string(CheckKind::at_baseline), "at_baseline");
}

}  // namespace
}  // namespace nru::experiments
