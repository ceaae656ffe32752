// Loss and gradients of a batch: what training asks of a backend.
//
// The fused engine drives the sequence kernels with the output layer folded in; the reference
// engine goes through the layer in torch operations and autograd. Both leave the gradients in the
// flat buffer, so the rest of training does not know which one runs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "cells/model.h"
#include "tasks/task.h"
#include "training/flat_parameters.h"

namespace nru::training {

struct StepOutcome {
  double loss = 0;
  std::optional<double> max_hidden;  // largest |h| over all steps
  std::optional<double> max_memory;  // largest |state that is not the output|: m, c, mu
  std::int64_t overflows = 0;        // writes that the NRU dropped because they were not finite
};

class Engine {
 public:
  virtual ~Engine() = default;

  // Fills the flat gradients.
  virtual StepOutcome compute_gradients(const tasks::Batch& batch) = 0;
  // predictions, if not null, becomes [T,B]: the most likely class from batch.loss_from on.
  virtual StepOutcome evaluate(const tasks::Batch& batch,
                               std::vector<std::int32_t>* predictions) = 0;
};

enum class EngineKind { fused, reference };

// threads 0: all cores. The model's parameters must live in `parameters`.
std::unique_ptr<Engine> make_engine(EngineKind kind, Model model, FlatParameters& parameters,
                                    int threads);

}  // namespace nru::training
