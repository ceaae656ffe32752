// Folders of runs in every condition, and what is written about them.
#include "report/report.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "../support/test_files.h"
#include "made_up.h"
#include "report/page_assets.h"
#include "report/page_data.h"
#include "training/run_directory.h"

namespace nru::report {
namespace {

namespace fs = std::filesystem;
using test::copying;
using test::MadeUp;
using test::TempDir;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(Report, ItsSummaryCountsClaimsWhereThereAreSome) {
  const TempDir root;
  test::write_run(root / "one/a", {});
  EXPECT_EQ(summary_of(make_report(read_collection(root / "one", copying()))), "1 run.");
  test::write_run(root / "grid/copy-100/nru-seed1", {.solved_at = 20000});
  test::write_run(root / "grid/copy-100/lstm-seed1", {.cell = "lstm"});
  EXPECT_EQ(summary_of(make_report(read_collection(root / "grid", copying()))),
            "2 runs. Of the paper's claims 1 is confirmed, 0 are not, 0 have not been run.");
}

TEST(Medians, OverSeedsWithTheirRange) {
  test::Cast cast;
  cast.add({.updates = 1000}).add({.seed = 2, .updates = 1000}).add({.seed = 3, .updates = 500});
  std::vector<report::Run> runs(3);
  for (int i = 0; i < 3; ++i) {
    runs[i].state = RunState::finished;
    for (int point = 1; point <= (i == 2 ? 5 : 10); ++point) {
      training::MetricsRow row;
      row.update = 100 * point;
      row.loss = std::vector<double>{1, 2, 6}[i];
      runs[i].train.push_back(row);
    }
  }
  Series series;
  for (const report::Run& run : runs) series.runs.push_back(&run);
  Line line = median_lines({&series}, {}).at(0);
  ASSERT_EQ(line.x.size(), 10u);
  EXPECT_EQ(line.x.back(), 1000);
  EXPECT_EQ(line.y[2], 2);
  EXPECT_EQ(line.low[2], 1);
  EXPECT_EQ(line.high[2], 6);
  EXPECT_EQ(line.y[9], 1.5);  // the third ended at 500
  runs[2].state = RunState::solved;
  line = median_lines({&series}, {}).at(0);
  EXPECT_EQ(line.y[9], 2);  // it settled: held at its last value
}

TEST(Report, CurvesAreFramedByTheBaseline) {
  constexpr double kBaseline = 0.17328679513998632;
  const TempDir root;
  test::write_run(root / "copy-100/nru-seed1", {.solved_at = 20000});
  test::write_run(root / "copy-100/nru-seed2", {.solved_at = 20000});
  test::write_run(root / "copy-100/nru-seed3", {.solved_at = 20000});
  const auto y = [&] {
    const Report report = make_report(read_collection(root.path(), copying()));
    return std::get<LineFigure>(report.sections[0].figures.figures.at(0).drawing).y;
  };
  const auto add = [&](int seed, const char* row) {
    const training::RunPaths paths{root / fmt::format("copy-100/nru-seed{}", seed)};
    test::write_bytes(paths.metrics(), test::read_bytes(paths.metrics()) + row);
  };
  EXPECT_FALSE(y().high);
  EXPECT_FALSE(y().low);
  add(1, "60001,,train,173286795.13998632,1e9,,,,,,,0,0,1\n");  // in the band alone
  for (const int seed : {2, 3}) add(seed, "60001,,train,0.017328679513998632,0.1,,,,,,,0,0,1\n");
  EXPECT_NEAR(y().high.value_or(0), 30 * kBaseline, 1e-9);
  EXPECT_FALSE(y().low);
  for (const int seed : {1, 2, 3})
    add(seed, "60101,,train,1.7328679513998632e-11,1e-10,,,,,,,0,0,1\n");
  EXPECT_NEAR(y().low.value_or(0), 1e-6 * kBaseline, 1e-12);
}

// Two seeds of three: the median is a number, and the whisker says that there was one without.
TEST(Report, AWhiskerGoesToTheEndWhereASeedIsNotSolved) {
  const TempDir root;
  test::write_run(root / "copy-100/nru-seed1", {.updates = 50000, .solved_at = 20000});
  test::write_run(root / "copy-100/nru-seed2", {.updates = 60000, .solved_at = 30000});
  test::write_run(root / "copy-100/nru-seed3", {.updates = 40000});
  std::vector<experiments::Experiment> all = copying();
  experiments::Experiment bars = all[0];
  bars.name = "converge";
  bars.figure = experiments::FigureKind::bars;
  bars.uses = {"copy-100"};
  all.push_back(bars);
  const Report report = make_report(read_collection(root.path(), all));
  const auto& figure = std::get<BarFigure>(report.sections.at(1).figures.figures.at(0).drawing);
  const BarFigure::Bar& bar = figure.series.back().bars.at(0);
  EXPECT_EQ(bar.value, 30000);
  EXPECT_EQ(bar.low, 20000);
  EXPECT_EQ(bar.high, 60000);
}

TEST(Report, LagsAreMediansOfWhatInspectionsFound) {
  const TempDir root;
  const std::string head = "lag,accuracy,exact,relative_loss\n";
  for (const int seed : {1, 2, 3}) {
    const fs::path run = root / fmt::format("copy-100/nru-seed{}", seed);
    test::write_run(run, {.seed = seed, .updates = 50000, .solved_at = 20000});
    fs::create_directory(run / "inspect");
    test::write_bytes(run / "inspect/lags.csv",
                      head + "100,1,1,0\n" + fmt::format("200,0.{},0.5,0.1\n", 3 * seed));
  }
  std::vector<experiments::Experiment> all = copying();
  all[0].figure = experiments::FigureKind::lags;
  const Report report = make_report(read_collection(root.path(), all));
  const auto& figure = std::get<LineFigure>(report.sections[0].figures.figures.at(0).drawing);
  ASSERT_EQ(figure.lines.size(), 1u);
  EXPECT_THAT(figure.lines[0].x, ElementsAre(100, 200));
  EXPECT_THAT(figure.lines[0].y, ElementsAre(1, 0.6));
  EXPECT_THAT(figure.lines[0].low, ElementsAre(1, 0.3));
  EXPECT_THAT(figure.lines[0].high, ElementsAre(1, 0.9));
  EXPECT_THAT(to_markdown(report), HasSubstr("| 60.00 % (30.00 % to 90.00 %) |"));
}

TEST(Report, GradientFlowIsRelativeToTheLastStep) {
  const TempDir root;
  for (const int seed : {1, 2, 3}) {
    const fs::path run = root / fmt::format("copy-100/nru-seed{}", seed);
    test::write_run(run, {.seed = seed, .updates = 50000, .solved_at = 20000});
    fs::create_directory(run / "inspect");
    const double last = seed == 3 ? 0 : std::pow(10, -seed);  // the third has no gradient left
    test::write_bytes(run / "inspect/gradient_flow.csv",
                      fmt::format("step,norm\n0,{}\n1,{}\n", 0.5 * last, last));
  }
  std::vector<experiments::Experiment> all = copying();
  all[0].figure = experiments::FigureKind::gradients;
  const Report report = make_report(read_collection(root.path(), all));
  const auto& figure = std::get<LineFigure>(report.sections[0].figures.figures.back().drawing);
  ASSERT_EQ(figure.lines.size(), 1u);
  EXPECT_THAT(figure.lines[0].y, ElementsAre(0.5, 1));
  EXPECT_THAT(figure.lines[0].low, ElementsAre(0.5, 1));
}

TEST(Report, PaperOursDifference) {
  const TempDir root;
  std::vector<experiments::Experiment> all = copying();
  all[0].paper_values = {{"nru", "", "test_accuracy", 0.9538}};
  test::write_run(root / "copy-100/nru-seed1", {.solved_at = 20000, .accuracy = 0.95});
  const Report report = make_report(read_collection(root.path(), all));
  const Table& table = report.sections[0].tables[0];
  EXPECT_THAT(table.head, Contains("test accuracy, paper"));
  EXPECT_THAT(table.rows[1], Contains("95.38 %"));
  EXPECT_THAT(table.rows[1], Contains("-0.38 points"));
  EXPECT_THAT(to_markdown(report), HasSubstr("| 95.38 % | 95.00 % | -0.38 points |"));
}

TEST(Report, AThinnedCopyGivesTheSameReport) {
  const TempDir root;
  const fs::path runs = root / "runs", thin = root / "thin";
  const std::string run = "copy-100/nru-seed1";
  test::write_run(runs / run, {.updates = 40000, .solved_at = 20000, .points = 4000, .epochs = 30});
  test::write_inspection(runs / run, 20, 4);
  test::write_bytes(runs / run / "best.safetensors", "weights");
  test::write_run(runs / "copy-100/lstm-seed1", {.cell = "lstm", .updates = 40000, .points = 4000});
  Collection collection = read_collection(runs, copying());
  EXPECT_EQ(write_thinned(collection, thin), 2);
  EXPECT_LT(fs::file_size(thin / run / "metrics.csv"),
            fs::file_size(runs / run / "metrics.csv") / 8);
  EXPECT_EQ(test::read_bytes(thin / run / "result.json"),
            test::read_bytes(runs / run / "result.json"));
  EXPECT_THAT(test::read_bytes(thin / run / "config.toml"),
              AllOf(HasSubstr("out = \"runs/copy-100/nru-seed1\""), Not(HasSubstr(runs.string()))));
  EXPECT_FALSE(fs::exists(thin / run / "best.safetensors"));
  for (const char* table : {"memory.csv", "memory_change.csv", "input.csv", "lags.csv"})
    EXPECT_TRUE(fs::exists(thin / run / "inspect" / table)) << table;
  const Report first = make_report(std::move(collection));
  const Report second = make_report(read_collection(thin, copying()));
  EXPECT_EQ(to_markdown(first), to_markdown(second));
  EXPECT_EQ(to_html(first, {}), to_html(second, {}));
  EXPECT_THAT(test::error_of([&] { write_thinned(first.collection, runs); }),
              HasSubstr("the runs themselves"));
}

TEST(Report, FilesAndJson) {
  const TempDir root;
  test::write_run(root / "copy-100/nru-seed1", {.solved_at = 20000});
  test::write_run(root / "copy-100/lstm-seed1", {.cell = "lstm"});
  const Report report = make_report(read_collection(root.path(), copying()));
  const Written written = write_report(report, root / "out");
  EXPECT_TRUE(fs::exists(root / "out/report.md"));
  EXPECT_TRUE(fs::exists(root / "out/report.html"));
  EXPECT_EQ(fs::exists(root / "out/figures/copy-100.svg"), has_gnuplot());
  EXPECT_EQ(written.warning.empty(), has_gnuplot());
  const auto json = nlohmann::json::parse(to_json(report));
  EXPECT_EQ(json["sections"][0]["claims"][0]["verdict"], "confirmed");
  EXPECT_EQ(json["runs"], 2);
}

TEST(Report, WithoutGnuplotAllElseIsWritten) {
  const TempDir root;
  test::write_run(root / "copy-100/nru-seed1", {.solved_at = 20000});
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", "/nowhere", 1);
  const Written written =
      write_report(make_report(read_collection(root.path(), copying())), root / "out");
  ::setenv("PATH", path.c_str(), 1);
  EXPECT_THAT(written.warning, HasSubstr("gnuplot-nox"));
  EXPECT_TRUE(fs::exists(root / "out/report.html"));
}

// Tags that are opened must be closed in turn: enough of a parser for a page we write ourselves.
std::string unbalanced(std::string_view page) {
  static const std::set<std::string_view> single = {"!doctype", "meta", "img", "input"};
  std::vector<std::string_view> open;
  for (std::size_t at; (at = page.find('<')) != std::string_view::npos;) {
    page.remove_prefix(at + 1);
    const bool closes = page.starts_with('/');
    if (closes) page.remove_prefix(1);
    const std::string_view name = page.substr(0, page.find_first_of(" >\n"));
    bool quoted = false;
    for (at = 0; at < page.size() && (quoted || page[at] != '>'); ++at) {
      if (page[at] == '"') quoted = !quoted;
      if (page[at] == '<') return fmt::format("a stray < in {}", page.substr(0, at + 20));
    }
    page.remove_prefix(at);
    if (single.contains(name)) continue;
    if (!closes) {
      open.push_back(name);
      if (name == "script" || name == "style") {  // what is in there is no HTML
        page.remove_prefix(page.find(fmt::format("</{}>", name)));
      }
    } else if (open.empty() || open.back() != name) {
      return fmt::format("</{}> closes {}", name, open.empty() ? "nothing" : open.back());
    } else {
      open.pop_back();
    }
  }
  return open.empty() ? "" : fmt::format("<{}> is never closed", open.back());
}

TEST(Page, HostileNamesStayText) {
  const std::string hostile =
      "</script><script>alert('1')</script>\"'><img src=x onerror=a>&|`{{data}}";
  const TempDir root;
  std::vector<experiments::Experiment> all = copying();
  all[0].title = all[0].paper = all[0].note = all[0].claims[0].text = hostile;
  all[0].variants[0].label = hostile;
  test::write_run(root / "copy-100/nru-seed1", {.solved_at = 20000});
  const training::RunPaths paths{root / "copy-100/nru-seed1"};
  test::write_bytes(paths.config(), "note = \"" + hostile + "\xff\x01\"\n");
  const std::string page = to_html(make_report(read_collection(root.path(), all)), {});
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  EXPECT_EQ(page.find("<img src=x"), std::string::npos);
  EXPECT_EQ(page.find('\xff'), std::string::npos);
  EXPECT_EQ(unbalanced(page), "");
}

TEST(Page, IsWholeAndItsDataIsJson) {
  const TempDir root;
  auto paper = experiments::load_experiments(experiments::find_experiments());
  test::write_grid(root.path(), paper, 20);
  const Report report = make_report(read_collection(root.path(), std::move(paper)));
  const std::string page = to_html(report, {});
  EXPECT_EQ(unbalanced(page), "");
  EXPECT_GT(page.find("{{"), page.find("<script>"));  // JavaScript may have them
  EXPECT_EQ(page.find("sourceMappingURL"), std::string::npos);
  const auto data = nlohmann::json::parse(page_data(report));
  const auto& figure = data["figures"]["copy-100"];
  EXPECT_EQ(figure["series"].size(), 10u);
  EXPECT_EQ(figure["series"][9]["name"], "NRU");
  EXPECT_EQ(figure["x"].size(), figure["series"][9]["y"].size());
  EXPECT_EQ(figure["references"].size(), 1u);
  EXPECT_TRUE(data["figures"].contains("sensitivity-heads"));
  EXPECT_EQ(data["figures"]["beyond-psmnist"]["series"].size(), 3u);  // none is unchanged
  EXPECT_TRUE(data["figures"].contains("stability-t2000"));
  // The first epochs leave the figure, at the bottom or at the top.
  EXPECT_NEAR(data["figures"]["psmnist"]["yLow"].get<double>(), 0.81, 0.02);
  EXPECT_TRUE(data["figures"]["psmnist"]["yHigh"].is_null());
  EXPECT_NEAR(data["figures"]["char-ptb"]["yHigh"].get<double>(), 1.67, 0.02);
  EXPECT_EQ(data["figures"]["converge"]["kind"], "bars");
  EXPECT_EQ(data["maps"]["memory-map-1"]["units"], 64);
  for (const Section& section : report.sections) {
    EXPECT_THAT(section.deviations, IsEmpty()) << section.experiment->name;
    for (const Judgement& claim : section.claims) {
      EXPECT_NE(claim.verdict, Verdict::not_run) << claim.claim << ": " << claim.reason;
    }
  }
}

TEST(Page, ShowsThePicturesWhereThereIsNoLibrary) {
  const TempDir root;
  test::write_run(root / "copy-100/nru-seed1", {.solved_at = 20000});
  const Report report = make_report(read_collection(root.path(), copying()));
  const std::map<std::string, std::string> svgs = {{"copy-100", "<svg/>"}};
  PageAssets assets = page_assets();
  assets.library = "";
  EXPECT_TRUE(to_html(report, svgs, assets).find("base64,PHN2Zy8+") != std::string::npos);
  assets.library = "var Dygraph;";
  EXPECT_TRUE(to_html(report, svgs, assets).find("base64") == std::string::npos);
}

TEST(Page, Base64) {
  EXPECT_EQ(to_base64(""), "");
  EXPECT_EQ(to_base64("f"), "Zg==");
  EXPECT_EQ(to_base64("fo"), "Zm8=");
  EXPECT_EQ(to_base64("foobar"), "Zm9vYmFy");
}

TEST(Inspection, SharesOfTheMemorysChange) {
  const TempDir root;
  test::write_inspection(root.path(), 20, 8);
  const MemoryMap map = *read_memory_map(root.path());
  EXPECT_EQ(map.steps, 40);
  EXPECT_EQ(map.units, 8);
  ASSERT_EQ(map.stretches.size(), 3u);
  EXPECT_EQ(map.stretches[1].first, 10);
  EXPECT_EQ(map.stretches[1].last, 28);
  EXPECT_EQ(map.stretches[2].first, 29);
  EXPECT_GT(*map.blank_share(), 0);
  EXPECT_LT(*map.blank_share(), 0.02);
  test::write_bytes(root / "inspect/memory_change.csv", "step,m0\n0,1\n1\n");
  EXPECT_FALSE(read_memory_map(root.path()));
}

}  // namespace
}  // namespace nru::report
