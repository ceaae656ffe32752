#include "training/batch_tensors.h"

namespace nru::training {

torch::Tensor ids_tensor(const std::vector<std::int32_t>& ids, const tasks::Batch& batch) {
  return torch::from_blob(const_cast<std::int32_t*>(ids.data()), {batch.steps, batch.rows},
                          torch::kInt32);
}

torch::Tensor input_tensor(const Model& model, const tasks::Batch& batch) {
  const std::int64_t width = model->settings().input_size;
  if (!batch.dense.empty()) {
    return torch::from_blob(const_cast<float*>(batch.dense.data()),
                            {batch.steps, batch.rows, width});
  }
  const torch::Tensor ids = ids_tensor(batch.symbols, batch).to(torch::kInt64);
  if (model->embedding()) return torch::embedding(model->embedding()->weight, ids);
  return torch::one_hot(ids, width).to(torch::kFloat);
}

State state_tensors(const Model& model, const CarriedState& carried, std::int64_t rows) {
  if (carried.empty()) return {};
  State state = model->layer()->initial_state(rows);
  for (std::size_t part = 0; part < carried.size(); ++part) {
    if (carried[part].empty()) continue;
    torch::Tensor& to = state.parts[part];
    to = torch::tensor(carried[part]).view(to.sizes());
  }
  return state;
}

CarriedState carried_values(const State& state) {
  CarriedState carried;
  for (const torch::Tensor& part : state.parts) {
    const torch::Tensor values = part.detach().contiguous();
    carried.emplace_back(values.data_ptr<float>(), values.data_ptr<float>() + values.numel());
  }
  return carried;
}

}  // namespace nru::training
