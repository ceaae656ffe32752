// What part of its lines a figure shows.
#include "report/plots.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "made_up.h"

namespace nru::report {
namespace {

// A run with a validation after every epoch.
Run validated(const std::vector<double>& bits) {
  Run run;
  run.state = RunState::finished;
  for (std::size_t epoch = 1; epoch <= bits.size(); ++epoch) {
    training::MetricsRow row;
    row.update = static_cast<std::int64_t>(100 * epoch);
    row.epoch = static_cast<std::int64_t>(epoch);
    row.bpc = bits[epoch - 1];
    run.valid.push_back(row);
  }
  return run;
}

// The highest value that the figure of these runs shows.
std::optional<double> top_of(const std::vector<Run>& runs) {
  experiments::Experiment experiment = test::experiment_of("char-ptb", {"nru"});
  experiment.figure = experiments::FigureKind::validation;
  std::vector<Series> series(runs.size());
  for (std::size_t i = 0; i < runs.size(); ++i) series[i].runs.push_back(&runs[i]);
  const Figures figures = figures_of({}, experiment, series);
  return std::get<LineFigure>(figures.figures.at(0).drawing).y.high;
}

TEST(ValidationFigure, EndsALittleAboveWhereLinesEnd) {
  const auto top = top_of({validated({9, 4, 2, 1.8}), validated({5, 3, 2, 1.6})});
  ASSERT_TRUE(top);
  EXPECT_GT(*top, 1.9);
  EXPECT_LT(*top, 2.5);
}

TEST(ValidationFigure, DoesNotWaitForALineThatHasExploded) {
  const auto top = top_of({validated({9, 4, 2, 1.8}), validated({3, 2, 1e27, 1e27})});
  ASSERT_TRUE(top);
  EXPECT_LT(*top, 2.5);
}

// An experiment with a variant of its own, beside the cells of another.
std::vector<Series> beside(const std::vector<std::string>& cells) {
  Collection collection;
  experiments::Experiment plain = test::experiment_of("char-ptb", cells), other = plain;
  other.name = "settings";
  other.uses = {plain.name};
  other.variants = {{"reset", "reset", {}}};
  collection.experiments = {plain, other};
  for (const std::string& cell : cells) {
    collection.runs.emplace_back();
    collection.runs.back().experiment = other.name;
    collection.runs.back().cell = cell;
  }
  return series_of(collection, other);
}

TEST(Series, OfVariantsDoNotLookLikeThoseOfTheirCell) {
  for (const auto& cells : {std::vector<std::string>{"eurnn"}, {"eurnn", "nru", "lstm"}}) {
    const std::vector<Series> series = beside(cells);
    ASSERT_EQ(series.size(), 2 * cells.size());
    for (std::size_t i = 0; i < series.size(); ++i) {
      if (series[i].variant.empty()) {
        EXPECT_EQ(series[i].style.color, style_of(series[i].cell).color);
        EXPECT_EQ(series[i].style.dash, style_of(series[i].cell).dash);
      }
      for (std::size_t j = 0; j < i; ++j) {
        EXPECT_FALSE(series[i].style.color == series[j].style.color &&
                     series[i].style.dash == series[j].style.dash)
            << series[i].label << " and " << series[j].label;
      }
    }
  }
}

}  // namespace
}  // namespace nru::report
