// The page in a real browser: it loads without a complaint and without the network, and using it
// changes what it shows. NRU_SCREENSHOTS=DIR keeps pictures of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "browser.h"
#include "made_up.h"
#include "report/page_assets.h"
#include "report/report.h"

namespace nru::report {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kPicture[] = "document.querySelector('#copy-100 .plot canvas').toDataURL()";

// An expression for [low, high] of a figure's values.
std::string range_of(const std::string& figure) {
  return "views.find(view => view.figure.dataset.figure === '" + figure + "').graph.yAxisRange()";
}

class PageInBrowser : public ::testing::Test {
 protected:
  // One browser and one report for all of them: starting one takes seconds.
  static void SetUpTestSuite() {
    program_ = test::find_chromium();
    if (program_.empty()) return;
    folder_ = std::make_unique<test::TempDir>();
    auto paper = experiments::load_experiments(experiments::find_experiments());
    test::write_grid(folder_->path(), paper, 150);
    write_report(make_report(read_collection(folder_->path(), std::move(paper))), *folder_ / "out");
    browser_ = std::make_unique<test::Browser>(program_);
  }
  static void TearDownTestSuite() {
    browser_.reset();
    folder_.reset();
  }

  void SetUp() override {
    if (program_.empty()) {
      GTEST_SKIP() << "no Chromium on this machine (apt-get install chromium)";
    }
    if (page_assets().library.empty()) {
      GTEST_SKIP() << "built without dygraphs (apt-get install libjs-dygraphs)";
    }
  }

  static test::Browser& open(int width = 1280, bool dark = false) {
    browser_->open(*folder_ / "out/report.html", width, 900, dark);
    return *browser_;
  }
  static void keep(const std::string& name, const std::string& selector = "") {
    if (const char* folder = std::getenv("NRU_SCREENSHOTS")) {
      browser_->screenshot(std::filesystem::path(folder) / (name + ".png"), selector);
    }
  }
  static void click(const std::string& selector) {
    browser_->evaluate("document.querySelector('" + selector + "').click()");
  }

