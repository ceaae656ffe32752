#include "cli/inspect_files.h"

#include <fmt/format.h>
#include <nru/error.h>

#include <algorithm>
#include <cmath>

#include "cli/summary.h"
#include "report/figure.h"
#include "support/atomic_file.h"

namespace nru::cli {
namespace {

using training::MemoryMap;

std::string memory_csv(const MemoryMap& memory, bool change) {
  std::string csv = "step";
  for (int unit = 0; unit < memory.units; ++unit) csv += fmt::format(",{}{}", memory.part, unit);
  for (int step = 0; step < memory.steps; ++step) {
    csv += fmt::format("\n{}", step);
    for (int unit = 0; unit < memory.units; ++unit) {
      csv += fmt::format(",{:.6g}", change ? memory.change(step, unit) : memory.at(step, unit));
    }
  }
  return csv + "\n";
}

// |m_t - m_{t-1}| as a grey picture, a row per step, black where most changes.
std::string change_pgm(const MemoryMap& memory) {
  float largest = 0;
  for (int step = 0; step < memory.steps; ++step) {
    for (int unit = 0; unit < memory.units; ++unit)
      largest = std::max(largest, std::fabs(memory.change(step, unit)));
  }
  std::string pgm = fmt::format("P2\n{} {}\n255\n", memory.units, memory.steps);
  for (int step = 0; step < memory.steps; ++step) {
    for (int unit = 0; unit < memory.units; ++unit) {
      const float part = largest > 0 ? std::fabs(memory.change(step, unit)) / largest : 0;
      pgm += fmt::format("{}{}", unit > 0 ? " " : "", 255 - std::lround(255 * part));
    }
    pgm += "\n";
  }
  return pgm;
}

std::string input_csv(const tasks::Batch& batch) {
  std::string csv = "step,input,target\n";
  for (int step = 0; step < batch.steps; ++step) {
    const std::string input = batch.symbols.empty() ? fmt::format("{:.6g}", batch.dense[step])
                                                    : fmt::format("{}", batch.symbols[step]);
    csv += fmt::format("{},{},{}\n", step, input,
                       step >= batch.loss_from ? fmt::format("{}", batch.targets[step]) : "");
  }
  return csv;
}

std::string flow_csv(const std::vector<double>& norms) {
  std::string csv = "step,norm\n";
  for (std::size_t step = 0; step < norms.size(); ++step)
    csv += fmt::format("{},{:.8g}\n", step, norms[step]);
  return csv;
}

std::string lags_csv(const std::vector<training::LagScore>& lags) {
  std::string csv = "lag,accuracy,exact,relative_loss\n";
  for (const auto& [lag, scores] : lags) {
    csv += fmt::format("{},{:.6g},{:.6g},{:.6g}\n", lag, scores.accuracy.value_or(0),
                       scores.exact.value_or(0), scores.relative_loss.value_or(0));
  }
  return csv;
}

std::string groups_csv(const std::vector<training::GroupPosition>& groups) {
  std::string csv = "position,accuracy,memory_start,memory_after\n";
  for (std::size_t i = 0; i < groups.size(); ++i) {
    csv += fmt::format("{},{:.6g},{:.6g},{:.6g}\n", i, groups[i].score.accuracy().value_or(0),
                       groups[i].memory_at_start, groups[i].memory_after);
  }
  return csv;
}

// The change m_t - m_{t-1}: time to the right, units upwards. A few large writes would leave the
// rest white, so the colours end at the 99th percentile.
report::HeatMap change_map(const Findings& found) {
  const MemoryMap& memory = found.memory;
  report::HeatMap map;
  map.title = fmt::format("{}: change of {} per step", run_label(found.config), memory.part);
  map.x_label = "time step";
  map.y_label = "unit";
  map.columns = memory.steps;
  map.rows = memory.units;
  std::vector<double> sizes;
  for (int unit = 0; unit < memory.units; ++unit) {
    for (int step = 0; step < memory.steps; ++step) {
      map.values.push_back(memory.change(step, unit));
      sizes.push_back(std::fabs(map.values.back()));
    }
  }
  const auto rank = sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() * 99 / 100);
  std::nth_element(sizes.begin(), rank, sizes.end());
  if (*rank > 0) map.limit = *rank;
  for (const tasks::Stretch& stretch : found.stretches)
    map.stretches.push_back({stretch.begin, stretch.end - 1, stretch.name});
  return map;
}

report::LineFigure flow_figure(const Findings& found) {
  report::LineFigure figure;
  figure.title = fmt::format("{}: gradient of the last loss", run_label(found.config));
  figure.x.label = "time step t";
  figure.y.label = "|dL/dh_t|";
  figure.y.log = true;
  report::Line line;
  line.name = found.config.cell;
  line.style = report::style_of(found.config.cell);
  for (std::size_t step = 0; step < found.gradient_flow.size(); ++step) {
    line.x.push_back(static_cast<double>(step));
    line.y.push_back(found.gradient_flow[step]);
  }
  figure.lines = {line};
  return figure;
}

}  // namespace

std::string write_files(const Findings& found, const std::filesystem::path& folder) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) {
    throw Error(fmt::format("cannot make the folder {}: {}", folder.string(), failure.message()));
  }
  write_file_atomically(folder / "memory.csv", memory_csv(found.memory, false));
  write_file_atomically(folder / "memory_change.csv", memory_csv(found.memory, true));
  write_file_atomically(folder / "memory_change.pgm", change_pgm(found.memory));
  write_file_atomically(folder / "input.csv", input_csv(found.batch));
  if (!found.lags.empty()) write_file_atomically(folder / "lags.csv", lags_csv(found.lags));
  if (!found.groups.empty()) write_file_atomically(folder / "groups.csv", groups_csv(found.groups));
  write_file_atomically(folder / "gradient_flow.csv", flow_csv(found.gradient_flow));
  try {
    write_file_atomically(folder / "memory_change.svg", report::to_svg(change_map(found)));
    write_file_atomically(folder / "gradient_flow.svg", report::to_svg(flow_figure(found)));
  } catch (const Error& error) {
    if (report::has_gnuplot()) throw;
    return error.what();
  }
  return "";
}

}  // namespace nru::cli
