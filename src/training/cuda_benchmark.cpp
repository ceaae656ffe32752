#include "training/cuda_benchmark.h"

#include <fmt/format.h>
#include <nru/error.h>

#include <algorithm>
#include <cmath>

#include "kernels/cuda/peak.h"
#include "kernels/cuda/sequence.h"
#include "training/kernel_update.h"
#include "training/torch_network.h"

namespace nru::training {

TorchAdam::TorchAdam(std::vector<torch::Tensor> parameters) : parameters_(std::move(parameters)) {
  const torch::Tensor step = torch::zeros({}, parameters_.front().options().requires_grad(false));
  for (const torch::Tensor& p : parameters_) {
    m_.push_back(torch::zeros_like(p));
    v_.push_back(torch::zeros_like(p));
    steps_.push_back(step);  // one for all
  }
}

void TorchAdam::drop_gradients() {
  for (const torch::Tensor& p : parameters_) p.mutable_grad() = torch::Tensor();
}

void TorchAdam::step() {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> gradients;
  for (const torch::Tensor& p : parameters_) gradients.push_back(p.grad());
  const torch::Tensor norm = torch::stack(at::_foreach_norm(gradients)).norm();
  const torch::Tensor divisor = (norm + 1e-6).clamp_min(1);  // clips at a norm of 1
  steps_.front().add_(1);
  at::_fused_adam_(parameters_, gradients, m_, v_, {}, steps_, 1e-3, 0.9, 0.999, 0, 1e-8,
                   /*amsgrad=*/false, /*maximize=*/false, divisor);
}

#ifndef NRU_HAS_CUDA

void run_on_cuda(const BenchOptions&, const std::function<void(const std::string&)>&,
                 BenchReport&) {
  throw Error(
      "this build has no CUDA kernels: build with -DNRU_CUDA=ON where nvcc is on PATH, or use "
      "--device cpu");
}

std::vector<CellPath> cuda_paths() { return {}; }

#else

namespace {

namespace cuda = kernels::cuda;

double state_widths(const kernels::Program<float>& program) {
  double width = 0;
  for (const auto& part : program.parts) {
    if (part.kind == kernels::PartKind::state) width += part.width;
  }
  return width;
}

// The sizes of a row of ours, whatever the backend.
Contender our_row(const Workload& w, const CellInfo& cell, const Model& model,
                  const char* backend) {
  const ModelSettings settings = model_settings(w, cell);
  Contender c;
  c.row.cell = cell.name;
  c.row.backend = backend;
  c.row.parameters = count_parameters(settings);
  c.flop = update_flop(w, multiplied_weights(w, cell, model));
  c.bytes = update_bytes(w, static_cast<double>(c.row.parameters),
                         state_widths(*model->layer()->program<float>(0)));
  return c;
}

double relative_distance(const std::vector<float>& values, const std::vector<float>& from) {
  double distance = 0, norm = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    distance += std::pow(static_cast<double>(values[i]) - from[i], 2);
    norm += std::pow(static_cast<double>(from[i]), 2);
  }
  return std::sqrt(distance / norm);
}

// `exact`: the gradient of the row in float32, which comes first and leaves it there.
Contender kernel_contender(const Workload& w, const CellInfo& cell, const Model& model, bool tf32,
                           const tasks::Batch& batch, std::vector<float>& exact) {
  Contender c = our_row(w, cell, model, "fused");
  const auto update = std::make_shared<KernelUpdate>(model_settings(w, cell), batch, tf32);
  update->update();
  c.row.path = update->path();
  if (tf32) {
    c.row.gradient_error = relative_distance(update->gradient_values(), exact);
  } else {
    exact = update->gradient_values();
  }
  // Times of nonsense would still look good.
  if (!std::isfinite(update->loss())) {
    throw Error(fmt::format(
        "the loss of {} on {} is not finite: report this with the output of `nru doctor`",
        cell.name, w.task));
  }
  c.row.precision = tf32 ? "tf32" : "float32";
  c.row.graph = true;
  c.update = [update] { update->update(); };
  c.forward = [update] { update->forward(); };
  c.gradients = [update] { update->gradients(); };
  return c;
}

Contender reference_contender(const Workload& w, const CellInfo& cell, const Model& model,
                              const tasks::Batch& batch) {
  struct Network {
    Model model;
    TorchBatch batch;
    TorchAdam adam;
    Network(const Workload& w, const ModelSettings& settings, const tasks::Batch& from)
        : model(on_gpu(settings)), batch(w, from, torch::kCUDA), adam(model->parameters()) {}
    static Model on_gpu(const ModelSettings& settings) {
      Model made(settings);
      made->to(torch::kCUDA);
      made->layer()->set_backend(Backend::reference);
      return made;
    }
    torch::Tensor hidden() {
      const torch::Tensor x =
          model->embedding() ? torch::embedding(model->embedding()->weight, batch.x) : batch.x;
      return std::get<0>(model->layer()->forward(x));
    }
    void gradients() {
      adam.drop_gradients();
      batch.loss(hidden(), model->output_weight(), model->output_bias()).backward();
    }
  };
  Contender c = our_row(w, cell, model, "reference");
  const auto network = std::make_shared<Network>(w, model_settings(w, cell), batch);
  c.update = [network] {
    at::globalContext().setAllowTF32CuBLAS(false);
    network->gradients();
    network->adam.step();
    torch::cuda::synchronize();
  };
  return c;
}

std::vector<Contender> make_contenders(const Workload& w, const BenchOptions& options,
                                       const tasks::Batch& batch, std::vector<std::string>& notes) {
  std::vector<Contender> all;
  const bool torch_there = torch::cuda::is_available();
  const auto note = [&](const std::string& text) {
    if (std::find(notes.begin(), notes.end(), text) == notes.end()) notes.push_back(text);
  };
  for (const CellInfo& cell : cells()) {
    if (!wanted(options.cells, cell.name)) continue;
    const Model model(model_settings(w, cell));
    if (wanted(options.backends, "fused")) {
      if (cuda::supports(*model->layer()->program<float>(0))) {
        std::vector<float> exact;
        for (const bool tf32 : {false, true})
          all.push_back(kernel_contender(w, cell, model, tf32, batch, exact));
      } else {
        note(fmt::format("no fused rows of {}: it has no CUDA kernels", cell.name));
      }
    }
    if (wanted(options.backends, "reference") && torch_there)
      all.push_back(reference_contender(w, cell, model, batch));
  }
  if (wanted(options.backends, "reference") && !torch_there)
    note("no reference rows: the torch of this build has no CUDA");
  if (wanted(options.backends, "torch")) {
    const std::int64_t parameters = equal_parameters(w, options.cells);
    std::string missing;
    for (Contender& rival : cuda_rivals(w, parameters, batch, missing))
      all.push_back(std::move(rival));
    if (!missing.empty()) note("no torch rows: " + missing);
  }
  return all;
}

void time_parts(Contender& c, const Workload& w, double seconds) {
  if (!c.forward) return;
  const double forward = median_seconds(c.forward, seconds);
  const double gradients = median_seconds(c.gradients, seconds);
  c.row.forward_us = 1e6 * forward / w.steps;
  c.row.backward_us = 1e6 * (gradients - forward) / w.steps;
}

}  // namespace

