// A split's loss and score.
#pragma once

#include <cstdint>
#include <functional>
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

// Told after every batch how many there are and how many are done; for evaluations that take long.
using EvaluationWatch = std::function<void(std::int64_t done, std::int64_t all)>;

Evaluation evaluate(Engine& engine, const tasks::Task& task, tasks::Split split,
                    const EvaluationWatch& watch = {});

}  // namespace nru::training
