// What engines share: the state that goes on from batch to batch.
#include "training/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <stdexcept>

#include "kernels/cpu/gemm.h"
#include "training/updater.h"

namespace nru::training {

Engine::Engine(const Model& model) {
  const auto program = model->layer()->program<float>(0);
  for (std::size_t p = 0; p < program->parts.size(); ++p) {
    if (program->parts[p].kind != kernels::PartKind::state) continue;
    is_output_.push_back(static_cast<int>(p) == program->output);
    initial_.push_back(static_cast<float>(program->parts[p].initial));
  }
}

Engine::~Engine() = default;

std::unique_ptr<Updater> Engine::make_updater(const tasks::Task& task, FlatParameters& parameters,
                                              Optimizer& optimizer) {
  return make_host_updater(task, *this, parameters, optimizer);
}

std::string Engine::device() const {
  return fmt::format("cpu ({})", kernels::linear_ops<float>().target);
}

CarriedState Engine::start(const tasks::Batch& batch, const CarriedState& carried) const {
  if (batch.carry == tasks::Carry::nothing || carried.empty()) return {};
  CarriedState initial = carried;
  for (std::size_t part = 0; part < initial.size(); ++part) {
    if (initial[part].size() % static_cast<std::size_t>(batch.rows) != 0) {
      throw std::logic_error(
          fmt::format("a batch of {} rows cannot go on from a state of {} numbers", batch.rows,
                      initial[part].size()));
    }
    if (batch.carry == tasks::Carry::memory && is_output_[part]) {
      initial[part].clear();
    }
  }
  return initial;
}

StepOutcome Engine::outcome(const kernels::SequenceResult& result) const {
  StepOutcome o;
  o.loss = result.loss;
  o.max_hidden = result.max_output;
  for (std::size_t part = 0; part < is_output_.size() && !o.max_memory; ++part) {
    if (!is_output_[part]) o.max_memory = result.max_abs[part];
  }
  o.overflows = result.events[kernels::kOverflow];
  return o;
}

StepOutcome Engine::compute_gradients(const tasks::Batch& batch) {
  const StepOutcome outcome = train(batch, start(batch, training_), next_);
  mend(next_, batch.rows);
  training_ = next_;
  return outcome;
}

void Engine::mend(CarriedState& state, int rows) const {
  const auto of_row = [&](std::vector<float>& part, int row) {
    const std::size_t width = part.size() / static_cast<std::size_t>(rows);
    return std::span(part).subspan(static_cast<std::size_t>(row) * width, width);
  };
  const auto fine = [&](float value) { return std::fabs(value) <= state_limit_; };  // no NaN is
  for (int row = 0; row < rows; ++row) {
    if (std::all_of(state.begin(), state.end(), [&](std::vector<float>& part) {
          return std::ranges::all_of(of_row(part, row), fine);
        }))
      continue;
    for (std::size_t part = 0; part < state.size(); ++part)
      std::ranges::fill(of_row(state[part], row), initial_[part]);
  }
}

StepOutcome Engine::evaluate(const tasks::Batch& batch, std::vector<std::int32_t>* predictions) {
  const StepOutcome outcome = predict(batch, start(batch, evaluation_), next_, predictions);
  mend(next_, batch.rows);
  evaluation_ = next_;
  return outcome;
}

std::unique_ptr<Engine> make_engine(EngineKind kind, Model model, FlatParameters& parameters,
                                    int threads) {
  return kind == EngineKind::fused ? make_fused_engine(model, parameters, threads)
                                   : make_reference_engine(model, parameters, threads);
}

}  // namespace nru::training
