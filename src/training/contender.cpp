#include "training/contender.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "kernels/philox.h"

namespace nru::training {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kTurnSeconds = 0.02;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double>& values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

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

ModelSettings model_settings(const Workload& w, const CellInfo& cell) {
  const auto sizes = cell.sizes.find(w.size_class);
  const OptionMap options = resolve_options(
      cell.options, sizes == cell.sizes.end() ? OptionMap{} : sizes->second, "cell " + cell.name);
  return {cell.name, options, w.input, w.classes, 1, w.embedding};
}

double update_flop(const Workload& w, const MultipliedWeights& weights) {
  const double inputs = w.embedding > 0 ? w.input : static_cast<double>(w.batch) * w.steps;
  return 6.0 * (w.batch * ((weights.layer - weights.of_input) * w.steps +
                           weights.output * (w.steps - w.loss_from)) +
                weights.of_input * inputs);
}

MultipliedWeights multiplied_weights(const Workload& w, const CellInfo& cell, const Model& model) {
  const ModelSettings settings = model_settings(w, cell);
  MultipliedWeights weights;
  for (const auto& p : cell.parameters(settings.layer_input(), settings.cell_options)) {
    // A plane rotation costs 6 FLOP, three times a weight.
    weights.layer += static_cast<double>(p.size()) * (p.columns > 0 ? 1 : 3 * p.rotations);
  }
  const auto program = model->layer()->program<float>(0);
  for (const auto& phase : program->phases) {
    for (const auto& s : phase.segments) {
      if (s.part == kernels::kInput)
        weights.of_input += static_cast<double>(program->parts[phase.part].width) *
                            static_cast<double>(settings.layer_input());
    }
  }
  weights.output = static_cast<double>(model->output_weight().numel());
  return weights;
}

MultipliedWeights torch_weights(const Workload& w, int gates, std::int64_t hidden) {
  const auto of_input = static_cast<double>(gates * hidden * w.layer_input());
  return {of_input + static_cast<double>(gates * hidden * hidden), of_input,
          static_cast<double>(w.classes * hidden)};
}

double update_bytes(const Workload& w, double parameters, double states) {
  const double positions = static_cast<double>(w.steps) * w.batch;
  return sizeof(float) *
         (8 * parameters + positions * (w.symbols ? 1 : w.input) + 2 * positions * states);
}

std::int64_t equal_parameters(const Workload& w, const std::vector<std::string>& cell_names) {
  std::int64_t parameters = 0;
  for (const CellInfo& cell : cells()) {
    if (!wanted(cell_names, cell.name)) continue;
    parameters = count_parameters(model_settings(w, cell));
    if (cell.name == "nru") break;
  }
  return parameters;
}

std::int64_t torch_parameters(const Workload& w, int gates, std::int64_t h) {
  return gates * h * (w.layer_input() + h + 2) + w.classes * (h + 1) + w.input * w.embedding;
}

std::int64_t equal_hidden_size(const Workload& w, int gates, std::int64_t parameters) {
  const auto count = [&](std::int64_t h) { return torch_parameters(w, gates, h); };
  std::int64_t hidden = 1;
  while (count(hidden + 1) <= parameters) ++hidden;
  return count(hidden + 1) - parameters < parameters - count(hidden) ? hidden + 1 : hidden;
}

bool wanted(const std::vector<std::string>& names, const std::string& name) {
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

void take_turns(std::vector<Contender>& contenders, double seconds) {
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
}

double median_seconds(const std::function<void()>& work, double seconds) {
  work();  // warm up
  std::vector<double> times;
  for (const auto begin = Clock::now(); times.size() < 3 || since(begin) < seconds;) {
    const auto start = Clock::now();
    work();
    times.push_back(since(start));
  }
  return median(times);
}

void finish_row(Contender& c, double peak) {
  c.row.median_ms = 1e3 * median(c.seconds);
  c.row.best_ms = 1e3 * c.seconds.front();
  c.row.updates = static_cast<int>(c.seconds.size());
  c.row.floor_ms = 1e3 * c.flop / peak;
}

}  // namespace nru::training
