#include "training/evaluation.h"

namespace nru::training {

MetricsRow Evaluation::row(std::int64_t update, std::optional<std::int64_t> epoch,
                           tasks::Split split, double seconds) const {
  MetricsRow row;
  row.update = update;
  row.epoch = epoch;
  row.split = tasks::to_string(split);
  row.loss = loss;
  row.relative_loss = relative_loss;
  row.accuracy = accuracy;
  row.exact = exact;
  row.bpc = bpc;
  row.seconds = seconds;
  return row;
}

Evaluation evaluate(Engine& engine, const tasks::Task& task, tasks::Split split,
                    const EvaluationWatch& watch) {
  tasks::Batch batch;
  tasks::Score score;
  std::vector<std::int32_t> predictions;
  double loss = 0, weight = 0, baseline = 0;
  const std::int64_t batches = task.evaluation_batches(split);
  for (std::int64_t i = 0; i < batches; ++i) {
    task.make_batch(split, static_cast<std::uint64_t>(i), batch);
    const double w = task.evaluation_weight(batch);
    loss += w * engine.evaluate(batch, &predictions).loss;
    baseline += w * batch.baseline;
    weight += w;
    score += task.score(batch, predictions);
    if (watch) watch(i + 1, batches);
  }
  Evaluation result;
  result.loss = loss / weight;
  if (baseline > 0) result.relative_loss = loss / baseline;
  result.accuracy = score.accuracy();
  result.exact = score.exact_rate();
  result.bpc = task.bpc(result.loss);
  return result;
}

}  // namespace nru::training
