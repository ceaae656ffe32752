// What `nru reproduce` says before any run is made: how long they take, and what stops them all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../support/test_files.h"
#include "program.h"
#include "runs.h"

namespace nru::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// Two runs of which one is next to nothing beside the other.
constexpr char kUnequal[] = R"(title = "Unequal"
figure = "curves"
cells = ["lstm", "gru"]
seeds = [1]
[run]
task = "copy"
lag = 5
log_every = 10
updates = 1000000
"cell.hidden_size" = 8
[run.gru]
updates = 60
)";

class Plan : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(place_ / "experiments");
    write_bytes(place_ / "experiments/unequal.toml", kUnequal);
  }
  Arguments command() const {
    return {"reproduce", "unequal",      "--experiments", place_ / "experiments",
            "--out",     place_ / "runs"};
  }
  std::string plan() const { return nru(command() + Arguments{"--dry-run"}).out; }

  TempDir place_;
};

TEST_F(Plan, ASmallShareIsNotNothing) {
  EXPECT_THAT(plan(), AllOf(ContainsRegex("gru-seed1 .*new +< 0\\.1 % of all\n"),
                            ContainsRegex("lstm-seed1 .*new +100\\.0 % of all\n"),
                            HasSubstr("how long the rest takes can be told once a run has "
                                      "ended\n")));
}

TEST_F(Plan, OneRunTellsHowLongTheRestTakes) {
  ASSERT_EQ(nru(command() + Arguments{"--cells", "gru"}).code, 0);
  EXPECT_THAT(plan(), AllOf(ContainsRegex("lstm-seed1 .*new +about [0-9]"),
                            ContainsRegex("1 of 2 runs done\n"
                                          "the rest takes about .*[0-9][smh], one run after"),
                            Not(HasSubstr("of all"))));
}

TEST_F(Plan, WhatStopsEveryRunIsToldOnceAndBeforehand) {
  const std::string file = place_ / "file", out = place_ / "new";
  write_bytes(file, "mine");
  const auto refused = [](const Finished& finished, const std::string& why) {
    EXPECT_EQ(finished.code, 2);
    EXPECT_EQ(lines_in(finished.err), 1) << finished.err;
    EXPECT_THAT(finished.err, HasSubstr(why));
  };
  const Arguments without_out{"reproduce", "unequal", "--experiments", place_ / "experiments"};
  const auto with = [&](const Arguments& more) { return nru(without_out + more); };
  refused(with({"--out", out, "--device", "cuda:99"}), "--device cpu");
  refused(with({"--out", out, "--device", "gpu"}), "--device: device 'gpu' is not known");
  for (const std::string& place : {file, file + "/runs"})
    refused(with({"--out", place}), file + " is not a folder; choose another --out");
  refused(nru({"reproduce", "psmnist", "--quick", "--out", out},
              {.environment = {{"NRU_DATA", "/nowhere"}}}),
          "nru data get mnist");
  write_bytes(place_ / "experiments/unequal.toml", std::string(kUnequal) + "device = 3\n");
  refused(with({"--out", out}), "experiment unequal, gru-seed1: ");
  EXPECT_FALSE(fs::exists(out));
}

}  // namespace
}  // namespace nru::test
