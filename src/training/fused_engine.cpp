// The engine that drives the sequence kernels, with embedding and output layer around them.
#include "training/engine.h"

#include <fmt/format.h>

#include <algorithm>

namespace nru::training {
namespace {

using tasks::Batch;

class FusedEngine : public Engine {
 public:
  FusedEngine(Model model, FlatParameters& flat, int threads)
      : Engine(model), model_(model), sequence_(model->layer()->program<float>(0), threads) {
    const auto program = model->layer()->program<float>(0);
    for (const auto& parameter : program->parameters) {
      const auto offset = flat.entry(fmt::format("layer.{}_l0", parameter.name)).offset;
      values_.push_back(flat.values() + offset);
      gradients_.push_back(flat.gradients() + offset);
    }
    for (const auto& part : program->parts) {
      if (part.kind == kernels::PartKind::state) state_widths_.push_back(part.width);
    }
    if (model->embedding()) {
      const auto& entry = flat.entry("embedding.weight");
      embedding_ = flat.values() + entry.offset;
      embedding_gradient_ = flat.gradients() + entry.offset;
    }
    readout_.classes = static_cast<int>(model->settings().output_size);
    readout_.weight = flat.values() + flat.entry("output.weight").offset;
    readout_.bias = flat.values() + flat.entry("output.bias").offset;
    readout_.weight_gradient = flat.gradients() + flat.entry("output.weight").offset;
    readout_.bias_gradient = flat.gradients() + flat.entry("output.bias").offset;
  }

 protected:
  StepOutcome train(const Batch& batch, const CarriedState& initial, CarriedState& final) override {
    const auto from = read_pointers(initial);
    const auto to = write_pointers(batch, final);
    kernels::SequenceGradients<float> gradients;
    gradients.parameters = gradients_.data();
    gradients.state_limit = row_limit(batch.rows);
    gradients.embedding = embedding_gradient_;
    const auto result = sequence_.train(inputs(batch, from), {nullptr, nullptr, to.data()},
                                        readout(batch, nullptr), gradients);
    return outcome(result);
  }

  StepOutcome predict(const Batch& batch, const CarriedState& initial, CarriedState& final,
                      std::vector<std::int32_t>* predictions) override {
    const auto from = read_pointers(initial);
    const auto to = write_pointers(batch, final);
    return outcome(sequence_.evaluate(inputs(batch, from), {nullptr, nullptr, to.data()},
                                      readout(batch, predictions)));
  }

 private:
  static std::vector<const float*> read_pointers(const CarriedState& state) {
    std::vector<const float*> pointers;
    for (const auto& part : state) pointers.push_back(part.empty() ? nullptr : part.data());
    return pointers;
  }

  // Sizes the state as well.
  std::vector<float*> write_pointers(const Batch& batch, CarriedState& state) const {
    std::vector<float*> pointers;
    state.resize(state_widths_.size());
    for (std::size_t part = 0; part < state.size(); ++part) {
      state[part].resize(static_cast<std::size_t>(batch.rows) * state_widths_[part]);
      pointers.push_back(state[part].data());
    }
    return pointers;
  }

  kernels::SequenceInputs<float> inputs(const Batch& batch,
                                        const std::vector<const float*>& initial) {
    kernels::SequenceInputs<float> in;
    in.steps = batch.steps;
    in.batch = batch.rows;
    in.parameters = values_.data();
    in.initial = initial.empty() ? nullptr : initial.data();
    if (!batch.dense.empty()) {
      in.dense = batch.dense.data();
    } else {
      in.symbols = batch.symbols.data();
      in.embedding = embedding_;
      in.embedding_rows = embedding_ ? static_cast<int>(model_->settings().input_size) : 0;
    }
    return in;
  }

  kernels::Readout<float> readout(const Batch& batch, std::vector<std::int32_t>* predictions) {
    kernels::Readout<float> r = readout_;
    r.targets = batch.targets.data();
    r.weights = batch.weights.empty() ? nullptr : batch.weights.data();
    r.first_step = batch.loss_from;
    r.scale = 1 / batch.weight_sum();
    if (predictions) {
      predictions->assign(batch.targets.size(), 0);
      r.predictions = predictions->data();
    }
    return r;
  }

  Model model_;  // owns the memory behind the program
  kernels::Sequence<float> sequence_;
  std::vector<const float*> values_;
  std::vector<float*> gradients_;
  std::vector<int> state_widths_;  // by state part
  const float* embedding_ = nullptr;
  float* embedding_gradient_ = nullptr;
  kernels::Readout<float> readout_;
};

}  // namespace

std::unique_ptr<Engine> make_fused_engine(Model model, FlatParameters& parameters, int threads) {
  return std::make_unique<FusedEngine>(model, parameters, threads);
}

}  // namespace nru::training
