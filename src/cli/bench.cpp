// `nru bench`: ms per update of fused, reference and torch's own layers, beside the floors.
#include <fmt/format.h>
#include <nru/error.h>
#include <nru/version.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/machine.h"
#include "cli/text.h"
#include "cli/torch_facts.h"
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
  std::string json;
};

nlohmann::ordered_json to_json(const BenchOptions& options, const BenchReport& report) {
  nlohmann::ordered_json json;
  json["rows"] = nlohmann::ordered_json::array();
  const bool cuda = options.device == "cuda";
  for (const BenchRow& r : report.rows) {
    nlohmann::ordered_json row = {{"task", r.task},
                                  {"cell", r.cell},
                                  {"backend", r.backend},
                                  {"device", r.device},
                                  {"threads", r.threads},
                                  {"parameters", r.parameters},
                                  {"precision", r.precision},
                                  {"graph", r.graph},
                                  {"ms_per_update", r.median_ms},
                                  {"best_ms", r.best_ms},
                                  {"updates", r.updates},
                                  {"floor_ms", r.floor_ms},
                                  {"ratio_to_floor", r.median_ms / r.floor_ms}};
    if (cuda) row["byte_floor_ms"] = r.byte_floor_ms;
    if (!r.path.empty()) row["path"] = r.path;
    if (r.gradient_error > 0) row["gradient_error"] = r.gradient_error;
    if (r.forward_us > 0) {
      row["forward_us_per_step"] = r.forward_us;
      row["backward_us_per_step"] = r.backward_us;
    }
    json["rows"].push_back(row);
  }
  auto& machine = json["machine"];
  machine["processor"] = cpu_model();
  machine["simd"] = kernels::linear_ops<float>().target;
  machine["cores"] = kernels::available_threads();
  machine["commit"] = commit();
  machine["torch"] = torch_version();
  for (std::size_t i = 0; i < report.peak_gflops.size(); ++i) {
    machine["peak_gflops"][std::to_string(options.threads[i])] = report.peak_gflops[i];
  }
  if (cuda) {
    machine["gpu"] = {{"name", report.gpu.name},
                      {"driver_cuda", report.gpu.driver},
                      {"built_for", report.gpu.architectures},
                      {"clock_mhz", report.gpu.clock_mhz},
                      {"float32_gflops", report.gpu.fma_gflops},
                      {"tf32_gflops", report.gpu.tf32_gflops},
                      {"copy_gb_per_s", report.gpu.copy_gb_per_s}};
    json["notes"] = report.notes;
  }
  return json;
}

// The fused NRU (or the first row) of the same task and conditions is what the others are compared
// to.
const BenchRow& yardstick(const BenchReport& report, const BenchRow& row) {
  const BenchRow* first = nullptr;
  for (const BenchRow& r : report.rows) {
    if (r.task != row.task || r.threads != row.threads || r.precision != row.precision) continue;
    if (r.cell == "nru" && r.backend == "fused") return r;
    if (!first) first = &r;
  }
  return *first;
}

// How many times faster than its reference a fused row is; empty where there is nothing to compare.
std::string beside_reference(const BenchReport& report, const BenchRow& row) {
  if (row.backend != "fused") return "";
  for (const BenchRow& r : report.rows) {
    if (r.task == row.task && r.cell == row.cell && r.backend == "reference" &&
        r.threads == row.threads)
      return fmt::format("{:.1f}", r.median_ms / row.median_ms);
  }
  return "";
}

std::string milliseconds(double value) { return fmt::format("{:.3f}", value); }

void print_cpu_table(const BenchOptions& options, const BenchReport& report) {
  std::string peaks;
  for (std::size_t i = 0; i < options.threads.size(); ++i) {
    peaks += fmt::format("{}{:.1f} GFLOP/s on {} thread{}", i ? ", " : "", report.peak_gflops[i],
                         options.threads[i], options.threads[i] == 1 ? "" : "s");
  }
  print(fmt::format("{}, {}; FMA peak {}\n", cpu_model(), kernels::linear_ops<float>().target,
                    peaks));
  std::vector<std::vector<std::string>> lines = {{"task", "cell", "backend", "threads",
                                                  "parameters", "ms/update", "best", "floor",
                                                  "x floor", "x fused NRU", "updates"}};
  for (const BenchRow& r : report.rows) {
    lines.push_back({r.task, r.cell, r.backend, std::to_string(r.threads),
                     std::to_string(r.parameters), milliseconds(r.median_ms),
                     milliseconds(r.best_ms), milliseconds(r.floor_ms),
                     fmt::format("{:.2f}", r.median_ms / r.floor_ms),
                     fmt::format("{:.2f}", r.median_ms / yardstick(report, r).median_ms),
                     std::to_string(r.updates)});
  }
  print(align(lines, {false, false, false, true, true, true, true, true, true, true, true}));
}

