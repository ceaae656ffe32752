// Which cells are first and among the first two of a task: the paper's summary over all tasks.
//
// Copying tasks by the median of updates to solve, where within 10 % of the leader counts as a tie;
// cells that do not solve come after all that do, by their least loss. Denoising: all that solve
// tie. Character models by test bits per character to two decimals, psMNIST by test accuracy to a
// tenth of a point. Places are counted as in sports: after two firsts comes a third.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "report/collection.h"

namespace nru::report {

struct Place {
  std::string cell;
  int place = 0;       // from 1
  std::string reason;  // "12,300 updates"
};

struct TaskRanking {
  std::string experiment;
  std::string title;
  std::vector<Place> places;         // of cells with runs of the task's settings, best first
  std::vector<std::string> missing;  // cells without, or with one that gave up early
  bool complete() const { return missing.empty() && !places.empty(); }
};

// `series`: one per cell of the task.
TaskRanking rank(const experiments::Experiment& task, const std::vector<Series>& series);

// Over the complete tasks of an experiment with figure = "ranking".
struct Ranking {
  std::vector<TaskRanking> tasks;
  std::map<std::string, int> top1, top2;  // by cell
  int complete = 0;                       // tasks that count
};

Ranking rank_all(const Collection& collection, const experiments::Experiment& experiment);

}  // namespace nru::report
