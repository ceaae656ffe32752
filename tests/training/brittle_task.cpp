// The task "brittle" of the tests of whole runs: some numbers to classify, and batches that hold
// NaN where a test wants them.
#include <cmath>

#include "tasks/registry.h"

namespace nru::training {
namespace {

class Brittle : public tasks::Task {
 public:
  explicit Brittle(const tasks::TaskSettings& settings)
      : from_(get<std::int64_t>(settings.options, "bad_from")),
        count_(get<std::int64_t>(settings.options, "bad_count")),
        one_class_(get<bool>(settings.options, "one_class")) {}

  int input_size() const override { return 3; }
  int output_size() const override { return 2; }
  std::int64_t evaluation_batches(tasks::Split) const override { return 1; }
  double baseline() const override { return one_class_ ? 0 : std::log(2.0); }

  void make_batch(tasks::Split split, std::uint64_t index, tasks::Batch& batch) const override {
    batch = {};
    batch.steps = 4;
    batch.rows = 2;
    batch.baseline = baseline();
    batch.targets.assign(8, one_class_ ? 1 : static_cast<int>(index % 2));
    batch.dense.assign(24, 0.1f * static_cast<float>(index % 7));
    const auto at = static_cast<std::int64_t>(index);
    if (split == tasks::Split::train && at >= from_ && at < from_ + count_)
      batch.dense[5] = std::nanf("");
  }
  tasks::Score score(const tasks::Batch&, std::span<const std::int32_t>) const override {
    return {};
  }

 private:
  std::int64_t from_, count_;
  bool one_class_;
};

const tasks::Registrar registrar([] {
  tasks::TaskInfo info;
  info.name = "brittle";
  info.summary = "breaks on demand";
  info.options = {{"bad_from", std::int64_t{30}, "first bad batch", {}},
                  {"bad_count", std::int64_t{0}, "how many", {}},
                  {"one_class", false, "always the same class, to be learned by heart", {}}};
  info.defaults.updates = 80;
  info.size_class = "copy";
  info.chrono_t_max = [](const tasks::TaskSettings&) { return 4; };
  info.make = [](const tasks::TaskSettings& s) { return std::make_unique<Brittle>(s); };
  return info;
}());

}  // namespace
}  // namespace nru::training
