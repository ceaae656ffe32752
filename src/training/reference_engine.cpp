// The engine that goes through the layer in torch operations and autograd.
#include "training/batch_tensors.h"
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
    model_->layer()->set_state_gradient_limit(row_limit(batch.rows));
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
  StepOutcome run(const Batch& batch, const CarriedState& initial, CarriedState& final,
                  std::vector<std::int32_t>* predictions, torch::Tensor* loss) {
    const auto [hidden, state] = model_->layer()->forward(
        input_tensor(model_, batch), state_tensors(model_, initial, batch.rows));
    final = carried_values(state);
    const std::int64_t classes = model_->settings().output_size;
    const auto counted = [&](const torch::Tensor& t) {
      return t.narrow(0, batch.loss_from, batch.steps - batch.loss_from);
    };
    const torch::Tensor logits = model_->logits(counted(hidden)).reshape({-1, classes});
    const torch::Tensor targets =
        counted(ids_tensor(batch.targets, batch)).reshape({-1}).to(torch::kInt64);
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
