#include "training/inspection.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "training/batch_tensors.h"

namespace nru::training {
namespace {

// The first state part that is not the output.
std::size_t memory_part(const Setup& setup) {
  const auto& is_output = setup.engine->is_output();
  const auto found = std::find(is_output.begin(), is_output.end(), false);
  return found == is_output.end() ? 0 : static_cast<std::size_t>(found - is_output.begin());
}

template <class T>
std::vector<T> row_of(const std::vector<T>& values, const tasks::Batch& batch, int row) {
  if (values.empty()) return {};
  const std::size_t width = values.size() / (static_cast<std::size_t>(batch.steps) * batch.rows);
  std::vector<T> result;
  for (int step = 0; step < batch.steps; ++step) {
    const auto from =
        values.begin() + static_cast<std::ptrdiff_t>((step * batch.rows + row) * width);
    result.insert(result.end(), from, from + static_cast<std::ptrdiff_t>(width));
  }
  return result;
}

double mean_norm(const torch::Tensor& rows) {  // [B, width]
  return rows.to(torch::kDouble).norm(2, 1).mean().item<double>();
}

}  // namespace

tasks::Batch one_row(const tasks::Batch& batch, int row) {
  tasks::Batch one;
  one.steps = batch.steps;
  one.rows = 1;
  one.symbols = row_of(batch.symbols, batch, row);
  one.dense = row_of(batch.dense, batch, row);
  one.targets = row_of(batch.targets, batch, row);
  one.weights = row_of(batch.weights, batch, row);
  one.loss_from = batch.loss_from;
  one.baseline = batch.baseline;
  return one;
}

double MemoryMap::share(int begin, int end) const {
  double inside = 0, all = 0;
  for (int step = 0; step < steps; ++step) {
    for (int unit = 0; unit < units; ++unit) {
      const double moved = std::fabs(change(step, unit));
      all += moved;
      if (step >= begin && step < end) inside += moved;
    }
  }
  return all > 0 ? inside / all : 0;
}

MemoryMap memory_map(const Setup& setup, const tasks::Batch& batch) {
  const torch::NoGradGuard no_grad;
  const tasks::Batch one = one_row(batch, 0);
  const std::size_t part = memory_part(setup);
  const auto& layer = setup.model->layer();
  const torch::Tensor values =
      layer->states(input_tensor(setup.model, one))[part].contiguous();  // [T,1,units]
  MemoryMap map;
  map.part = layer->state_names()[part];
  map.steps = static_cast<int>(values.size(0));
  map.units = static_cast<int>(values.size(2));
  map.values.assign(values.data_ptr<float>(), values.data_ptr<float>() + values.numel());
  return map;
}

std::vector<double> gradient_flow(const Setup& setup, const tasks::Batch& batch) {
  const tasks::Batch one = one_row(batch, 0);
  const torch::Tensor x = input_tensor(setup.model, one).detach();  // [T,1,I]
  State state = setup.model->layer()->initial_state(1);
  // The state goes from step to step as a tensor of its own, so that each step's gradient can be
  // asked for.
  std::vector<torch::Tensor> hidden;
  torch::Tensor output;
  for (int step = 0; step < one.steps; ++step) {
    std::tie(output, state) = setup.model->layer()->step(x[step], state);
    hidden.push_back(state.parts[0]);
  }
  const torch::Tensor target =
      torch::full({1}, one.targets.back(), torch::TensorOptions().dtype(torch::kInt64));
  const torch::Tensor loss =
      torch::nn::functional::cross_entropy(setup.model->logits(output), target);
  // The last h reaches the loss as `output`, not as a state: it has no gradient as one.
  hidden.back() = output;
  const auto gradients = torch::autograd::grad({loss}, hidden);
  std::vector<double> norms;
  for (const torch::Tensor& gradient : gradients) {
    norms.push_back(gradient.to(torch::kDouble).norm().item<double>());
  }
  return norms;
}

LagBatches lag_batches(const RunConfig& config) {
  constexpr std::int64_t kMost = 10;
  const auto found = config.task_options.find("evaluation_batches");
  if (found == config.task_options.end()) return {};
  const auto all = std::get<std::int64_t>(found->second);
  return {std::min(all, kMost), all};
}

std::vector<LagScore> longer_lags(Setup& setup, const EvaluationWatch& watch) {
  RunConfig config = setup.config;
  if (const auto [part, all] = lag_batches(config); part < all)
    config.task_options["evaluation_batches"] = part;
  std::vector<LagScore> scores;
  for (const int times : {1, 2, 5, 10, 20}) {
    config.lag = times * setup.config.lag;
    if (config.lag > tasks::kLongestLag) break;
    const auto task = setup.task_info->make(task_settings(config));
    scores.push_back(
        {static_cast<int>(config.lag), evaluate(*setup.engine, *task, tasks::Split::test, watch)});
  }
  return scores;
}

std::vector<GroupPosition> group_positions(Setup& setup) {
  const torch::NoGradGuard no_grad;
  std::vector<GroupPosition> positions;
  std::vector<std::int32_t> predictions;
  tasks::Batch batch;
  std::size_t position = 0;
  const std::size_t part = memory_part(setup);
  for (std::int64_t i = 0; i < setup.task->evaluation_batches(tasks::Split::test); ++i) {
    setup.task->make_batch(tasks::Split::test, static_cast<std::uint64_t>(i), batch);
    position = batch.carry == tasks::Carry::nothing ? 0 : position + 1;
    if (position == positions.size()) positions.emplace_back();
    GroupPosition& here = positions[position];
    const State start =
        state_tensors(setup.model, setup.engine->evaluation_start(batch), batch.rows);
    const auto states = setup.model->layer()->states(input_tensor(setup.model, batch), start);
    if (!start.empty()) here.memory_at_start += mean_norm(start.parts[part][0]);
    here.memory_after += mean_norm(states[part][std::min(kSettling, batch.steps) - 1]);
    setup.engine->evaluate(batch, &predictions);
    here.score += setup.task->score(batch, predictions);
    ++here.batches;
  }
  for (GroupPosition& here : positions) {
    here.memory_at_start /= static_cast<double>(here.batches);
    here.memory_after /= static_cast<double>(here.batches);
  }
  return positions;
}

}  // namespace nru::training