void print_cuda_table(const BenchReport& report) {
  const BenchReport::Gpu& gpu = report.gpu;
  print(fmt::format(
      "{} at {:.0f} MHz, driver for CUDA {}, torch {}; peaks: float32 {:.1f} TFLOP/s, TF32 {:.0f} "
      "TFLOP/s, copy {:.2f} TB/s\n",
      gpu.name, gpu.clock_mhz, gpu.driver, torch_version(), gpu.fma_gflops / 1e3,
      gpu.tf32_gflops / 1e3, gpu.copy_gb_per_s / 1e3));
  std::vector<std::vector<std::string>> lines = {
      {"task", "cell", "backend", "path", "products", "graph", "parameters", "ms/update", "best",
       "us/step forward", "backward", "FLOP floor", "byte floor", "x fused NRU", "x reference",
       "gradient error", "updates"}};
  for (const BenchRow& r : report.rows) {
    const auto per_step = [&](double us) {
      return r.forward_us > 0 ? fmt::format("{:.2f}", us) : "";
    };
    lines.push_back({r.task, r.cell, r.backend, r.path, r.precision, r.graph ? "yes" : "no",
                     std::to_string(r.parameters), milliseconds(r.median_ms),
                     milliseconds(r.best_ms), per_step(r.forward_us), per_step(r.backward_us),
                     milliseconds(r.floor_ms), milliseconds(r.byte_floor_ms),
                     fmt::format("{:.2f}", r.median_ms / yardstick(report, r).median_ms),
                     beside_reference(report, r),
                     r.gradient_error > 0 ? fmt::format("{:.1e}", r.gradient_error) : "",
                     std::to_string(r.updates)});
  }
  std::vector<bool> right(lines.front().size(), true);
  for (int text = 0; text < 6; ++text) right[text] = false;
  print(align(lines, right));
  for (const std::string& note : report.notes) print(note + "\n");
}

int bench(const Arguments& arguments) {
  BenchOptions options = arguments.options;
  if (options.threads.empty()) {
    options.threads = {1};
    if (kernels::available_threads() > 1) options.threads.push_back(2);
  }
  if (!arguments.json.empty() && arguments.json != "-") check_can_be_written(arguments.json);
  const TerminalStyle style = detect_terminal(2);
  const BenchReport report = run_benchmark(options, [&](const std::string& what) {
    if (style.terminal) errors() << fmt::format("timing {} ...\n", what);
  });
  if (arguments.json == "-") {
    print(to_json(options, report).dump(2) + "\n");
    return 0;
  }
  if (options.device == "cuda") {
    print_cuda_table(report);
  } else {
    print_cpu_table(options, report);
  }
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
  const CLI::Validator value(not_a_flag, "");
  command->add_option("--task", arguments->options.tasks, "sizes of a task: copy, psmnist, char-lm")
      ->type_name("NAME")
      ->check(value);
  command->add_option("--cell", arguments->options.cells, "only these cells")
      ->type_name("NAME")
      ->check(value);
  command->add_option("--backend", arguments->options.backends, "fused, reference or torch")
      ->type_name("NAME")
      ->check(value);
  const int there = kernels::available_threads();
  command
      ->add_option("--threads", arguments->options.threads,
                   "default: 1 and, where there are two processors, 2")
      ->type_name("N")
      ->transform(CLI::Validator(
          whole_number("--threads", 1, there,
                       there == 1 ? "1: there is one processor"
                                  : fmt::format("1 to {}, the processors there are", there)),
          ""));
  command->add_option("--seconds", arguments->options.seconds, "to spend on each row")
      ->capture_default_str()
      ->transform(CLI::Validator(
          any_number("--seconds", std::numeric_limits<double>::min(), 1e12, "a number above 0"),
          ""));
  command->add_option("--device", arguments->options.device, "cpu or cuda")
      ->capture_default_str()
      ->check(value);
  command
      ->add_option("--json", arguments->json, "also write the rows to FILE (- for standard output)")
      ->type_name("FILE")
      ->check(value);
  command->footer(
      "A row is the median of full updates: forward, loss, backward, clipping, Adam. The floor is\n"
      "the time its multiplications alone take at the FMA peak measured in the same run. torch "
      "rows\n"
      "are torch's own layers of equal parameter count.\n\n"
      "On the GPU (--device cuda) fused rows are one CUDA graph of our kernels, reference rows "
      "eager\n"
      "torch operations, torch rows cuDNN's LSTM and GRU with and without a graph; products in\n"
      "float32 and in TF32. The byte floor is the time to move parameters, moments, input and\n"
      "states once each way at the copy bandwidth of the run. Forward and backward are per time\n"
      "step; backward includes the loss. The path says which kernels take the recurrence "
      "(generic:\n"
      "step by step), the gradient error how far TF32 moves the gradient.\n\n"
      "Examples:\n"
      "  nru bench --task copy\n"
      "  nru bench --task psmnist --cell nru --cell lstm --threads 1 --json bench.json\n"
      "  nru bench --device cuda --task psmnist --json bench.json");
  command->callback(
      [arguments, &invocation] { invocation.run = [arguments] { return bench(*arguments); }; });
}

}  // namespace nru::cli
