#include "training/benchmark.h"

#include <fmt/format.h>
#include <nru/error.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "cells/registry.h"
#include "kernels/cpu/peak.h"
#include "kernels/cpu/threads.h"
#include "kernels/philox.h"
#include "support/suggest.h"
#include "training/engine.h"
#include "training/optimizer.h"

namespace nru::training {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kTurnSeconds = 0.02;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

tasks::Batch random_batch(const Workload& w) {
  const kernels::Philox random(1, kernels::Stream::train_batches);
  tasks::Batch batch;
  batch.steps = w.steps;
  batch.rows = w.batch;
  batch.loss_from = w.loss_from;
  const std::size_t positions = static_cast<std::size_t>(w.steps) * w.batch;
  for (std::size_t i = 0; i < positions; ++i) {
    batch.targets.push_back(static_cast<std::int32_t>(random.below(w.classes, 0, i)));
    if (w.symbols) batch.symbols.push_back(static_cast<std::int32_t>(random.below(w.input, 1, i)));
  }
  for (std::size_t i = 0; !w.symbols && i < positions * w.input; ++i) {
    batch.dense.push_back(random.uniform_float(2, i));
  }
  return batch;
}

// One thing to time: update() is a whole training update on the same batch.
struct Contender {
  BenchRow row;
  double flop = 0;
  std::function<void()> update;
  std::vector<double> seconds;
};

// 2 FLOP per weight and row forward, 4 backward; the output layer only where there is a loss.
double update_flop(const Workload& w, double layer_weights, double output_weights) {
  return 6.0 * w.batch * (layer_weights * w.steps + output_weights * (w.steps - w.loss_from));
}

Contender our_contender(const Workload& w, const CellInfo& cell, EngineKind kind, int threads,
                        const tasks::Batch& batch) {
  const auto sizes = cell.sizes.find(w.size_class);
  const OptionMap options = resolve_options(
      cell.options, sizes == cell.sizes.end() ? OptionMap{} : sizes->second, "cell " + cell.name);
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
  const auto network = std::make_shared<Network>(
      ModelSettings{cell.name, options, w.input, w.classes, 1, w.embedding}, kind, threads);
  double layer_weights = 0;
  for (const auto& p : cell.parameters(w.layer_input(), options)) {
    // A plane rotation costs 6 FLOP, three times a weight.
    layer_weights += static_cast<double>(p.size()) * (p.columns > 0 ? 1 : 3 * p.rotations);
  }
  Contender c;
  c.row.cell = cell.name;
  c.row.backend = kind == EngineKind::fused ? "fused" : "reference";
  c.row.parameters = network->flat.size();
  c.flop =
      update_flop(w, layer_weights, static_cast<double>(network->model->output_weight().numel()));
  c.update = [network, &batch] {
    network->engine->compute_gradients(batch);
    network->optimizer.step(network->optimizer.gradient_norm());
  };
  return c;
}

// torch's own layer with the number of parameters nearest to `parameters`, output layer included.
template <class Layer, class Options>
Contender torch_contender(const Workload& w, const std::string& name, int gates,
                          std::int64_t parameters, const tasks::Batch& batch) {
  const auto count = [&](std::int64_t h) {
    return gates * h * (w.layer_input() + h + 2) + w.classes * (h + 1) + w.input * w.embedding;
  };
  std::int64_t hidden = 1;
  while (count(hidden + 1) <= parameters) ++hidden;
  if (count(hidden + 1) - parameters < parameters - count(hidden)) ++hidden;
  struct Network {
    torch::nn::Embedding embedding{nullptr};
    Layer layer;
    torch::nn::Linear output;
    std::vector<torch::Tensor> parameters;
    std::unique_ptr<torch::optim::Adam> adam;
    torch::Tensor x, targets;
    Network(const Workload& w, std::int64_t hidden)
        : layer(Options(w.layer_input(), hidden)), output(hidden, w.classes) {
      parameters = layer->parameters();
      if (w.embedding > 0) {
        embedding = torch::nn::Embedding(w.input, w.embedding);
        parameters.push_back(embedding->weight);
      }
      for (const auto& p : output->parameters()) parameters.push_back(p);
      adam = std::make_unique<torch::optim::Adam>(parameters, torch::optim::AdamOptions(1e-3));
    }
  };
  const auto network = std::make_shared<Network>(w, hidden);
  const auto ids = [&](const std::vector<std::int32_t>& v) {
    return torch::tensor(std::vector<std::int64_t>(v.begin(), v.end())).view({w.steps, w.batch});
  };
  network->x = w.embedding > 0 ? ids(batch.symbols)
               : w.symbols     ? torch::one_hot(ids(batch.symbols), w.input).to(torch::kFloat)
                               : torch::tensor(batch.dense).view({w.steps, w.batch, w.input});
  network->targets = ids(batch.targets).slice(0, w.loss_from).reshape({-1});
  Contender c;
  c.row.cell = name;
  c.row.backend = "torch";
  c.row.parameters = count(hidden);
  c.flop = update_flop(w, static_cast<double>(gates * hidden * (w.layer_input() + hidden)),
                       static_cast<double>(w.classes * hidden));
  c.update = [network, from = w.loss_from] {
    network->adam->zero_grad();
    const torch::Tensor x =
        network->embedding ? network->embedding->forward(network->x) : network->x;
    const auto hidden_values = std::get<0>(network->layer->forward(x)).slice(0, from);
    const auto logits = network->output->forward(hidden_values);
    torch::nn::functional::cross_entropy(logits.reshape({-1, logits.size(2)}), network->targets)
        .backward();
    torch::nn::utils::clip_grad_norm_(network->parameters, 1.0);
    network->adam->step();
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

bool wanted(const std::vector<std::string>& names, const std::string& name) {
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<Contender> make_contenders(const Workload& w, const BenchOptions& options, int threads,
                                       const tasks::Batch& batch) {
  std::vector<Contender> all;
  std::int64_t parameters = 0;
  for (const CellInfo& cell : cells()) {
    if (!wanted(options.cells, cell.name)) continue;
    for (const EngineKind kind : {EngineKind::fused, EngineKind::reference}) {
      if (!wanted(options.backends, kind == EngineKind::fused ? "fused" : "reference")) continue;
      all.push_back(our_contender(w, cell, kind, threads, batch));
      parameters = all.back().row.parameters;
    }
  }
  if (!wanted(options.backends, "torch")) return all;
  // Equal to the NRU where it takes part, else to the last cell.
  for (const Contender& c : all) {
    if (c.row.cell == "nru") parameters = c.row.parameters;
  }
  if (parameters == 0) return all;
  using namespace torch::nn;
  all.push_back(torch_contender<LSTM, LSTMOptions>(w, "lstm", 4, parameters, batch));
  all.push_back(torch_contender<GRU, GRUOptions>(w, "gru", 3, parameters, batch));
  all.push_back(torch_contender<RNN, RNNOptions>(w, "rnn", 1, parameters, batch));
  return all;
}

// Contenders take turns. One that has had its seconds (and at least three updates) rests.
double time_contenders(std::vector<Contender>& contenders, int threads, double seconds) {
  double peak = measure_peak(threads, 0.2);
  for (Contender& c : contenders) c.update();  // warm up: allocation, packing, page faults
  for (bool working = true; working;) {
    working = false;
    for (Contender& c : contenders) {
      const double spent = std::accumulate(c.seconds.begin(), c.seconds.end(), 0.0);
      if (c.seconds.size() >= 3 && spent >= seconds) continue;
      working = true;
      // A turn lasts long enough to find the caches as a run of updates leaves them.
      for (const auto turn = Clock::now(); since(turn) < kTurnSeconds;) {
        const auto start = Clock::now();
        c.update();
        c.seconds.push_back(since(start));
      }
    }
  }
  return std::max(peak, measure_peak(threads, 0.2));
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
  for (const int threads : options.threads) {
    torch::set_num_threads(threads);
    double peak = 0;
    std::vector<Contender> timed;
    for (const Workload& w : workloads()) {
      if (!wanted(options.tasks, w.task)) continue;
      progress(fmt::format("{}, {} thread{}", w.task, threads, threads == 1 ? "" : "s"));
      const tasks::Batch batch = random_batch(w);
      auto contenders = make_contenders(w, options, threads, batch);
      peak = std::max(peak, time_contenders(contenders, threads, options.seconds));
      for (Contender& c : contenders) {
        c.row.task = w.task;
        c.row.threads = threads;
        c.update = nullptr;  // frees the network before the next one is made
        timed.push_back(std::move(c));
      }
    }
    for (Contender& c : timed) {
      std::sort(c.seconds.begin(), c.seconds.end());
      c.row.median_ms = 1e3 * c.seconds[c.seconds.size() / 2];
      c.row.best_ms = 1e3 * c.seconds.front();
      c.row.updates = static_cast<int>(c.seconds.size());
      c.row.floor_ms = 1e3 * c.flop / peak;
      report.rows.push_back(c.row);
    }
    report.peak_gflops.push_back(peak / 1e9);
  }
  return report;
}

}  // namespace nru::training
