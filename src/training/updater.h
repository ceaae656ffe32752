// Makes a run's updates: batch, gradients, clipping, Adam. What the training loop drives, whatever
// device the work is done on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tasks/task.h"
#include "training/engine.h"
#include "training/optimizer.h"

namespace nru::training {

struct UpdateOutcome {
  StepOutcome step;
  double norm = 0;            // of the gradient, before clipping
  double baseline = 0;        // of the batch; 0: none
  bool skipped = false;       // because of its loss or gradient (Optimizer::accepts)
  std::string bad_parameter;  // name of one that the update made non-finite
};

class Updater {
 public:
  virtual ~Updater() = default;

  // Makes `count` updates from number `first` on (they count from 0) and appends what came of each.
  virtual void run(std::int64_t first, std::int64_t count,
                   std::vector<UpdateOutcome>& outcomes) = 0;
  // The most updates that should be asked for at once. The host's are looked at one by one; a
  // device that works on its own is asked as seldom as a user who waits for its answer allows.
  virtual std::int64_t most_at_once() const { return 1; }

  // Brings parameters, Adam's moments and the carried state to where the host keeps them
  // (FlatParameters, Optimizer, Engine::carried()), and back there after they were changed.
  virtual void fetch() {}
  virtual void publish() {}
};

std::unique_ptr<Updater> make_host_updater(const tasks::Task& task, Engine& engine,
                                           FlatParameters& parameters, Optimizer& optimizer);

}  // namespace nru::training