std::vector<CellPath> cuda_paths() {
  std::vector<CellPath> paths;
  if (cuda::device_count() == 0) return paths;
  for (const Workload& w : workloads()) {
    for (const CellInfo& cell : cells()) {
      const Model model(model_settings(w, cell));
      const auto program = model->layer()->program<float>(0);
      if (cuda::supports(*program))
        paths.push_back({w.task, cell.name, cuda::path_of(*program, w.batch)});
    }
  }
  return paths;
}

void run_on_cuda(const BenchOptions& options,
                 const std::function<void(const std::string&)>& progress, BenchReport& report) {
  if (cuda::device_count() == 0)
    throw Error("no CUDA device found (`nru doctor` says more); use --device cpu");
  report.gpu.name = cuda::device_name();
  report.gpu.architectures = cuda::built_architectures();
  report.gpu.driver = cuda::driver_version();
  const cuda::Stream stream;
  const cuda::Peaks peaks = cuda::measure_peaks(stream.handle());
  report.gpu.fma_gflops = peaks.fma_flops / 1e9;
  report.gpu.tf32_gflops = peaks.tf32_flops / 1e9;
  report.gpu.copy_gb_per_s = peaks.copy_bytes / 1e9;
  report.gpu.clock_mhz = peaks.clock_hz / 1e6;
  for (const Workload& w : workloads()) {
    if (!wanted(options.tasks, w.task)) continue;
    progress(fmt::format("{} on the GPU", w.task));
    const tasks::Batch batch = random_batch(w);
    auto contenders = make_contenders(w, options, batch, report.notes);
    take_turns(contenders, options.seconds);
    for (Contender& c : contenders) {
      time_parts(c, w, 0.2 * options.seconds);
      finish_row(c, c.row.precision == "tf32" ? peaks.tf32_flops : peaks.fma_flops);
      c.row.task = w.task;
      c.row.device = "cuda";
      c.row.threads = 0;
      c.row.byte_floor_ms = 1e3 * c.bytes / peaks.copy_bytes;
      report.rows.push_back(c.row);
    }
  }
}

#endif

}  // namespace nru::training
