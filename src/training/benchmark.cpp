#include "training/benchmark.h"

#include <fmt/format.h>
#include <nru/error.h>

#include <algorithm>
#include <memory>
#include <numeric>

#include "kernels/cpu/peak.h"
#include "kernels/cpu/threads.h"
#include "support/suggest.h"
#include "training/contender.h"
#include "training/cuda_benchmark.h"
#include "training/engine.h"
#include "training/optimizer.h"
#include "training/torch_network.h"

namespace nru::training {
namespace {

Contender our_contender(const Workload& w, const CellInfo& cell, EngineKind kind, int threads,
                        const tasks::Batch& batch) {
  struct Network {
    Model model;
    FlatParameters flat;
    std::unique_ptr<Engine> engine;
    Optimizer optimizer;
    Network(const ModelSettings& settings, EngineKind kind, int threads)
        : model(settings),
          flat(*model),
          engine(make_engine(kind, model, flat, threads)),
          optimizer({}, 1.0, threads, flat) {}
  };
  const ModelSettings settings = model_settings(w, cell);
  const auto network = std::make_shared<Network>(settings, kind, threads);
  Contender c;
  c.row.cell = cell.name;
  c.row.backend = kind == EngineKind::fused ? "fused" : "reference";
  c.row.parameters = network->flat.size();
  c.flop = update_flop(w, multiplied_weights(w, cell, network->model));
  c.update = [network, &batch] {
    network->engine->compute_gradients(batch);
    network->optimizer.step(network->optimizer.gradient_norm());
  };
  return c;
}

template <class Layer, class Options>
Contender torch_contender(const Workload& w, const std::string& name, int gates,
                          std::int64_t parameters, const tasks::Batch& batch) {
  const std::int64_t hidden = equal_hidden_size(w, gates, parameters);
  const auto network =
      std::make_shared<TorchNetwork<Layer, Options>>(w, hidden, batch, torch::kCPU);
  const auto adam =
      std::make_shared<torch::optim::Adam>(network->parameters, torch::optim::AdamOptions(1e-3));
  Contender c;
  c.row.cell = name;
  c.row.backend = "torch";
  c.row.parameters = torch_parameters(w, gates, hidden);
  c.flop = update_flop(w, torch_weights(w, gates, hidden));
  c.update = [network, adam] {
    adam->zero_grad();
    network->loss().backward();
    torch::nn::utils::clip_grad_norm_(network->parameters, 1.0);
    adam->step();
  };
  return c;
}

// Of all threads together, at the same time.
double measure_peak(int threads, double seconds) {
  std::vector<double> each(threads);
  kernels::parallel_pieces(threads, threads,
                           [&](int i) { each[i] = kernels::measure_fma_peak(seconds); });
  return std::accumulate(each.begin(), each.end(), 0.0);
}

std::vector<Contender> make_contenders(const Workload& w, const BenchOptions& options, int threads,
                                       const tasks::Batch& batch) {
  std::vector<Contender> all;
  for (const CellInfo& cell : cells()) {
    if (!wanted(options.cells, cell.name)) continue;
    for (const EngineKind kind : {EngineKind::fused, EngineKind::reference}) {
      if (!wanted(options.backends, kind == EngineKind::fused ? "fused" : "reference")) continue;
      all.push_back(our_contender(w, cell, kind, threads, batch));
    }
  }
  if (!wanted(options.backends, "torch")) return all;
  const std::int64_t parameters = equal_parameters(w, options.cells);
  using namespace torch::nn;
  all.push_back(torch_contender<LSTM, LSTMOptions>(w, "lstm", 4, parameters, batch));
  all.push_back(torch_contender<GRU, GRUOptions>(w, "gru", 3, parameters, batch));
  all.push_back(torch_contender<RNN, RNNOptions>(w, "rnn", 1, parameters, batch));
  return all;
}

void check_names(const BenchOptions& options) {
  const auto check = [](const std::vector<std::string>& given,
                        const std::vector<std::string>& known, const char* kind) {
    for (const auto& name : given) {
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      throw Error(fmt::format("unknown {} '{}'{}", kind, name, did_you_mean(name, known)));
    }
  };
  std::vector<std::string> task_names, cell_names;
  for (const Workload& w : workloads()) task_names.push_back(w.task);
  for (const CellInfo& c : cells()) cell_names.push_back(c.name);
  check(options.tasks, task_names, "task");
  check(options.cells, cell_names, "cell");
  check(options.backends, {"fused", "reference", "torch"}, "backend");
  check({options.device}, {"cpu", "cuda"}, "device");
}

void run_on_cpu(const BenchOptions& options,
                const std::function<void(const std::string&)>& progress, BenchReport& report) {
  for (const int threads : options.threads) {
    torch::set_num_threads(threads);
    double peak = 0;
    std::vector<Contender> timed;
    for (const Workload& w : workloads()) {
      if (!wanted(options.tasks, w.task)) continue;
      progress(fmt::format("{}, {} thread{}", w.task, threads, threads == 1 ? "" : "s"));
      const tasks::Batch batch = random_batch(w);
      auto contenders = make_contenders(w, options, threads, batch);
      const double before = measure_peak(threads, 0.2);
      take_turns(contenders, options.seconds);
      peak = std::max({peak, before, measure_peak(threads, 0.2)});
      for (Contender& c : contenders) {
        c.row.task = w.task;
        c.row.threads = threads;
        c.update = nullptr;  // frees the network before the next one is made
        timed.push_back(std::move(c));
      }
    }
    for (Contender& c : timed) {
      finish_row(c, peak);
      report.rows.push_back(c.row);
    }
    report.peak_gflops.push_back(peak / 1e9);
  }
}

}  // namespace

const std::vector<Workload>& workloads() {
  static const std::vector<Workload> table = {
      {"copy", "copy", 120, 10, 10, 9, 0, true},
      {"psmnist", "psmnist", 785, 100, 1, 10, 784, false},
      {"char-lm", "char-lm", 150, 128, 50, 50, 0, true, 200},
  };
  return table;
}

BenchReport run_benchmark(const BenchOptions& options,
                          const std::function<void(const std::string&)>& progress) {
  check_names(options);
  BenchReport report;
  if (options.device == "cuda") {
    run_on_cuda(options, progress, report);
  } else {
    run_on_cpu(options, progress, report);
  }
  return report;
}

}  // namespace nru::training
