// Run keys as a table of members of RunConfig: a new key is one line here and one there.
#include "training/config_keys.h"

#include <variant>

namespace nru::training {
namespace {

using Field = std::variant<std::string RunConfig::*, std::int64_t RunConfig::*, double RunConfig::*,
                           bool RunConfig::*>;

struct RunKey {
  const char* key;
  Field field;
  const char* help;
  std::vector<std::string> choices = {};
};

// In the order of config.toml.
const std::vector<RunKey>& table() {
  static const std::vector<RunKey> keys = {
      {"task", &RunConfig::task, "what to learn (see nru list)"},
      {"cell", &RunConfig::cell, "which network (see nru list)"},
      {"preset",
       &RunConfig::preset,
       "settings of the paper's text, of its authors' runs, or those that did best here",
       {"paper", "authors", "recommended"}},
      {"seed", &RunConfig::seed, "decides initial weights and data"},
      {"updates", &RunConfig::updates, "length of the run in updates, or 0 and epochs set"},
      {"epochs", &RunConfig::epochs, "length of the run in passes over the data, or 0"},
      {"batch_size", &RunConfig::batch_size, "sequences per update"},
      {"lag", &RunConfig::lag, "T, the delay of the memory tasks"},
      {"device", &RunConfig::device, "cpu, cuda or cuda:N"},
      {"threads", &RunConfig::threads, "CPU threads, 0 for all cores; results do not depend on it"},
      {"backend",
       &RunConfig::backend,
       "fused kernels or the readable reference",
       {"fused", "reference"}},
      {"precision",
       &RunConfig::precision,
       "tf32: products over all steps may round their factors to 11 bits, on a GPU",
       {"float32", "tf32"}},
      {"learning_rate", &RunConfig::learning_rate, "Adam's step size"},
      {"clip_norm", &RunConfig::clip_norm, "largest global gradient norm, 0 for no clipping"},
      {"clip_state", &RunConfig::clip_state,
       "largest norm of a sequence's gradient for its state, at any step, such as 0.1; 0 for any"},
      {"amsgrad", &RunConfig::amsgrad, "Adam with the maximum of the second moments"},
      {"adam_beta2", &RunConfig::adam_beta2,
       "decay of Adam's second moments; 0.99 forgets old gradients ten times as fast"},
      {"anneal", &RunConfig::anneal,
       "share of the run, at its end, over which the step size falls linearly to zero; 0 for none"},
      {"average", &RunConfig::average,
       "evaluate a moving average of the weights: its decay per update, such as 0.999; 0 for none"},
      {"recover", &RunConfig::recover,
       "where training explodes, go back to good weights instead of ending the run"},
      {"log_every", &RunConfig::log_every, "updates averaged into one line of metrics.csv"},
      {"evaluate_every", &RunConfig::evaluate_every,
       "updates between validations, 0: each epoch or only at the end"},
      {"checkpoint_every", &RunConfig::checkpoint_every,
       "updates between checkpoints, 0: only at the end"},
      {"stop_when_solved", &RunConfig::stop_when_solved,
       "end the run as soon as the task is solved"},
      {"stop_when_settled", &RunConfig::stop_when_settled,
       "end the run 20,000 updates after the task was solved"},
      {"time_limit", &RunConfig::time_limit, "seconds after which to save and stop, 0 for none"},
      {"out", &RunConfig::out, "run directory; empty: named after the run, under runs/"},
  };
  return keys;
}

OptionValue value_of(const RunConfig& config, const Field& field) {
  return std::visit([&](auto member) { return OptionValue(config.*member); }, field);
}

}  // namespace

const std::vector<OptionSpec>& run_keys() {
  static const std::vector<OptionSpec> specs = [] {
    std::vector<OptionSpec> result;
    for (const RunKey& key : table()) {
      result.push_back({key.key, value_of(RunConfig{}, key.field), key.help, key.choices});
    }
    return result;
  }();
  return specs;
}

RunConfig from_run_keys(const OptionMap& run) {
  RunConfig config;
  for (const RunKey& key : table()) {
    std::visit([&]<class T>(T RunConfig::*member) { config.*member = get<T>(run, key.key); },
               key.field);
  }
  return config;
}

OptionMap flatten(const RunConfig& config) {
  OptionMap flat;
  for (const RunKey& key : table()) {
    const std::string name = key.key;
    flat[name == "cell" ? "cell.name" : name] = value_of(config, key.field);
  }
  for (const auto& [key, value] : config.cell_options) flat[std::string(kCellPrefix) + key] = value;
  for (const auto& [key, value] : config.task_options) flat[std::string(kTaskPrefix) + key] = value;
  return flat;
}

tasks::TaskSettings task_settings(const RunConfig& config) {
  tasks::TaskSettings settings;
  settings.seed = static_cast<std::uint64_t>(config.seed);
  settings.batch_size = static_cast<int>(config.batch_size);
  settings.lag = static_cast<int>(config.lag);
  settings.options = config.task_options;
  return settings;
}

}  // namespace nru::training
