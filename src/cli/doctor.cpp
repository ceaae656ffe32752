// `nru doctor`: what this machine offers, what is missing, and the command that fixes it.
#include <fmt/format.h>
#include <nru/error.h>
#include <nru/version.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/machine.h"
#include "cli/text.h"
#include "cli/torch_facts.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/threads.h"
#include "kernels/cuda/device.h"
#include "support/process.h"
#include "tasks/data_sets.h"
#include "training/cuda_benchmark.h"
#include "training/trainer.h"

namespace nru::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Problem {
  std::string what;
  std::string fix;  // a command, or advice where none helps
};

struct Cuda {
  bool built = false;         // our kernels
  std::string architectures;  // that they were compiled for
  int devices = 0;            // that the driver shows
  std::string device;         // the first one's name
  std::string driver;         // the CUDA version that it supports; empty: there is none
  std::string missing;        // why the driver shows no devices
  bool torch = false;         // torch has CUDA: layers take CUDA tensors
  std::vector<training::CellPath> paths;
};

struct Findings {
  Blas blas;
  std::string simd;
  Cuda cuda;
  std::optional<std::filesystem::path> gnuplot;
  std::vector<std::string> data_found, data_missing;  // names of data sets
  std::string trial;                                  // empty: the trial update went well
  std::vector<Problem> problems;

  bool can_train() const { return trial.empty(); }
};

// One small update through the kernels and through torch: if they agree, training works here.
std::string trial_update() {
  try {
    training::ConfigSources sources;
    sources.flags = {{"task", "copy"}, {"cell", "nru"}, {"lag", "5"}};
    training::RunConfig config = resolve_config(sources, training::cell_defaults);
    tasks::Batch batch;
    const auto loss = [&](const char* backend) {
      config.backend = backend;
      training::Setup setup(config);
      setup.task->make_batch(tasks::Split::train, 0, batch);
      return setup.engine->compute_gradients(batch).loss;
    };
    const double fused = loss("fused"), reference = loss("reference");
    // Both are float32 sums over 25 steps; rounding stays far below, a wrong kernel far above.
    if (std::abs(fused - reference) < 1e-4) return "";
    return fmt::format("the kernels' loss {} is not torch's {}", fused, reference);
  } catch (const std::exception& error) {
    return error.what();
  }
}

Cuda find_cuda() {
  Cuda c;
  c.torch = torch_has_cuda();
#ifdef NRU_HAS_CUDA
  c.built = true;
  c.architectures = kernels::cuda::built_architectures();
  c.devices = kernels::cuda::device_count();
  c.driver = kernels::cuda::driver_version();
  c.missing = kernels::cuda::why_no_device();
  if (c.devices > 0) {
    c.device = kernels::cuda::device_name();
    c.paths = training::cuda_paths();
  }
#else
  c.devices = cuda_devices();
#endif
  return c;
}

// What keeps a GPU that is there from being used.
void add_cuda_problems(const Cuda& c, std::vector<Problem>& problems) {
  if (c.devices == 0) {
    // A machine without a driver is one without a GPU, or the driver is its owner's first concern.
    if (!c.driver.empty())
      problems.push_back({"there is a CUDA driver, but no GPU to be used: " + c.missing,
                          "update the driver if it is older than this build; otherwise nvidia-smi "
                          "says what it sees, and CUDA_VISIBLE_DEVICES may hide it"});
    return;
  }
  if (!c.built) {
    problems.push_back({"there is a GPU, but this build has no CUDA kernels",
                        "put nvcc on PATH and rebuild: make clean build"});
  } else if (!c.torch) {
    problems.push_back(
        {"there is a GPU, but this build's torch has no CUDA: layers (C++, Python) "
         "and the comparisons of nru bench stay on the CPU",
         "build against a CUDA LibTorch: make clean, then "
         "CMAKE_PREFIX_PATH=/path/to/libtorch make build SETUP=0"});
  }
}

std::vector<Problem> problems_of(const Findings& f) {
  std::vector<Problem> problems;
  add_cuda_problems(f.cuda, problems);
  if (!f.can_train()) {
    problems.push_back({"a trial update failed: " + one_line(f.trial),
                        "rebuild (make clean build); if it stays, report it with this output"});
  }
  if (f.blas.kind == "reference") {
    problems.push_back(
        {"torch multiplies with the reference BLAS: --backend reference is 3 to 20 "
         "times slower than it could be",
         "sudo apt-get install libopenblas0-openmp"});
  } else if (f.blas.kind == "openblas-pthread") {
    problems.push_back({"this OpenBLAS (pthread) has threads of its own that fight with torch's",
                        "sudo apt-get install libopenblas0-openmp && sudo apt-get remove "
                        "libopenblas0-pthread"});
  }
  if (f.simd != "AVX2" && !f.simd.starts_with("AVX3") && !f.simd.starts_with("NEON") &&
      !f.simd.starts_with("SVE")) {
    problems.push_back({fmt::format("the kernels run at SIMD level {}, well below AVX2", f.simd),
                        "use a machine (or a virtual machine's CPU type) with AVX2"});
  }
  if (!f.gnuplot)
    problems.push_back({"gnuplot is missing: no SVG figures", "sudo apt-get install gnuplot-nox"});
  return problems;
}

