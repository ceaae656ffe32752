// A folder of runs in memory: RUNS/EXPERIMENT/RUN as `nru reproduce` leaves them, or run
// directories of one's own lying in it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "experiments/definition.h"
#include "report/run.h"
#include "report/style.h"

namespace nru::report {

// Where a report lies in its folder of runs, unless it is put elsewhere.
inline constexpr char kReportFolder[] = "report";

struct Collection {
  std::filesystem::path root;
  // Those of the paper, then one for every task and lag of runs that belong to none.
  std::vector<experiments::Experiment> experiments;
  std::vector<Run> runs;           // planned ones that are not there included
  std::vector<std::string> notes;  // what was left aside, one line each
  // The experiment whose own folder `root` is: with the folder above it these runs would stand
  // beside the paper's. Empty: none.
  std::string folder_of;
};

// Throws nru::Error when `root` is no folder, or holds no run at all.
Collection read_collection(const std::filesystem::path& root,
                           std::vector<experiments::Experiment> experiments);

// What one line of a figure and one row of a table is about: the runs of one cell and variant.
struct Series {
  std::string key;         // "nru", "nru/m144": as claims name it
  std::string experiment;  // where the runs come from
  std::string cell, variant;
  std::string label;
  Style style;
  std::vector<const Run*> runs;  // by seed, missing ones included

  std::vector<const Run*> counted() const;  // Run::counts()
  Series comparable() const;                // only with runs of the experiment's settings
};

// The series an experiment shows, in the order of style.h: its own, then those it `uses`.
std::vector<Series> series_of(const Collection& collection,
                              const experiments::Experiment& experiment);

}  // namespace nru::report
