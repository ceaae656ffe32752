#include "training/engine.h"

#include <fmt/format.h>

#include "kernels/sequence.h"

namespace nru::training {
namespace {

using tasks::Batch;

class FusedEngine : public Engine {
 public:
  FusedEngine(Model model, FlatParameters& flat, int threads)
      : model_(model), sequence_(model->layer()->program<float>(0), threads) {
    const auto program = model->layer()->program<float>(0);
    for (const auto& parameter : program->parameters) {
      const auto offset = flat.entry(fmt::format("layer.{}_l0", parameter.name)).offset;
      values_.push_back(flat.values() + offset);
      gradients_.push_back(flat.gradients() + offset);
    }
    std::size_t state = 0;
    for (std::size_t p = 0; p < program->parts.size(); ++p) {
      if (program->parts[p].kind != kernels::PartKind::state) continue;
      if (!memory_ && static_cast<int>(p) != program->output) memory_ = state;
      ++state;
    }
    readout_.classes = static_cast<int>(model->settings().output_size);
    readout_.weight = flat.values() + flat.entry("output.weight").offset;
    readout_.bias = flat.values() + flat.entry("output.bias").offset;
    readout_.weight_gradient = flat.gradients() + flat.entry("output.weight").offset;
    readout_.bias_gradient = flat.gradients() + flat.entry("output.bias").offset;
  }

  StepOutcome compute_gradients(const Batch& batch) override {
    kernels::SequenceGradients<float> gradients;
    gradients.parameters = gradients_.data();
    return outcome(sequence_.train(inputs(batch), {}, readout(batch, nullptr), gradients));
  }

  StepOutcome evaluate(const Batch& batch, std::vector<std::int32_t>* predictions) override {
    return outcome(sequence_.evaluate(inputs(batch), {}, readout(batch, predictions)));
  }

 private:
  kernels::SequenceInputs<float> inputs(const Batch& batch) const {
    kernels::SequenceInputs<float> in;
    in.steps = batch.steps;
    in.batch = batch.rows;
    in.parameters = values_.data();
    if (batch.dense.empty()) {
      in.symbols = batch.symbols.data();
    } else {
      in.dense = batch.dense.data();
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

  StepOutcome outcome(const kernels::SequenceResult& result) const {
    StepOutcome o;
    o.loss = result.loss;
    o.max_hidden = result.max_output;
    if (memory_) o.max_memory = result.max_abs[*memory_];
    o.overflows = result.events[kernels::kOverflow];
    return o;
  }

  Model model_;  // owns the memory behind the program
  kernels::Sequence<float> sequence_;
  std::vector<const float*> values_;
  std::vector<float*> gradients_;
  kernels::Readout<float> readout_;
  std::optional<std::size_t> memory_;  // the first state part that is not the output: m, c, mu
};

class ReferenceEngine : public Engine {
 public:
  ReferenceEngine(Model model, FlatParameters& flat)
      : model_(model), gradients_(flat.gradients()), count_(flat.size()) {}

  StepOutcome compute_gradients(const Batch& batch) override {
    std::fill_n(gradients_, count_, 0.0f);
    torch::Tensor loss;
    const StepOutcome o = run(batch, nullptr, &loss);
    loss.backward();
    return o;
  }

  StepOutcome evaluate(const Batch& batch, std::vector<std::int32_t>* predictions) override {
    const torch::NoGradGuard no_grad;
    torch::Tensor loss;
    return run(batch, predictions, &loss);
  }

 private:
  StepOutcome run(const Batch& batch, std::vector<std::int32_t>* predictions, torch::Tensor* loss) {
    const auto [hidden, state] = model_->layer()->forward(input(batch));
    const std::int64_t classes = model_->settings().output_size;
    const auto counted = [&](const torch::Tensor& t) {
      return t.narrow(0, batch.loss_from, batch.steps - batch.loss_from);
    };
    const torch::Tensor logits = model_->logits(counted(hidden)).reshape({-1, classes});
    const torch::Tensor targets =
        counted(from_ids(batch.targets, batch)).reshape({-1}).to(torch::kInt64);
    const torch::Tensor each = torch::nn::functional::cross_entropy(
        logits, targets, torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kNone));
    if (batch.weights.empty()) {
      *loss = each.mean();
    } else {
      const torch::Tensor weights =
          torch::from_blob(const_cast<float*>(batch.weights.data()), {batch.steps, batch.rows});
      *loss = (each * counted(weights).reshape({-1})).sum() / batch.weight_sum();
    }
    if (predictions) {
      predictions->assign(batch.targets.size(), 0);
      const torch::Tensor best = logits.argmax(1).to(torch::kInt32).contiguous();
      std::copy_n(best.data_ptr<std::int32_t>(), best.numel(),
                  predictions->data() + static_cast<std::size_t>(batch.loss_from) * batch.rows);
    }
    StepOutcome o;
    o.loss = loss->item<double>();
    o.max_hidden = hidden.detach().abs().max().item<double>();
    return o;
  }

  static torch::Tensor from_ids(const std::vector<std::int32_t>& ids, const Batch& batch) {
    return torch::from_blob(const_cast<std::int32_t*>(ids.data()), {batch.steps, batch.rows},
                            torch::kInt32);
  }

  torch::Tensor input(const Batch& batch) const {
    const std::int64_t width = model_->settings().input_size;
    if (!batch.dense.empty()) {
      return torch::from_blob(const_cast<float*>(batch.dense.data()),
                              {batch.steps, batch.rows, width});
    }
    return torch::one_hot(from_ids(batch.symbols, batch).to(torch::kInt64), width)
        .to(torch::kFloat);
  }

  Model model_;
  float* gradients_;
  std::int64_t count_;
};

}  // namespace

std::unique_ptr<Engine> make_engine(EngineKind kind, Model model, FlatParameters& parameters,
                                    int threads) {
  if (kind == EngineKind::fused) {
    return std::make_unique<FusedEngine>(model, parameters, threads);
  }
  if (threads > 0) torch::set_num_threads(threads);
  model->layer()->set_backend(Backend::reference);
  return std::make_unique<ReferenceEngine>(model, parameters);
}

}  // namespace nru::training
