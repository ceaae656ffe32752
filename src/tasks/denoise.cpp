// Denoising: ten symbols lie scattered among T blanks; on the marker, say them in order.
//
//   step     0 .. T-1                        T        T+1 .. T+10
//   input    blanks, 10 symbols among them   marker   blanks
//   target   not asked                                the 10 symbols
//
// Only the recall counts in the loss, as in the authors' code: the baseline is ln 8 per symbol.
// With `loss_all` every position counts (blank before the recall), and it is 10 ln 8 / (T+11).
#include <algorithm>
#include <array>
#include <cmath>

#include "tasks/recall.h"
#include "tasks/registry.h"

namespace nru::tasks {
namespace {

class Denoise : public RecallTask {
 public:
  explicit Denoise(const TaskSettings& settings)
      : RecallTask(settings, kRecall), loss_all_(get<bool>(settings.options, "loss_all")) {}

  double baseline() const override { return guessing() / (loss_all_ ? steps() : kRecall); }

  void make_batch(Split split, std::uint64_t index, Batch& batch) const override {
    clear(batch, steps());
    batch.baseline = baseline();
    batch.loss_from = loss_all_ ? 0 : lag() + 1;
    const kernels::Philox random = generator(split);
    for (int row = 0; row < rows(); ++row) {
      const auto places = draw_places(random, index, row);
      for (int i = 0; i < kRecall; ++i) {
        const int shown = symbol(random, index, row, i);
        batch.symbols[at(places[i], row)] = shown;
        batch.targets[at(lag() + 1 + i, row)] = shown;
      }
      batch.symbols[at(lag(), row)] = kMarker;
    }
  }

 private:
  int steps() const { return lag() + 1 + kRecall; }

  // Ten different steps of 0..T-1 in increasing order, every choice equally likely. Floyd's way:
  // one draw each, no rejection; a step drawn twice is replaced by the largest one allowed so far.
  std::array<int, kRecall> draw_places(const kernels::Philox& random, std::uint64_t index,
                                       int row) const {
    std::array<int, kRecall> places{};
    for (int i = 0; i < kRecall; ++i) {
      const int last = lag() - kRecall + i;
      const std::uint64_t element = kPlaces + static_cast<std::uint64_t>(row) * kRecall + i;
      const int place =
          static_cast<int>(random.below(static_cast<std::uint32_t>(last + 1), index, element));
      const auto end = places.begin() + i;
      places[i] = std::find(places.begin(), end, place) == end ? place : last;
    }
    std::sort(places.begin(), places.end());
    return places;
  }

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
