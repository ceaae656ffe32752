// `nru bench`: ms per update of fused, reference and torch's own layers, beside the FLOP floor.
#include <fmt/format.h>
#include <nru/error.h>
#include <nru/version.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/text.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/threads.h"
#include "support/atomic_file.h"
#include "support/terminal.h"
#include "training/benchmark.h"

namespace nru::cli {
namespace {

using training::BenchOptions;
using training::BenchReport;
using training::BenchRow;

struct Arguments {
  BenchOptions options;
  std::string device = "cpu";
  std::string json;
};

std::string processor_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

nlohmann::ordered_json to_json(const BenchOptions& options, const BenchReport& report) {
  nlohmann::ordered_json json;
  json["rows"] = nlohmann::ordered_json::array();
  for (const BenchRow& r : report.rows) {
    json["rows"].push_back({{"task", r.task},
                            {"cell", r.cell},
                            {"backend", r.backend},
                            {"device", "cpu"},
                            {"threads", r.threads},
                            {"parameters", r.parameters},
                            {"precision", "float32"},
                            {"graph", false},
                            {"ms_per_update", r.median_ms},
                            {"best_ms", r.best_ms},
                            {"updates", r.updates},
                            {"floor_ms", r.floor_ms},
                            {"ratio_to_floor", r.median_ms / r.floor_ms}});
  }
  auto& machine = json["machine"];
  machine["processor"] = processor_name();
  machine["simd"] = kernels::linear_ops<float>().target;
  machine["cores"] = kernels::available_threads();
  machine["commit"] = commit();
  for (std::size_t i = 0; i < options.threads.size(); ++i) {
    machine["peak_gflops"][std::to_string(options.threads[i])] = report.peak_gflops[i];
  }
  return json;
}

// The fused NRU (or the first row) of the same task and threads is what the others are compared to.
const BenchRow& yardstick(const BenchReport& report, const BenchRow& row) {
  const BenchRow* first = nullptr;
  for (const BenchRow& r : report.rows) {
    if (r.task != row.task || r.threads != row.threads) continue;
    if (r.cell == "nru" && r.backend == "fused") return r;
    if (!first) first = &r;
  }
  return *first;
}

void print_table(const BenchOptions& options, const BenchReport& report) {
  std::string peaks;
  for (std::size_t i = 0; i < options.threads.size(); ++i) {
    peaks += fmt::format("{}{:.1f} GFLOP/s on {} thread{}", i ? ", " : "", report.peak_gflops[i],
                         options.threads[i], options.threads[i] == 1 ? "" : "s");
  }
  print(fmt::format("{}, {}; FMA peak {}\n", processor_name(), kernels::linear_ops<float>().target,
                    peaks));
  std::vector<std::vector<std::string>> lines = {{"task", "cell", "backend", "threads",
                                                  "parameters", "ms/update", "best", "floor",
                                                  "x floor", "x fused NRU", "updates"}};
  for (const BenchRow& r : report.rows) {
    lines.push_back({r.task, r.cell, r.backend, std::to_string(r.threads),
                     std::to_string(r.parameters), fmt::format("{:.3f}", r.median_ms),
                     fmt::format("{:.3f}", r.best_ms), fmt::format("{:.3f}", r.floor_ms),
                     fmt::format("{:.2f}", r.median_ms / r.floor_ms),
                     fmt::format("{:.2f}", r.median_ms / yardstick(report, r).median_ms),
                     std::to_string(r.updates)});
  }
  print(align(lines, {false, false, false, true, true, true, true, true, true, true, true}));
}

int bench(const Arguments& arguments) {
  if (arguments.device != "cpu") {
    throw Error(fmt::format("this build has no kernels for device '{}'; use --device cpu",
                            arguments.device));
  }
  BenchOptions options = arguments.options;
  if (options.threads.empty()) {
    options.threads = {1};
    if (kernels::available_threads() > 1) options.threads.push_back(2);
  }
  const TerminalStyle style = detect_terminal(2);
  const BenchReport report = run_benchmark(options, [&](const std::string& what) {
    if (style.terminal) fmt::print(stderr, "timing {} ...\n", what);
  });
  if (arguments.json == "-") {
    print(to_json(options, report).dump(2) + "\n");
    return 0;
  }
  print_table(options, report);
  if (!arguments.json.empty()) {
    write_file_atomically(arguments.json, to_json(options, report).dump(2) + "\n");
  }
  return 0;
}

}  // namespace

void add_bench(CLI::App& app, Invocation& invocation) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "bench", "Time full updates of our backends and of torch's own layers, side by side");
  command->add_option("--task", arguments->options.tasks, "sizes of a task: copy, psmnist, char-lm")
      ->type_name("NAME");
  command->add_option("--cell", arguments->options.cells, "only these cells")->type_name("NAME");
  command->add_option("--backend", arguments->options.backends, "fused, reference or torch")
      ->type_name("NAME");
  command->add_option("--threads", arguments->options.threads, "default: 1 and 2")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  command->add_option("--seconds", arguments->options.seconds, "to spend on each row")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--device", arguments->device, "cpu")->capture_default_str();
  command
      ->add_option("--json", arguments->json, "also write the rows to FILE (- for standard output)")
      ->type_name("FILE");
  command->footer(
      "A row is the median of full updates: forward, loss, backward, clipping, Adam. The floor is\n"
      "the time its multiplications alone take at the FMA peak measured in the same run. torch "
      "rows\n"
      "are torch's own layers of equal parameter count.\n\n"
      "Examples:\n"
      "  nru bench --task copy\n"
      "  nru bench --task psmnist --cell nru --cell lstm --threads 1 --json bench.json");
  command->callback(
      [arguments, &invocation] { invocation.run = [arguments] { return bench(*arguments); }; });
}

}  // namespace nru::cli
