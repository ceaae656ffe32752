// The engine that goes through the layer in torch operations and autograd.
#include "training/engine.h"

namespace nru::training {
namespace {

using tasks::Batch;

class ReferenceEngine : public Engine {
 public:
  ReferenceEngine(Model model, FlatParameters& flat)
      : Engine(model), model_(model), gradients_(flat.gradients()), count_(flat.size()) {}

 protected:
  StepOutcome train(const Batch& batch, const CarriedState& initial, CarriedState& final) override {
    std::fill_n(gradients_, count_, 0.0f);
    torch::Tensor loss;
    const StepOutcome o = run(batch, initial, final, nullptr, &loss);
    loss.backward();
    return o;
  }

  StepOutcome predict(const Batch& batch, const CarriedState& initial, CarriedState& final,
                      std::vector<std::int32_t>* predictions) override {
    const torch::NoGradGuard no_grad;
    torch::Tensor loss;
    return run(batch, initial, final, predictions, &loss);
  }

 private:
  State state_of(const CarriedState& carried, std::int64_t rows) const {
    if (carried.empty()) return {};
    State state = model_->layer()->initial_state(rows);
    for (std::size_t part = 0; part < carried.size(); ++part) {
      if (carried[part].empty()) continue;
      torch::Tensor& to = state.parts[part];
      to = torch::tensor(carried[part]).view(to.sizes());
    }
    return state;
  }

  static CarriedState carried_of(const State& state) {
    CarriedState carried;
    for (const torch::Tensor& part : state.parts) {
      const torch::Tensor values = part.detach().contiguous();
      carried.emplace_back(values.data_ptr<float>(), values.data_ptr<float>() + values.numel());
    }
    return carried;
  }

  StepOutcome run(const Batch& batch, const CarriedState& initial, CarriedState& final,
                  std::vector<std::int32_t>* predictions, torch::Tensor* loss) {
    const auto [hidden, state] =
        model_->layer()->forward(input(batch), state_of(initial, batch.rows));
    final = carried_of(state);
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
    const torch::Tensor ids = from_ids(batch.symbols, batch).to(torch::kInt64);
    if (model_->embedding()) return torch::embedding(model_->embedding()->weight, ids);
    return torch::one_hot(ids, width).to(torch::kFloat);
  }

  Model model_;
  float* gradients_;
  std::int64_t count_;
};

}  // namespace

std::unique_ptr<Engine> make_reference_engine(Model model, FlatParameters& parameters,
                                              int threads) {
  if (threads > 0) torch::set_num_threads(threads);
  model->layer()->set_backend(Backend::reference);
  return std::make_unique<ReferenceEngine>(model, parameters);
}

}  // namespace nru::training
