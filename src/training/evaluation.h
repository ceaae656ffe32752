// A split's loss and score.
#pragma once

#include <optional>

#include "tasks/task.h"
#include "training/engine.h"
#include "training/metrics.h"
#include "training/result.h"

namespace nru::training {

struct Evaluation {
  double loss = 0;                      // over all counted positions of the split
  std::optional<double> relative_loss;  // over the baseline
  std::optional<double> accuracy, exact, bpc;

  Metrics metrics() const { return {loss, accuracy, bpc}; }
  MetricsRow row(std::int64_t update, std::optional<std::int64_t> epoch, tasks::Split split,
                 double seconds) const;
};

Evaluation evaluate(Engine& engine, const tasks::Task& task, tasks::Split split);

}  // namespace nru::training