  static std::string program_;
  static std::unique_ptr<test::TempDir> folder_;
  static std::unique_ptr<test::Browser> browser_;
};

std::string PageInBrowser::program_;
std::unique_ptr<test::TempDir> PageInBrowser::folder_;
std::unique_ptr<test::Browser> PageInBrowser::browser_;

TEST_F(PageInBrowser, LoadsWithoutComplaintsAndWithoutTheNetwork) {
  test::Browser& page = open();
  EXPECT_THAT(page.complaints(), IsEmpty());
  ASSERT_EQ(page.requests().size(), 1u);  // the file itself
  EXPECT_THAT(page.requests()[0], HasSubstr("file://"));
  const json figures = page.evaluate("document.querySelectorAll('figure[data-figure]').length");
  EXPECT_GE(figures.get<int>(), 16);
  EXPECT_EQ(page.evaluate("document.querySelectorAll('figure[data-figure] canvas').length > 0 && "
                          "[...document.querySelectorAll('figure[data-figure]')].every(f => "
                          "f.querySelector('.plot canvas'))"),
            true);
  keep("light");
  keep("light-accuracy", "#psmnist");
  keep("light-memory", "#random-labels");
}

TEST_F(PageInBrowser, TogglingAModelChangesThePlot) {
  test::Browser& page = open();
  const json before = page.evaluate(kPicture);
  click("#copy-100 .legend li:last-child input");
  const json without = page.evaluate(kPicture);
  EXPECT_NE(before, without);
  click("#copy-100 .legend li:last-child input");
  EXPECT_EQ(page.evaluate(kPicture), before);
  click("#copy-100 .none");
  EXPECT_EQ(page.evaluate("document.querySelectorAll('#copy-100 .legend input:checked').length"),
            0);
  click("#copy-100 .whole");
  EXPECT_EQ(page.evaluate(kPicture), before);
  EXPECT_THAT(page.complaints(), IsEmpty());
}

TEST_F(PageInBrowser, LogSwitchHighlightAndZoomChangeThePlot) {
  test::Browser& page = open();
  const json before = page.evaluate(kPicture);
  click("#copy-100 .log");
  EXPECT_EQ(page.evaluate("document.querySelector('#copy-100 .log').ariaPressed"), "false");
  EXPECT_NE(page.evaluate(kPicture), before);
  click("#copy-100 .log");
  EXPECT_EQ(page.evaluate(kPicture), before);
  page.evaluate("document.querySelector('#copy-100 .legend li:last-child input').focus()");
  EXPECT_NE(page.evaluate(kPicture), before);
  page.evaluate("document.activeElement.blur()");
  EXPECT_EQ(page.evaluate(kPicture), before);
  page.evaluate("document.querySelector('#copy-100 .plot').focus()");
  page.press("+");
  EXPECT_NE(page.evaluate(kPicture), before);
  page.press("Escape");
  EXPECT_EQ(page.evaluate(kPicture), before);
}

TEST_F(PageInBrowser, KeysReadValues) {
  test::Browser& page = open();
  page.evaluate("document.querySelector('#copy-100 .plot').focus()");
  page.press("End");
  EXPECT_EQ(page.evaluate("document.querySelector('#copy-100 .readout').textContent"),
            "200,000 updates");
  const std::string value =
      page.evaluate("document.querySelector('#copy-100 .legend li:last-child .value').textContent");
  EXPECT_THAT(value, HasSubstr(" to "));  // the median and its band
  page.press("ArrowLeft");
  EXPECT_NE(page.evaluate("document.querySelector('#copy-100 .readout').textContent"),
            "200,000 updates");
  keep("hover", "#copy-100");
}

TEST_F(PageInBrowser, BarsNameTheirGroups) {
  test::Browser& page = open();
  page.evaluate("document.querySelector('#converge .plot').focus()");
  page.press("Home");
  EXPECT_EQ(page.evaluate("document.querySelector('#converge .readout').textContent"),
            "Copying memory, T = 100");
  keep("bars", "#converge");
}

// Where a line leaves the figure, and nowhere else: what has a range of its own keeps it.
TEST_F(PageInBrowser, ClippingIsThereWhereThereIsMoreToSee) {
  test::Browser& page = open();
  const std::string picture = "document.querySelector('#psmnist .plot canvas').toDataURL()";
  const json before = page.evaluate(picture);
  click("#psmnist .clip");
  EXPECT_EQ(page.evaluate("document.querySelector('#psmnist .clip').ariaPressed"), "false");
  EXPECT_NE(page.evaluate(picture), before);
  click("#psmnist .clip");
  EXPECT_EQ(page.evaluate(picture), before);
  for (const std::string name : {"converge", "beyond-lags"}) {
    EXPECT_EQ(page.evaluate("document.querySelectorAll('#" + name + " .plot').length"), 1) << name;
    EXPECT_EQ(page.evaluate("document.querySelectorAll('#" + name + " .clip').length"), 0) << name;
    const json shown = page.evaluate(range_of(name));
    EXPECT_LE(shown.at(0).get<double>(), 0) << name;  // bars stand on it
    click("#" + name + " .none");
    click("#" + name + " .whole");
    EXPECT_EQ(page.evaluate(range_of(name)), shown) << name;
  }
  click("#beyond-lags .log");  // from zero is no range there
  EXPECT_GT(page.evaluate(range_of("beyond-lags")).at(0).get<double>(), 0);
  EXPECT_GT(page.evaluate(range_of("beyond-lags")).at(1).get<double>(), 1);
  EXPECT_THAT(page.complaints(), IsEmpty());
}

TEST_F(PageInBrowser, MemoryCanBeScrubbed) {
  test::Browser& page = open();
  const std::string field = "document.querySelector('#memory-map .field').toDataURL()";
  const json before = page.evaluate(field);
  page.evaluate(
      "(() => { const s = document.querySelector('#memory-map input[type=range]'); s.value = 60; "
      "s.dispatchEvent(new Event('input')); })()");
  EXPECT_NE(page.evaluate(field), before);
  const std::string words =
      page.evaluate("document.querySelector('#memory-map .readout').textContent");
  EXPECT_THAT(words, HasSubstr("step 60, blanks, input 0"));
  click("#memory-map button[data-kind=values]");
  EXPECT_EQ(
      page.evaluate("document.querySelector('#memory-map button[data-kind=values]').ariaPressed"),
      "true");
  keep("memory", "#memory-map");
}

TEST_F(PageInBrowser, DarkAndLight) {
  test::Browser& page = open(1280, true);
  const std::string back = "getComputedStyle(document.body).backgroundColor";
  EXPECT_EQ(page.evaluate(back), "rgb(20, 23, 28)");
  keep("dark", "#copy-100");
  keep("dark-accuracy", "#sensitivity");
  const json before = page.evaluate(kPicture);
  click("#theme");
  EXPECT_EQ(page.evaluate(back), "rgb(255, 255, 255)");
  EXPECT_NE(page.evaluate(kPicture), before);  // the lines have the colours for white
  EXPECT_THAT(page.complaints(), IsEmpty());
}

TEST_F(PageInBrowser, FitsAPhone) {
  test::Browser& page = open(390);
  EXPECT_LE(page.evaluate("document.documentElement.scrollWidth").get<int>(), 390);
  EXPECT_THAT(page.complaints(), IsEmpty());
  keep("phone");
  keep("phone-figure", "#copy-100");
  keep("phone-map", "#memory-map");
}

TEST_F(PageInBrowser, RunsAreOneClickAway) {
  test::Browser& page = open();
  click("#copy-100 details.runs > summary");
  click("#copy-100 details.run > summary");
  const std::string text =
      page.evaluate("document.querySelector('#copy-100 details.run').innerText");
  for (const char* wanted :
       {"Seed", "Commit", "0123456789ab", "Device", "cpu (AVX2)", "Time", "task = \"copy\""}) {
    EXPECT_THAT(text, HasSubstr(wanted));
  }
  keep("runs", "#copy-100 details.runs");
}

TEST_F(PageInBrowser, EverythingHasAName) {
  test::Browser& page = open();
  const json nameless = page.evaluate(R"js(
    [...document.querySelectorAll('button, input, canvas, [tabindex], img')].filter(e =>
      !e.closest('.dygraph-axis-label') && !e.closest('[role=application]') &&
      !(e.ariaLabel || e.alt || e.innerText?.trim() || e.closest('label')?.innerText.trim())
    ).map(e => e.outerHTML.slice(0, 80)))js");
  EXPECT_EQ(nameless.dump(), "[]");
  EXPECT_EQ(page.evaluate("new Set([...document.querySelectorAll('[id]')].map(e => e.id)).size === "
                          "document.querySelectorAll('[id]').length"),
            true);
}

}  // namespace
}  // namespace nru::report
