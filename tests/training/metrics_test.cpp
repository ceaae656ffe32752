// metrics.csv: the columns, exact numbers, half lines, and resuming.
#include "training/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <limits>

#include "../support/test_files.h"

namespace nru::training {
namespace {

using testing::AllOf;
using testing::HasSubstr;

MetricsRow train_row(std::int64_t update) {
  MetricsRow row;
  row.update = update;
  row.split = "train";
  row.loss = 0.1 * static_cast<double>(update);
  row.grad_norm = 1.0 / 3;
  row.skipped = 0;
  row.seconds = 1.5;
  return row;
}

TEST(Metrics, ColumnsAreThePublishedOnes) {
  EXPECT_EQ(metrics_header(),
            "update,epoch,split,loss,relative_loss,accuracy,exact,bpc,grad_norm,max_memory,"
            "max_hidden,skipped,overflows,seconds");
  MetricsRow row;
  row.update = 10;
  row.epoch = 2;
  row.split = "valid";
  row.loss = 0.1;
  row.relative_loss = 0.5;
  row.accuracy = 1.0;
  row.exact = 0.25;
  row.bpc = 1.47;
  row.grad_norm = 1e-7;
  row.max_memory = 3e20;
  row.max_hidden = 2.0;
  row.skipped = 3;
  row.overflows = 4;
  row.seconds = 12.125;
  EXPECT_EQ(format_metrics_row(row), "10,2,valid,0.1,0.5,1,0.25,1.47,1e-07,3e+20,2,3,4,12.125");
  EXPECT_EQ(format_metrics_row(train_row(0)), "0,,train,0,,,,,0.3333333333333333,,,0,,1.5");
}

TEST(Metrics, NumbersReadBackEqual) {
  const test::TempDir directory;
  const auto path = directory / "metrics.csv";
  std::vector<MetricsRow> rows;
  for (double value : {0.1, 1.0 / 3, 5e-324, 1.7976931348623157e308, -0.0, 123456789.123456789,
                       std::numeric_limits<double>::infinity()}) {
    MetricsRow row = train_row(static_cast<std::int64_t>(rows.size()));
    row.loss = value;
    rows.push_back(row);
  }
  rows.push_back(MetricsRow{});
  rows.back().split = "test";
  rows.back().update = std::numeric_limits<std::int64_t>::max();
  MetricsWriter::create(path).append(rows);
  EXPECT_EQ(read_metrics(path), rows);

  MetricsRow nan = train_row(1);
  nan.loss = std::nan("");
  MetricsWriter::create(path).append(nan);
  ASSERT_EQ(read_metrics(path).size(), 1u);
  EXPECT_TRUE(std::isnan(*read_metrics(path)[0].loss));
}

TEST(Metrics, RowsAreInTheFileWhenAppendReturns) {
  const test::TempDir directory;
  const auto path = directory / "metrics.csv";
  MetricsWriter writer = MetricsWriter::create(path);
  EXPECT_TRUE(read_metrics(path).empty());
  writer.append(train_row(10));
  EXPECT_EQ(read_metrics(path).size(), 1u);
  writer.append(train_row(20));
  writer.sync();
  EXPECT_EQ(read_metrics(path).size(), 2u);
}

TEST(Metrics, ReaderLeavesOutAHalfWrittenLastLine) {
  const test::TempDir directory;
  const auto path = directory / "metrics.csv";
  const std::string whole = metrics_header() + "\n" + format_metrics_row(train_row(10)) + "\n";
  const std::string last = format_metrics_row(train_row(20));
  for (std::size_t length = 0; length <= last.size(); ++length) {
    test::write_bytes(path, whole + last.substr(0, length));
    EXPECT_EQ(read_metrics(path), std::vector<MetricsRow>{train_row(10)}) << length;
  }
  test::write_bytes(path, "update,ep");  // not even the header was finished
  EXPECT_TRUE(read_metrics(path).empty());
}

TEST(Metrics, DamageElsewhereIsAnErrorWithItsPlace) {
  const test::TempDir directory;
  const auto path = directory / "metrics.csv";
  const std::string good = format_metrics_row(train_row(10)) + "\n";
  const auto error = [&](const std::string& text) {
    test::write_bytes(path, text);
    return test::error_of([&] { read_metrics(path); });
  };
  EXPECT_THAT(error("a,b\n"), HasSubstr("metrics.csv:1: the columns are not"));
  EXPECT_THAT(error(metrics_header() + "\n" + good + "1,2\n"),
              AllOf(HasSubstr("metrics.csv:3: "), HasSubstr("2 fields instead of 14")));
  EXPECT_THAT(error(metrics_header() + "\n10,,train,x,,,,,,,,,,\n"),
              AllOf(HasSubstr("metrics.csv:2: "), HasSubstr("column loss: 'x' is not a number")));
  EXPECT_THAT(error(metrics_header() + "\n10,,train,1.5junk,,,,,,,,,,\n"), HasSubstr("1.5junk"));
  EXPECT_THAT(error(metrics_header() + "\n,,train,,,,,,,,,,,\n"), HasSubstr("column update"));
  EXPECT_THAT(test::error_of([&] { read_metrics(directory / "missing.csv"); }),
              HasSubstr("cannot read the metrics file"));
}

// A run killed after update 40 with a checkpoint at 20 goes on as if nothing had happened.
TEST(Metrics, ResumedFileEqualsTheUninterruptedOne) {
  const test::TempDir directory;
  const auto whole = directory / "whole.csv";
  const auto broken = directory / "broken.csv";
  {
    MetricsWriter writer = MetricsWriter::create(whole);
    for (int update = 10; update <= 60; update += 10) writer.append(train_row(update));
  }
  {
    MetricsWriter writer = MetricsWriter::create(broken);
    for (int update = 10; update <= 40; update += 10) writer.append(train_row(update));
  }
  test::write_bytes(broken, test::read_bytes(broken) + "50,,tra");
  {
    MetricsWriter writer = MetricsWriter::resume(broken, 20);
    EXPECT_EQ(read_metrics(broken).size(), 2u);
    for (int update = 30; update <= 60; update += 10) writer.append(train_row(update));
  }
  EXPECT_EQ(test::read_bytes(broken), test::read_bytes(whole));
  EXPECT_EQ(test::count_files(directory.path()), 2u);
}

TEST(Metrics, ResumeKeepsEveryRowOfTheCheckpointsUpdate) {
  const test::TempDir directory;
  const auto path = directory / "metrics.csv";
  MetricsRow valid = train_row(20);
  valid.split = "valid";
  MetricsWriter::create(path).append(std::vector{train_row(20), valid, train_row(30)});
  MetricsWriter::resume(path, 20);
  EXPECT_EQ(read_metrics(path), (std::vector{train_row(20), valid}));
  MetricsWriter::resume(directory / "new.csv", 0);
  EXPECT_EQ(test::read_bytes(directory / "new.csv"), metrics_header() + "\n");
}

TEST(Metrics, RefusesToResumeAForeignFile) {
  const test::TempDir directory;
  const auto path = directory / "metrics.csv";
  test::write_bytes(path, "my,own,table\n1,2,3\n");
  EXPECT_THAT(test::error_of([&] { MetricsWriter::resume(path, 10); }), HasSubstr("metrics.csv:1"));
  EXPECT_EQ(test::read_bytes(path), "my,own,table\n1,2,3\n");
}

// A file-size limit stands in for a full disk: write() stores a part, then fails.
TEST(Metrics, AFullDiskLeavesWholeLines) {
  const test::TempDir directory;
  const auto path = directory / "metrics.csv";
  MetricsWriter writer = MetricsWriter::create(path);
  writer.append(train_row(10));
  const std::string before = test::read_bytes(path);

  rlimit old_limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  rlimit limit = old_limit;
  limit.rlim_cur = before.size() + 7;
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  const std::string error = test::error_of([&] { writer.append(train_row(20)); });
  const std::string after = test::read_bytes(path);
  ::setrlimit(RLIMIT_FSIZE, &old_limit);
  std::signal(SIGXFSZ, old_handler);

  EXPECT_THAT(error, AllOf(HasSubstr("cannot write"), HasSubstr("metrics.csv")));
  EXPECT_EQ(after, before);
  writer.append(train_row(20));  // and it works again once there is room
  EXPECT_EQ(read_metrics(path).size(), 2u);
}

TEST(Metrics, RowsBeforeADamagedLineAreVisited) {
  const test::TempDir dir;
  MetricsRow row;
  row.update = 10;
  row.split = "train";
  test::write_bytes(dir / "m.csv",
                    metrics_header() + "\n" + format_metrics_row(row) + "\nnonsense\n");
  std::vector<std::int64_t> seen;
  const auto read = [&] {
    for_each_metrics_row(dir / "m.csv", [&](const MetricsRow& row) { seen.push_back(row.update); });
  };
  EXPECT_NE(test::error_of(read).find("m.csv:3: 1 fields instead of 14"), std::string::npos);
  EXPECT_EQ(seen, std::vector<std::int64_t>{10});
}

}  // namespace
}  // namespace nru::training
