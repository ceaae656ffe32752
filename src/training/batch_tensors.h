// Batches and carried states as torch tensors, for whatever goes through the layer itself.
#pragma once

#include <cstdint>
#include <vector>

#include "cells/model.h"
#include "tasks/task.h"
#include "training/engine.h"

namespace nru::training {

// What the layer reads: [T,B,I], the symbols one-hot or embedded. A dense input is not copied: the
// batch must outlive the tensor.
torch::Tensor input_tensor(const Model& model, const tasks::Batch& batch);

// Class ids of a batch, [T,B], not copied.
torch::Tensor ids_tensor(const std::vector<std::int32_t>& ids, const tasks::Batch& batch);

State state_tensors(const Model& model, const CarriedState& carried, std::int64_t rows);
CarriedState carried_values(const State& state);

}  // namespace nru::training
