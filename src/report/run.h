// One run directory as the report sees it. Whatever is wrong with it is part of what it shows: a
// run that is missing, half-written, damaged or diverged never stops a report.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "report/measures.h"
#include "training/result.h"
#include "training/run_directory.h"

namespace nru::report {

enum class RunState {
  missing,     // no such directory
  unfinished,  // no result yet, or only that of the run before it was extended
  damaged,     // a file cannot be read; `problem` says which and why
  finished,    // the following as in result.json
  solved,
  diverged,
  interrupted,
  failed
};

const char* to_string(RunState state);

struct Run {
  std::string experiment;
  std::string cell;
  std::string variant;
  std::int64_t seed = 0;
  std::filesystem::path directory;
  RunState state = RunState::missing;
  std::string problem;  // one line; empty: none
  std::optional<training::Result> result;
  std::string config;                   // config.toml, without the folder of its maker
  std::vector<std::string> deviations;  // "lag 20 instead of 100": from what the experiment says
  bool comparable = true;               // false: it deviates in more than how far it went
  bool shortened = false;               // it was to make fewer updates than the experiment says
  Measures measures;
  Rows train, valid;  // thinned

  // Whether it says something about a claim: it came to an end of its own (diverging is one), or
  // solved the task before it was stopped.
  bool counts() const;
  bool solved() const { return result && result->solved_at.has_value(); }
  // Whether the experiment would have gone on where it stopped.
  bool cut_short() const {
    return state == RunState::interrupted || (shortened && state != RunState::diverged);
  }
};

// What its config.toml says; nothing where that cannot be read.
training::GivenValues settings_of(const Run& run);

// Fills in everything from `run.directory` on.
void read_run(Run& run);

}  // namespace nru::report
