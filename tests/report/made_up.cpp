#include "made_up.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "../support/test_files.h"
#include "training/run_directory.h"

namespace nru::test {
namespace {

namespace fs = std::filesystem;
using training::MetricsRow;
using training::Result;

constexpr double kBaseline = 0.17328679513998632;

// Noise that needs no generator and is the same everywhere.
double noise(std::int64_t n) { return std::sin(12.9898 * static_cast<double>(n)); }

double ratio_at(const MadeUp& made, std::int64_t update) {
  const double wobble = 1 + 0.05 * noise(update + 7 * made.seed);
  const double end = static_cast<double>(made.solved_at.value_or(made.updates));
  const double part = static_cast<double>(update) / end;
  const double last = made.solved_at ? 0.04 : made.best_ratio;
  if (part >= 1) return last * wobble / std::pow(part, 2);
  return (1 + (last - 1) * std::pow(part, 3)) * wobble + 10 * std::exp(-200 * part);
}

Result result_of(const MadeUp& made) {
  Result result;
  result.task = made.task;
  result.cell = made.cell;
  result.seed = made.seed;
  result.parameters = 23569;
  result.updates = made.updates;
  result.status = made.status;
  if (made.task != "psmnist" && made.task != "char-lm") result.baseline_loss = kBaseline;
  result.solved_at = made.solved_at;
  result.preset = "paper";
  result.seconds = static_cast<double>(made.updates) * 0.0027;
  result.device = "cpu (AVX2)";
  result.commit = "0123456789ab";
  result.versions = {{"nru", "0.1.0"}, {"torch", "1.13.0"}};
  training::Metrics metrics;
  metrics.loss = 0.1;
  metrics.accuracy = made.accuracy;
  metrics.bpc = made.bpc;
  result.final = {std::nullopt, metrics, metrics};
  result.best = {made.updates, metrics, metrics};
  return result;
}

std::vector<MetricsRow> rows_of(const MadeUp& made) {
  std::vector<MetricsRow> rows;
  const bool baseline = made.task != "psmnist" && made.task != "char-lm";
  for (int i = 1; i <= made.points; ++i) {
    MetricsRow row;
    row.update = made.updates * i / made.points;
    row.split = "train";
    row.relative_loss = ratio_at(made, row.update);
    row.loss = *row.relative_loss * kBaseline;
    if (!baseline) row.relative_loss.reset();
    row.grad_norm = 0.5 + 10 * std::exp(-1e-4 * static_cast<double>(row.update)) + noise(i) * 0.3;
    if (made.cell == "nru") row.max_memory = 40 + noise(i);
    row.max_hidden = 12 + noise(i);
    row.skipped = row.overflows = 0;
    row.seconds = 0.0027 * static_cast<double>(row.update);
    rows.push_back(row);
  }
  for (int epoch = 1; epoch <= made.epochs; ++epoch) {
    MetricsRow row;
    row.update = made.updates * epoch / made.epochs;
    row.epoch = epoch;
    row.split = "valid";
    const double part = 1 - std::exp(-8.0 * epoch / made.epochs);
    row.loss = 1.2 - part;
    if (made.accuracy) row.accuracy = *made.accuracy * part;
    if (made.bpc) row.bpc = *made.bpc + (1 - part);
    rows.push_back(row);
  }
  return rows;
}

std::string config_of(const MadeUp& made, const fs::path& directory) {
  OptionMap settings = made.settings;
  if (settings.empty()) {
    settings = {{"task", made.task}, {"lag", made.lag}, {"updates", made.updates}};
  }
  settings.erase("cell");
  settings["seed"] = made.seed;
  settings["cell.name"] = made.cell;
  settings["out"] = directory.string();
  std::string text;
  for (const auto& [key, value] : settings) {
    text += fmt::format("{} = {}\n", key, nru::to_string(value));
  }
  return text;
}

}  // namespace

report::Run run_of(const MadeUp& made) {
  report::Run run;
  run.cell = made.cell;
  run.variant = made.variant;
  run.seed = made.seed;
  run.comparable = made.comparable;
  run.shortened = made.shortened;
  run.result = result_of(made);
  run.state = made.status == training::RunStatus::diverged      ? report::RunState::diverged
              : made.status == training::RunStatus::interrupted ? report::RunState::interrupted
              : made.status == training::RunStatus::solved      ? report::RunState::solved
                                                                : report::RunState::finished;
  for (const MetricsRow& row : rows_of(made)) {
    (row.split == "train" ? run.train : run.valid).push_back(row);
  }
  run.measures = report::measure(run.train, run.valid);
  return run;
}

void write_run(const fs::path& directory, const MadeUp& made) {
  fs::create_directories(directory);
  const training::RunPaths paths{directory};
  write_bytes(paths.config(), config_of(made, paths.directory));
  std::string text = training::metrics_header() + "\n";
  for (const MetricsRow& row : rows_of(made)) text += training::format_metrics_row(row) + "\n";
  write_bytes(paths.metrics(), text);
  write_bytes(paths.result(), training::to_json(result_of(made)));
}

void write_inspection(const fs::path& directory, int lag, int units) {
  const fs::path folder = directory / "inspect";
  fs::create_directories(folder);
  const int steps = lag + 20;
  std::string memory = "step", change, input = "step,input,target\n", flow = "step,norm\n";
  for (int unit = 0; unit < units; ++unit) memory += fmt::format(",m{}", unit);
  memory += "\n";
  change = memory;
  std::vector<double> now(static_cast<std::size_t>(units));
  for (int step = 0; step < steps; ++step) {
    const bool busy = step < 10 || step >= lag + 9;
    memory += fmt::format("{}", step);
    change += fmt::format("{}", step);
    for (int unit = 0; unit < units; ++unit) {
      const double delta = (busy ? 1 : 0.01) * noise(1 + step * 31 + unit * 17);
      now[unit] += delta;
      memory += fmt::format(",{:.6g}", now[unit]);
      change += fmt::format(",{:.6g}", delta);
    }
    memory += "\n";
    change += "\n";
    const int symbol = step < 10 ? 1 + step % 8 : step == lag + 9 ? 9 : 0;
    input += fmt::format("{},{},{}\n", step, symbol, step >= lag + 10 ? "3" : "");
    flow += fmt::format("{},{:.6g}\n", step, std::exp(-0.01 * (steps - step)));
  }
  write_bytes(folder / "memory.csv", memory);
  write_bytes(folder / "memory_change.csv", change);
  write_bytes(folder / "input.csv", input);
  write_bytes(folder / "gradient_flow.csv", flow);
  write_bytes(
      folder / "lags.csv",
      fmt::format("lag,accuracy,exact,relative_loss\n{},1,1,0\n{},0.9,0.5,0.1\n", lag, 2 * lag));
}

Cast& Cast::add(const MadeUp& made) {
  const std::string key = made.cell + (made.variant.empty() ? "" : "/" + made.variant);
  if (!runs_.contains(key)) order_.push_back(key);
  runs_[key].push_back(run_of(made));
  return *this;
}

std::vector<report::Series> Cast::series() const {
  std::vector<report::Series> all;
  for (const std::string& key : order_) {
    report::Series series;
    series.key = key;
    const std::vector<report::Run>& runs = runs_.at(key);
    series.cell = runs.front().cell;
    series.variant = runs.front().variant;
    series.style = report::style_of(series.cell);
    series.label = series.variant.empty() ? series.style.label : key;
    for (const report::Run& run : runs) series.runs.push_back(&run);
    all.push_back(std::move(series));
  }
  return all;
}

experiments::Experiment experiment_of(const std::string& name,
                                      const std::vector<std::string>& cells) {
  experiments::Experiment experiment;
  experiment.name = name;
  experiment.title = "Copying memory: " + name;
  experiment.paper = "Figure 1";
  experiment.figure = experiments::FigureKind::curves;
  experiment.cells = cells;
  experiment.seeds = {1, 2, 3};
  experiment.run = {
      {"task", std::string("copy")}, {"lag", std::int64_t{100}}, {"updates", std::int64_t{60000}}};
  experiment.variants.emplace_back();
  return experiment;
}

std::vector<experiments::Experiment> copying() {
  experiments::Experiment copy = experiment_of("copy-100", {"nru", "lstm"});
  experiments::Claim claim;
  claim.text = "The NRU is first";
  claim.check = experiments::CheckKind::first;
  claim.cells = {"nru"};
  claim.among = {"nru", "lstm"};
  copy.claims.push_back(claim);
  return {copy};
}

void write_grid(const fs::path& root, const std::vector<experiments::Experiment>& experiments,
                int points) {
  const std::map<std::string, std::int64_t> solves = {
      {"nru", 20000}, {"janet", 55000}, {"lstm-chrono", 90000}, {"eurnn", 600}, {"gru", 120000}};
  for (const experiments::Experiment& experiment : experiments) {
    for (const experiments::PlannedRun& planned : experiments::plan(experiment, {})) {
      MadeUp made;
      made.cell = planned.cell;
      made.variant = planned.variant;
      made.seed = planned.seed;
      made.task = std::get<std::string>(planned.settings.at("task"));
      made.updates = 200000;
      made.points = points;
      made.settings = planned.settings;
      const auto asked = planned.settings.find("updates");
      if (asked != planned.settings.end()) {  // all of them: the runs have ended
        made.updates = std::max(made.updates, std::get<std::int64_t>(asked->second));
      }
      const auto solved = solves.find(made.cell);
      if (solved != solves.end()) made.solved_at = solved->second * (9 + made.seed) / 10;
      const double place = static_cast<double>(report::place_of(made.cell));
      if (made.task == "psmnist" || made.task == "char-lm") {
        made.solved_at.reset();
        made.epochs = made.task == "psmnist" ? 100 : 20;
        made.accuracy = 0.85 + 0.01 * place;
        if (made.task == "char-lm") made.bpc = 1.6 - 0.015 * place;
      } else {
        made.accuracy = made.solved_at ? 0.999 : 0.13;
      }
      const fs::path directory = root / planned.directory;
      write_run(directory, made);
      const bool inspected =
          experiment.name == "copy-100" || experiment.figure == experiments::FigureKind::lags;
      if (inspected && made.seed == 1) write_inspection(directory);
    }
  }
}

}  // namespace nru::test