Findings examine() {
  Findings f;
  f.blas = find_blas();
  f.simd = kernels::linear_ops<float>().target;
  f.cuda = find_cuda();
  f.gnuplot = find_program("gnuplot");
  for (const tasks::DataSet& set : tasks::data_sets())
    (tasks::has_data_set(set, "") ? f.data_found : f.data_missing).push_back(set.name);
  f.trial = trial_update();
  f.problems = problems_of(f);
  return f;
}

std::string gibibytes(std::int64_t bytes) {
  return bytes > 0 ? fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30)) : "unknown";
}

std::string data_text(const Findings& f) {
  std::string text = tasks::data_directory().string();
  if (!f.data_found.empty()) text += fmt::format(": {}", fmt::join(f.data_found, ", "));
  for (const std::string& name : f.data_missing)
    text += fmt::format("; no {0} yet (nru data get {0})", name);
  return text;
}

std::string cuda_text(const Cuda& c) {
  std::string text = c.built ? fmt::format("kernels for {}", c.architectures)
                             : "no kernels in this build (-DNRU_CUDA=ON, with nvcc on PATH)";
  text += c.devices == 0 ? "; no GPU" + (c.missing.empty() ? "" : fmt::format(" ({})", c.missing))
          : c.built      ? fmt::format("; {} (driver for CUDA {}{})", c.device, c.driver,
                                  c.devices > 1 ? fmt::format(", {} GPUs", c.devices) : "")
                         : fmt::format("; {} GPU(s)", c.devices);
  return text + (c.torch ? "; torch with CUDA" : "; torch without CUDA");
}

// "copy: nru rows; psmnist: nru cluster"; cells that no whole-sequence kernel takes are left out.
std::string paths_text(const Cuda& c) {
  std::string text, task;
  for (const training::CellPath& path : c.paths) {
    if (path.path == "generic") continue;
    text += path.task == task ? ", " : fmt::format("{}{}: ", task.empty() ? "" : "; ", path.task);
    text += fmt::format("{} {}", path.cell, path.path);
    task = path.task;
  }
  return text.empty() ? "none: step by step" : text + "; others step by step";
}

std::string human_text(const Findings& f) {
  std::vector<std::vector<std::string>> rows = {
      {"nru", fmt::format("{} (commit {})", version(), commit())},
      {"torch", torch_version()},
      {"BLAS",
       fmt::format("{} ({})", f.blas.kind, f.blas.library.empty() ? "built in" : f.blas.library)},
      {"CPU", fmt::format("{}, {} cores", cpu_model(), cpu_count())},
      {"SIMD", fmt::format("{}, {} floats per vector", f.simd, kernels::linear_ops<float>().lanes)},
      {"threads", fmt::format("{}", kernels::available_threads())},
      {"memory",
       fmt::format("{}, {} available", gibibytes(memory_bytes()), gibibytes(memory_available()))},
      {"CUDA", cuda_text(f.cuda)},
      {"gnuplot", f.gnuplot ? f.gnuplot->string() : "missing"},
      {"data", data_text(f)},
      {"training", f.can_train() ? "works" : "does not work"}};
  if (!f.cuda.paths.empty())
    rows.insert(rows.end() - 3, {"whole-sequence kernels", paths_text(f.cuda)});
  std::string text = align(rows);
  for (const Problem& problem : f.problems)
    text += fmt::format("\nproblem: {}\n    fix: {}\n", problem.what, problem.fix);
  return text;
}

std::string json_text(const Findings& f) {
  Json paths = Json::array();
  for (const training::CellPath& path : f.cuda.paths)
    paths.push_back({{"task", path.task}, {"cell", path.cell}, {"path", path.path}});
  Json problems = Json::array();
  for (const Problem& problem : f.problems)
    problems.push_back({{"problem", problem.what}, {"fix", problem.fix}});
  const Json json = {
      {"version", version()},
      {"commit", commit()},
      {"torch", torch_version()},
      {"blas", {{"kind", f.blas.kind}, {"library", f.blas.library}, {"details", f.blas.details}}},
      {"cpu", cpu_model()},
      {"cores", cpu_count()},
      {"simd", f.simd},
      {"threads", kernels::available_threads()},
      {"memory_bytes", memory_bytes()},
      {"memory_available_bytes", memory_available()},
      {"cuda",
       {{"built", f.cuda.built},
        {"architectures", f.cuda.architectures},
        {"devices", f.cuda.devices},
        {"device", f.cuda.device},
        {"driver", f.cuda.driver},
        {"torch", f.cuda.torch},
        {"paths", paths}}},
      {"gnuplot", f.gnuplot ? Json(f.gnuplot->string()) : Json(nullptr)},
      {"data",
       {{"directory", tasks::data_directory().string()},
        {"found", f.data_found},
        {"missing", f.data_missing}}},
      {"can_train", f.can_train()},
      {"problems", problems}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

void add_doctor(CLI::App& app, Invocation& invocation) {
  CLI::App* command =
      app.add_subcommand("doctor", "Say what this machine offers and what is missing");
  const auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "print JSON");
  command->footer(
      "Exit code 0 when this machine can train, 1 when it cannot.\n\nExamples:\n"
      "  nru doctor\n  nru doctor --json");
  command->callback([json, &invocation] {
    invocation.run = [json] {
      const Findings findings = examine();
      print(*json ? json_text(findings) : human_text(findings));
      return findings.can_train() ? 0 : 1;
    };
  });
}

}  // namespace nru::cli
