// An experiment of the paper as data: which runs there are, which figure or table they make, what
// the paper says about it. Read from experiments/NAME.toml; nothing here needs torch, so that both
// the scheduler and the report read the same file.
//
//   title = "Copying memory, T = 100"
//   paper = "Figure 2, left"              # where the paper shows it; left out: nowhere
//   figure = "curves"                     # FigureKind
//   cells = ["rnn-orth", ..., "nru"]
//   seeds = [1, 2, 3]
//   uses = ["copy-200"]                   # optional: shows runs of other experiments as well; a
//                                         # file without [run] has none of its own, and `cells`
//                                         # then says which cells of those (empty: all)
//
//   [run]                                 # settings of every run, keys as in `nru train --set`
//   task = "copy"
//   lag = 100
//   updates = 200000
//   stop_when_settled = true
//
//   [run.nru]                             # optional: settings of one cell's runs, and its seeds
//   stop_when_settled = false
//   seeds = [1, 2, 3, 4]
//
//   [quick]                               # laid over all else with --quick; also `cells`,
//                                         # `seeds` and `variants`: fewer of them
//   updates = 2000
//
//   [[variant]]                           # optional: every cell is run once per variant
//   name = "m144"
//   label = "memory 144"
//   "cell.memory_size" = 144
//
//   [[paper_value]]                       # a number of the paper
//   cell = "nru"
//   variant = ""                          # optional
//   metric = "test_accuracy"              # Metric names: see metric_names()
//   value = 0.9538
//
//   [[claim]]                             # a statement of the paper that runs can confirm
//   text = "The NRU is the first general-purpose cell to solve the task"
//   check = "first"                       # CheckKind
//   cells = ["nru"]
//   among = ["lstm", "lstm-chrono", "gru", "janet", "sru", "goru", "nru"]
#pragma once

#include <nru/options.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace nru::experiments {

enum class FigureKind {
  curves,      // training loss over updates, one line per cell, the baseline drawn
  validation,  // validation metric over epochs
  gradients,   // gradient norm over updates, log scale
  bars,        // updates to solve, one bar per cell and task
  heatmap,     // memory over time of one sequence
  memory,      // loss, largest memory and hidden values, gradient norm over updates, per variant
  groups,      // recall accuracy by position in a group of sequences without reset
  lags,        // recall accuracy at the run's lag and beyond
  ranking,     // how often a cell is first and among the first two
  table        // numbers only
};

struct PaperValue {
  std::string cell;
  std::string variant;  // empty: none
  std::string metric;
  double value = 0;
};

enum class CheckKind {
  first,        // `cells` solve before every other cell of `among` (medians over seeds)
  solves,       // each of `cells` solves in most seeds
  unsolved,     // none of `cells` solves
  at_baseline,  // the loss of each of `cells` stays above `value` times the baseline
  ratio,        // metric of cells[0] / metric of cells[1] lies in [low, high]
  best,         // metric of cells[0] is the best of `among`
  order,        // `metric` of `cells` is in this order, best first
  at_least,     // `metric` of each of `cells` is at least `value`
  at_most,      // ... at most `value`
  finite        // no run of `cells` diverged or skipped an update
};

struct Claim {
  std::string text;
  CheckKind check = CheckKind::solves;
  std::vector<std::string> cells;  // "nru", or "nru/m144" for a variant
  std::vector<std::string> among;
  std::string metric;                      // for ratio, best, order, at_least, at_most
  std::optional<double> value, low, high;  // where the kind needs them
};

struct Variant {
  std::string name;   // part of the run's directory; empty: the only one
  std::string label;  // for legends
  OptionMap settings;
};

struct Experiment {
  std::string name;  // of the file
  std::string title;
  std::string paper;
  std::string note;  // what a reader should know
  FigureKind figure = FigureKind::table;
  std::vector<std::string> cells;
  std::vector<std::int64_t> seeds;
  std::vector<std::string> uses;  // other experiments
  OptionMap run;                  // flat keys
  std::map<std::string, OptionMap> run_by_cell;
  std::map<std::string, std::vector<std::int64_t>> seeds_by_cell;  // where they are not `seeds`
  OptionMap quick;                                                 // flat keys
  std::vector<std::string> quick_cells;                            // empty: as without --quick
  std::vector<std::int64_t> quick_seeds;                           // empty: the first seed
  std::vector<std::string> quick_variants;                         // empty: all
  std::vector<Variant> variants;                                   // at least one
  std::vector<PaperValue> paper_values;
  std::vector<Claim> claims;
};

// Of those that have a name.
std::vector<std::string> variant_names(const Experiment& experiment);

// One run of an experiment.
struct PlannedRun {
  std::string experiment;
  std::string cell;
  std::string variant;  // empty: none
  std::int64_t seed = 1;
  OptionMap settings;               // everything but `out`, task and cell included
  std::filesystem::path directory;  // below the runs' root: copy-100/nru-seed1, x/nru-m144-seed1
};

struct Selection {
  bool quick = false;
  std::optional<std::int64_t> seeds;  // so many instead of the file's: 1..N
};

// What the files of a run say, by the names claims and paper values use:
//   solved_at, solved_at_1pct, spikes, seconds, parameters    as in result.json
//   valid_accuracy, test_accuracy, valid_bpc, test_bpc        of the best weights
//   best_loss, final_loss    least and last training loss, means of 200 updates
//   baseline_ratio           final_loss over the baseline
//   early_grad_norm          mean gradient norm of the first 10,000 updates
//   bursts                   how often the logged loss rose above 10 times the baseline after it
//                            had been below it; at least one where a run diverged
//   valid_drop               largest fall of the validation accuracy below its best so far
//   blank_share              part of the memory's change, sum |m_t - m_(t-1)| over the sequence of
//                            inspect/memory_change.csv, that falls between symbols and marker
//   far_accuracy             recall accuracy at the longest lag of inspect/lags.csv
//   top1, top2               of experiments with figure = "ranking": tasks where the cell is first,
//                            among the first two
const std::vector<std::string>& metric_names();

// "curves" for FigureKind::curves: as the file names it.
const char* to_string(FigureKind kind);
const char* to_string(CheckKind kind);

// Throws nru::Error naming file, key and the fix. `text` is what the file holds.
Experiment parse_experiment(const std::string& text, const std::filesystem::path& file);

// All experiments of a folder, sorted by name, those that are not in the paper last; those named in
// `uses` must be there.
std::vector<Experiment> load_experiments(const std::filesystem::path& folder);

// The folder with the paper's experiments: `given` where it is not empty, else
// share/nru/experiments beside an installed program, else that of the source tree this was built
// from. Throws nru::Error when there is none.
std::filesystem::path find_experiments(const std::filesystem::path& given = {});

// The one of that name. Throws nru::Error with the nearest name.
const Experiment& find_experiment(const std::vector<Experiment>& experiments,
                                  const std::string& name);

// Cells times variants times seeds, in that order: the experiment's own runs.
std::vector<PlannedRun> plan(const Experiment& experiment, const Selection& selection);

// Every run that the experiment shows: its own, and those of `uses` with one of its cells.
std::vector<PlannedRun> plan_shown(const std::vector<Experiment>& experiments,
                                   const Experiment& experiment, const Selection& selection);

}  // namespace nru::experiments
