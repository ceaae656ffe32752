// The tables of an experiment: what the paper says beside what the runs say.
#pragma once

#include <string>
#include <vector>

#include "report/collection.h"
#include "report/ranking.h"

namespace nru::report {

struct Table {
  std::string title;  // empty: the experiment's own
  std::vector<std::string> head;
  std::vector<bool> number;  // per column: aligned to the right
  std::vector<std::vector<std::string>> rows;
};

std::vector<Table> tables_of(const Collection& collection,
                             const experiments::Experiment& experiment,
                             const std::vector<Series>& series, const Ranking& ranking);

// "3", "2 of 3", "1 of 3, 1 unfinished": how many runs of a series count, and what became of
// others.
std::string runs_in_words(const Series& series);

}  // namespace nru::report
