#include "training/sampler.h"

#include <stdexcept>

#include "kernels/philox.h"
#include "training/batch_tensors.h"

namespace nru::training {

Sampler::Sampler(Model model, std::uint64_t seed) : model_(model), seed_(seed) {}

void Sampler::read(std::int32_t symbol) {
  const torch::NoGradGuard no_grad;
  tasks::Batch batch;
  batch.steps = batch.rows = 1;
  batch.symbols = {symbol};
  auto [output, state] = model_->layer()->step(input_tensor(model_, batch)[0], state_);
  logits_ = model_->logits(output)[0];
  state_ = state;
}

std::int32_t Sampler::draw(double temperature) {
  if (!logits_.defined()) throw std::logic_error("a sampler draws only after it has read");
  if (temperature == 0) return static_cast<std::int32_t>(logits_.argmax().item<std::int64_t>());
  const torch::Tensor weights =
      torch::softmax(logits_.to(torch::kDouble) / temperature, 0).contiguous();
  const double* weight = weights.data_ptr<double>();
  const kernels::Philox random(seed_, kernels::Stream::sampled_text);
  double left = random.uniform_double(0, draws_++);
  std::int32_t symbol = 0;
  const auto last = static_cast<std::int32_t>(weights.numel()) - 1;
  while (symbol < last && left >= weight[symbol]) left -= weight[symbol++];
  return symbol;
}

}  // namespace nru::training
