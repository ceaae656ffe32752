// Copying memory: read ten symbols, wait T steps, and on a marker say them again.
//
//   step     0 .. 9      10 .. T+8    T+9      T+10 .. T+19
//   input    10 symbols  blanks       marker   blanks
//   target   blanks      blanks       blank    the 10 symbols
//
// The baseline is 10 ln 8 spread over T+20 steps. (The paper prints T+16 in the denominator; its
// own figures have T+20.)
//
// Two of the paper's analyses are options. `labels = random` asks for symbols that were never
// shown: nothing can be learned, and a network whose memory is not bounded must not blow up over
// it. `reset_every = E` leaves the recurrent state alone for E sequences on end: the network has to
// make room in its memory by itself.
//
// `first_lag`, `first_reset_every` and `first_updates` are not the paper's: training begins with a
// shorter lag, or with more resets. What is learned there may hold where nothing can be learned
// from scratch.
#include <fmt/format.h>
#include <nru/error.h>

#include <cmath>

#include "tasks/recall.h"
#include "tasks/registry.h"

namespace nru::tasks {
namespace {

CopyRule::Labels labels_of(const std::string& name) {
  return name == "random"       ? CopyRule::Labels::random
         : name == "random_all" ? CopyRule::Labels::random_all
                                : CopyRule::Labels::recall;
}

class Copy : public RuleTask<CopyRule> {
 public:
  explicit Copy(const TaskSettings& settings)
      : RuleTask(settings, 1),
        labels_(labels_of(get<std::string>(settings.options, "labels"))),
        reset_every_(get<std::int64_t>(settings.options, "reset_every")),
        carry_(get<std::string>(settings.options, "carry") == "state" ? Carry::state
                                                                      : Carry::memory),
        first_lag_(get<std::int64_t>(settings.options, "first_lag")),
        first_reset_every_(get<std::int64_t>(settings.options, "first_reset_every")),
        first_updates_(get<std::int64_t>(settings.options, "first_updates")) {
    if (reset_every_ < 1) {
      throw Error(fmt::format("task_options.reset_every {} is not possible; choose 1 or more",
                              reset_every_));
    }
    check_first();
    if (first_lag_ == 0) first_lag_ = this->lag();
    if (first_reset_every_ == 0) first_reset_every_ = reset_every_;
  }

  double baseline() const override {
    return labels_ == CopyRule::Labels::random_all ? std::log(output_size())
                                                   : guessing() / CopyRule::steps(lag());
  }
  bool carries_state() const override { return reset_every_ > 1; }

  // Batches of the first lag have no baseline: what they cost says nothing about the task's.
  BatchShape shape(Split split, std::uint64_t index) const override {
    const CopyRule rule = this->rule(split);
    BatchShape shape =
        plain_shape(CopyRule::steps(rule.row(index, 0).lag), rule.is_first(index) ? 0 : baseline());
    const std::int64_t every = rule.is_first(index) ? first_reset_every_ : reset_every_;
    if (index % static_cast<std::uint64_t>(every) != 0) shape.carry = carry_;
    return shape;
  }

 private:
  void check_first() const {
    const bool is_easier = first_lag_ != 0 || first_reset_every_ != 0;
    if (first_updates_ >= 0 && first_lag_ >= 0 && first_lag_ <= kLongestLag &&
        first_reset_every_ >= 0 && first_reset_every_ <= reset_every_ &&
        is_easier == (first_updates_ > 0)) {
      return;
    }
    throw Error(fmt::format(
        "task_options.first_lag {} and first_reset_every {} with first_updates {} are not "
        "possible; "
        "choose a lag of 1 to {}, or a reset every 1 to {} (that is reset_every), and 1 or more "
        "updates, or 0 for all",
        first_lag_, first_reset_every_, first_updates_, kLongestLag, reset_every_));
  }

  CopyRule rule(Split split) const override {
    const std::int64_t first_updates = split == Split::train ? first_updates_ : 0;
    return {{generator(split)},
            lag(),
            labels_,
            static_cast<int>(first_lag_),
            static_cast<std::uint64_t>(first_updates)};
  }

  CopyRule::Labels labels_;
  std::int64_t reset_every_;
  Carry carry_;
  std::int64_t first_lag_, first_reset_every_, first_updates_;
};

TaskInfo copy_info() {
  TaskInfo info =
      RecallTask::info("copy", "copying memory: repeat 10 symbols after a delay of T steps");
  info.options.push_back({"labels",
                          std::string("recall"),
                          "what to say after the marker: the symbols shown, random ones, or random "
                          "classes at every step",
                          {"recall", "random", "random_all"}});
  info.options.push_back(
      {"reset_every", std::int64_t{1}, "sequences between two resets of the state", {}});
  info.options.push_back({"carry",
                          std::string("state"),
                          "what goes on between resets: the whole state, or all but h",
                          {"state", "memory"}});
  info.options.push_back(
      {"first_lag", std::int64_t{0}, "a shorter lag to begin training with; 0: the same", {}});
  info.options.push_back({"first_reset_every",
                          std::int64_t{0},
                          "reset_every to begin training with; 0: the same",
                          {}});
  info.options.push_back(
      {"first_updates", std::int64_t{0}, "how many updates training begins with", {}});
  info.chrono_t_max = [](const TaskSettings& settings) {
    return settings.lag + 2 * RecallTask::kRecall;
  };
  info.make = [](const TaskSettings& settings) { return std::make_unique<Copy>(settings); };
  return info;
}

const Registrar registrar(copy_info());

}  // namespace
}  // namespace nru::tasks
