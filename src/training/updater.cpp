#include "training/updater.h"

namespace nru::training {
namespace {

class HostUpdater : public Updater {
 public:
  HostUpdater(const tasks::Task& task, Engine& engine, FlatParameters& parameters,
              Optimizer& optimizer)
      : task_(&task), engine_(&engine), parameters_(&parameters), optimizer_(&optimizer) {}

  void run(std::int64_t first, std::int64_t count, std::vector<UpdateOutcome>& outcomes) override {
    for (std::int64_t i = first; i < first + count; ++i) {
      task_->make_batch(tasks::Split::train, static_cast<std::uint64_t>(i), batch_);
      UpdateOutcome outcome;
      outcome.step = engine_->compute_gradients(batch_);
      outcome.norm = optimizer_->gradient_norm();
      outcome.baseline = batch_.baseline;
      outcome.skipped = !optimizer_->accepts(outcome.step.loss, outcome.norm);
      if (!outcome.skipped) {
        optimizer_->step(outcome.norm);
        outcome.bad_parameter = parameters_->first_non_finite();
      }
      outcomes.push_back(std::move(outcome));
    }
  }

 private:
  const tasks::Task* task_;
  Engine* engine_;
  FlatParameters* parameters_;
  Optimizer* optimizer_;
  tasks::Batch batch_;
};

}  // namespace

std::unique_ptr<Updater> make_host_updater(const tasks::Task& task, Engine& engine,
                                           FlatParameters& parameters, Optimizer& optimizer) {
  return std::make_unique<HostUpdater>(task, engine, parameters, optimizer);
}

}  // namespace nru::training
