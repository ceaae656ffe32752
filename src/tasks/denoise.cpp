// Denoising: ten symbols lie scattered among T blanks; on the marker, say them in order.
//
//   step     0 .. T-1                        T        T+1 .. T+10
//   input    blanks, 10 symbols among them   marker   blanks
//   target   not asked                                the 10 symbols
//
// Only the recall counts in the loss, as in the authors' code: the baseline is ln 8 per symbol.
// With `loss_all` every position counts (blank before the recall), and it is 10 ln 8 / (T+11).
#include "tasks/recall.h"
#include "tasks/registry.h"

namespace nru::tasks {
namespace {

class Denoise : public RuleTask<DenoiseRule> {
 public:
  explicit Denoise(const TaskSettings& settings)
      : RuleTask(settings, kRecall), loss_all_(get<bool>(settings.options, "loss_all")) {}

  double baseline() const override { return guessing() / (loss_all_ ? steps() : kRecall); }

  BatchShape shape(Split, std::uint64_t) const override {
    return plain_shape(steps(), baseline(), loss_all_ ? 0 : lag() + 1);
  }

 private:
  int steps() const { return DenoiseRule::steps(lag()); }
  DenoiseRule rule(Split split) const override { return {{generator(split)}, lag()}; }

  bool loss_all_;
};

TaskInfo denoise_info() {
  TaskInfo info =
      RecallTask::info("denoise", "denoising: pick 10 symbols out of T blanks and repeat them");
  info.options.push_back(
      {"loss_all", false, "count every position in the loss, not the recall alone", {}});
  info.chrono_t_max = [](const TaskSettings& settings) {
    return settings.lag + 1 + RecallTask::kRecall;
  };
  info.make = [](const TaskSettings& settings) { return std::make_unique<Denoise>(settings); };
  return info;
}

const Registrar registrar(denoise_info());

}  // namespace
}  // namespace nru::tasks
