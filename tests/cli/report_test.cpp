// `nru report` on runs that `nru train` made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../support/test_files.h"
#include "program.h"
#include "runs.h"

namespace nru::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(ReportCommand, WritesTablesFiguresAndOnePage) {
  const TempDir place;
  const std::string runs = place / "runs";
  ASSERT_EQ(nru(small_run() + Arguments{"--out", place / "runs/one"}).code, 0);
  const Finished finished = nru({"report", runs});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(finished.out, AllOf(StartsWith("1 run.\nwrote "), HasSubstr("report.html")));
  const std::string page = read_bytes(place / "runs/report/report.html");
  EXPECT_NE(page.find("</html>"), std::string::npos);
  EXPECT_THAT(read_bytes(place / "runs/report/report.md"), HasSubstr("| model | runs |"));

  // The report itself is no run, and a thinned copy reports the same.
  const Finished again = nru({"report", runs, "--thin", place / "thin", "--out", place / "a"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_FALSE(fs::exists(place / "thin/one/checkpoint.safetensors"));
  EXPECT_EQ(nru({"report", place / "thin", "--out", place / "b"}).code, 0);
  EXPECT_EQ(read_bytes(place / "a/report.md"), read_bytes(place / "b/report.md"));
}

TEST(ReportCommand, WithoutGnuplotSaysHowToGetIt) {
  const TempDir place;
  ASSERT_EQ(nru(small_run() + Arguments{"--out", place / "runs/one"}).code, 0);
  const Finished finished =
      nru({"report", place / "runs"}, {.environment = {{"PATH", "/nowhere"}}});
  EXPECT_EQ(finished.code, 0);
  EXPECT_THAT(finished.err, HasSubstr("apt-get install gnuplot-nox"));
  EXPECT_TRUE(fs::exists(place / "runs/report/report.html"));
}

TEST(ReportCommand, OfOneExperimentsFolderNamesTheOneAbove) {
  const TempDir place;
  const std::string runs = place / "my runs", folder = runs + "/copy-100";
  ASSERT_EQ(nru(small_run() + Arguments{"--out", folder + "/nru-seed1"}).code, 0);
  EXPECT_THAT(nru({"report", folder}).out,
              HasSubstr("these are runs of copy-100: nru report '" + runs + "' "));
  EXPECT_THAT(nru({"report", runs}).out, Not(HasSubstr("these are runs of")));
}

TEST(ReportCommand, WrongPlaces) {
  const TempDir place;
  const Finished missing = nru({"report", place / "nothing"});
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.err, HasSubstr("not a folder of runs"));
  EXPECT_THAT(nru({"report", place.path()}).err, HasSubstr("there are no runs in"));
  EXPECT_THAT(nru({"report", place.path(), "--experiments", place / "x"}).err,
              HasSubstr("--experiments"));
}

}  // namespace
}  // namespace nru::test
