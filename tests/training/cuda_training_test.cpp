// Training on a CUDA device against training on the CPU: gradients, updates, evaluation, and that a
// run is the same bits every time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <thread>

#include "../support/needs_cuda.h"
#include "cells/registry.h"
#include "runs.h"

namespace nru::training {
namespace {

RunConfig on_cuda(RunConfig config) {
  config.device = "cuda";
  return config;
}

// A task with all that makes batches differ.
struct Case {
  std::string name;
  std::string cell;
  std::vector<std::string> sets;
  bool text = false;

  RunConfig config(const test::TempDir& directory, std::vector<std::string> more = {}) const {
    more.insert(more.begin(), sets.begin(), sets.end());
    if (text) return small_text(cell, directory, more);
    // The tasks that follow copy take its keys.
    return config_of({{"cell", cell}}, more);
  }
};

std::vector<Case> cases() {
  const std::vector<std::string> copy{"task=copy", "lag=5", "batch_size=3"};
  std::vector<Case> all;
  for (const CellInfo& cell : cells()) {
    all.push_back({cell.name, cell.name, copy});
    // At the default epsilon a few updates carry the last bit of a modReLU's gradient far.
    for (const OptionSpec& option : cell.options) {
      if (option.key == "epsilon") all.back().sets.push_back("cell.epsilon=0.1");
    }
  }
  const auto add = [&](const std::string& name, std::vector<std::string> sets) {
    sets.push_back("batch_size=3");
    all.push_back({name, "nru", sets});
  };
  add("groups", {"task=copy", "lag=5", "task_options.reset_every=4"});
  add("memory_carried",
      {"task=copy", "lag=5", "task_options.reset_every=4", "task_options.carry=memory"});
  add("groups_grow", {"task=copy", "lag=5", "task_options.reset_every=4",
                      "task_options.first_reset_every=2", "task_options.first_updates=3"});
  add("random_labels", {"task=copy", "lag=5", "task_options.labels=random_all"});
  add("first_lag",
      {"task=copy", "lag=9", "task_options.first_lag=5", "task_options.first_updates=3"});
  add("variable", {"task=copy-variable", "lag=9"});
  add("variable_rows", {"task=copy-variable", "lag=9", "task_options.per_row=true"});
  add("denoise", {"task=denoise", "lag=12"});
  add("denoise_all", {"task=denoise", "lag=12", "task_options.loss_all=true"});
  add("amsgrad", {"task=copy", "lag=5", "amsgrad=true", "clip_norm=0.05"});
  add("clip_state", {"task=copy", "lag=5", "clip_state=0.01"});
  add("write_limit", {"task=copy", "lag=5", "cell.write_limit=0.05"});
  add("beta2", {"task=copy", "lag=5", "adam_beta2=0.9"});
  add("anneal", {"task=copy", "lag=5", "updates=6", "anneal=0.8"});
  add("average", {"task=copy", "lag=5", "average=0.8"});
  all.push_back({"text", "nru", {}, true});
  all.push_back({"text_reset", "nru", {"task_options.reset_every=2"}, true});
  all.push_back({"text_lstm", "lstm", {}, true});
  all.push_back({"text_one_hot", "gru", {"task_options.embedding=0"}, true});
  return all;
}

class CudaTraining : public ::testing::TestWithParam<Case> {
 protected:
  RunConfig config(const std::vector<std::string>& more = {}) const {
    return GetParam().config(directory_, more);
  }
  // The lines of metrics.csv, without their seconds.
  std::vector<MetricsRow> rows_of(const std::string& name) const {
    std::vector<MetricsRow> rows = read_metrics(directory_ / name / "metrics.csv");
    for (MetricsRow& row : rows) row.seconds = 0;
    return rows;
  }
  std::string bytes(const std::string& name) const {
    Network network(config());
    load_weights(directory_ / name / "checkpoint.safetensors", network.parameters);
    const auto values = values_of(network.parameters);
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
  }

  test::TempDir directory_;
};

TEST_P(CudaTraining, GradientsAreThoseOfTheCpu) {
  NRU_NEEDS_CUDA_DEVICE();
  Network cpu(config()), cuda(on_cuda(config()));
  for (const std::uint64_t index : {0, 1, 2}) {  // later ones may go on from a state
    const tasks::Batch batch = batch_of(cpu, index, tasks::Split::train);
    const StepOutcome a = cpu.engine->compute_gradients(batch);
    const StepOutcome b = cuda.engine->compute_gradients(batch);
    EXPECT_NEAR(b.loss, a.loss, 1e-5 * a.loss);
    EXPECT_NEAR(*b.max_hidden, *a.max_hidden, 1e-4 * *a.max_hidden);
    EXPECT_EQ(a.max_memory.has_value(), b.max_memory.has_value());
    for (const auto& entry : cpu.parameters.entries()) {
      const float* expected = cpu.parameters.gradients() + entry.offset;
      const float* actual = cuda.parameters.gradients() + entry.offset;
      double largest = 0, off = 0;
      for (std::int64_t i = 0; i < entry.size; ++i) {
        largest = std::max(largest, std::fabs(static_cast<double>(expected[i])));
        off = std::max(off, std::fabs(static_cast<double>(actual[i]) - expected[i]));
      }
      // Two float32 codes over some 25 steps, as between fused and reference.
      EXPECT_LE(off, 5e-5 * largest) << entry.name;
    }
  }
}

TEST_P(CudaTraining, FirstUpdatesAreThoseOfTheCpu) {
  NRU_NEEDS_CUDA_DEVICE();
  std::vector<UpdateOutcome> outcomes[2];
  std::vector<float> values[2];
  for (const bool device : {false, true}) {
    Network network(device ? on_cuda(config()) : config());
    Optimizer optimizer(network.adam(), network.config.clip_norm, 1, network.parameters);
    const auto updater = network.engine->make_updater(*network.task, network.parameters, optimizer);
    updater->run(0, 3, outcomes[device]);
    updater->run(3, 5, outcomes[device]);
    updater->fetch();
    values[device] = values_of(network.parameters);
    EXPECT_EQ(optimizer.steps(), 8);
    EXPECT_EQ(network.engine->carried().empty(), !network.task->carries_state() && device)
        << "the host's engine always holds the last state";
  }
  ASSERT_EQ(outcomes[0].size(), 8);
  ASSERT_EQ(outcomes[1].size(), 8);
  for (int i = 0; i < 8; ++i) {
    const UpdateOutcome &a = outcomes[0][i], &b = outcomes[1][i];
    // What Adam makes of a gradient near zero depends on its last bits, so the two drift apart.
    const double bound = i == 0 ? 1e-5 : 1e-3;
    EXPECT_NEAR(b.step.loss, a.step.loss, bound * a.step.loss) << i;
    EXPECT_NEAR(b.norm, a.norm, 10 * bound * a.norm) << i;
    EXPECT_EQ(b.baseline, a.baseline) << i;
    EXPECT_EQ(b.step.overflows, a.step.overflows) << i;
    EXPECT_NEAR(*b.step.max_hidden, *a.step.max_hidden, 10 * bound * *a.step.max_hidden) << i;
    if (a.step.max_memory) {
      EXPECT_NEAR(*b.step.max_memory, *a.step.max_memory, 10 * bound * *a.step.max_memory) << i;
    }
  }
  std::int64_t far = 0;
  for (std::size_t i = 0; i < values[0].size(); ++i)
    far += std::fabs(values[0][i] - values[1][i]) > 2e-4f;  // eight steps of at most 1e-3
  EXPECT_LT(far, static_cast<std::int64_t>(values[0].size() / 100 + 1));
}

TEST_P(CudaTraining, EvaluatesAsTheCpu) {
  NRU_NEEDS_CUDA_DEVICE();
  Network cpu(config()), cuda(on_cuda(config()));
  const Evaluation a = evaluate(*cpu.engine, *cpu.task, tasks::Split::valid);
  const Evaluation b = evaluate(*cuda.engine, *cuda.task, tasks::Split::valid);
  EXPECT_NEAR(b.loss, a.loss, 1e-5 * a.loss);
  EXPECT_NEAR(*b.accuracy, *a.accuracy, 0.01);  // near-ties
}

TEST_P(CudaTraining, TheSameBitsTwiceAndResumed) {
  NRU_NEEDS_CUDA_DEVICE();
  const auto run = [&](const std::string& name) {
    return on_cuda(config(
        {"out=" + (directory_ / name).string(), "updates=14", "log_every=4", "evaluate_every=6"}));
  };
  finish(run("once"));
  finish(run("twice"));
  EXPECT_EQ(interrupt(run("parts"), 3).result.updates, 6);
  finish(run("parts"), true);
  EXPECT_EQ(bytes("once"), bytes("twice"));
  EXPECT_EQ(bytes("once"), bytes("parts"));
  EXPECT_EQ(rows_of("once"), rows_of("twice"));
  EXPECT_EQ(rows_of("once"), rows_of("parts"));
}

INSTANTIATE_TEST_SUITE_P(Training, CudaTraining, ::testing::ValuesIn(cases()),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(CudaRuns, MoveToTheDeviceAndBack) {
  NRU_NEEDS_CUDA_DEVICE();
  const test::TempDir directory;
  const auto config = [&](int updates) {
    return small_copy("nru", {"updates=" + std::to_string(updates), "average=0.8",
                              "out=" + (directory / "run").string()});
  };
  const std::string host = finish(config(4)).result.device;
  const Result there = finish(on_cuda(config(8)), true).result;
  EXPECT_EQ(there.status, RunStatus::finished);
  EXPECT_THAT(there.device, ::testing::StartsWith(host + ", from update 5 on cuda"));
  const Result back = finish(config(12), true).result;
  EXPECT_THAT(back.device, ::testing::StartsWith(there.device + ", from update 9 on cpu"));
  // Far from a start of its own, near a run that stayed.
  RunConfig stayed = config(12);
  stayed.out += "-stayed";
  EXPECT_NEAR(*back.final.test->loss, *finish(stayed).result.final.test->loss, 1e-3);
}

// Graphs of twenty updates against those of one: a run that is looked at every seven has no others.
TEST(CudaRuns, UpdatesThatShareAGraphAreThoseOfGraphsOfTheirOwn) {
  NRU_NEEDS_CUDA_DEVICE();
  const test::TempDir directory;
  const std::vector<std::vector<std::string>> tasks{
      {"task=copy", "task_options.labels=random_all", "cell.write_limit=0.05", "average=0.9"},
      {"task=copy", "task_options.reset_every=1000"},
      {"task=denoise"}};
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const auto values = [&](const std::string& every) {
      const auto out = directory / (std::to_string(i) + "-every-" + every);
      std::vector<std::string> sets{"lag=12",
                                    "batch_size=3",
                                    "updates=130",
                                    "log_every=130",
                                    "evaluate_every=130",
                                    "checkpoint_every=" + every,
                                    "out=" + out.string()};
      sets.insert(sets.end(), tasks[i].begin(), tasks[i].end());
      const RunConfig config = on_cuda(config_of({{"cell", "nru"}}, sets));
      EXPECT_EQ(finish(config).result.updates, 130);
      Network network(config);
      load_weights(out / "checkpoint.safetensors", network.parameters);
      return values_of(network.parameters);
    };
    EXPECT_EQ(values("100"), values("7")) << i;
  }
}

// Numbers to classify whose batches the host makes, in lengths that come and go: a graph is
// replayed after batches that need more room than the one it was recorded with.
class LengthsThatChange : public tasks::Task {
 public:
  int input_size() const override { return 3; }
  int output_size() const override { return 2; }
  std::int64_t evaluation_batches(tasks::Split) const override { return 1; }
  void make_batch(tasks::Split, std::uint64_t index, tasks::Batch& batch) const override {
    constexpr int kSteps[] = {4, 4, 8, 4, 8, 8, 5, 4, 5, 8, 5};
    batch = {};
    batch.steps = kSteps[index % std::size(kSteps)];
    batch.rows = 2;
    for (int i = 0; i < batch.steps * batch.rows; ++i) {
      batch.targets.push_back((i + static_cast<int>(index)) % 3 == 0);
      for (int j = 0; j < input_size(); ++j)
        batch.dense.push_back(0.1f * static_cast<float>((7 * i + 3 * j + 5 * index) % 11));
    }
  }
  tasks::Score score(const tasks::Batch&, std::span<const std::int32_t>) const override {
    return {};
  }
};

TEST(CudaRuns, TheHostsBatchesMayChangeTheirLengths) {
  NRU_NEEDS_CUDA_DEVICE();
  const LengthsThatChange task;
  std::vector<UpdateOutcome> outcomes[2];
  for (const bool device : {false, true}) {
    const RunConfig config = config_of({{"cell", "nru"}}, {"task=brittle"});
    Network network(device ? on_cuda(config) : config);
    Optimizer optimizer(network.adam(), network.config.clip_norm, 1, network.parameters);
    const auto updater = network.engine->make_updater(task, network.parameters, optimizer);
    for (int i = 0; i < 22; ++i) updater->run(i, 1, outcomes[device]);
  }
  ASSERT_EQ(outcomes[0].size(), 22);
  ASSERT_EQ(outcomes[1].size(), 22);
  for (std::size_t i = 0; i < outcomes[0].size(); ++i)
    EXPECT_NEAR(outcomes[1][i].step.loss, outcomes[0][i].step.loss, 1e-3) << i;
}

// Threads that allocate, record graphs of many shapes, evaluate and end at different times.
TEST(CudaRuns, SideBySideHaveTheSameBitsAsAlone) {
  NRU_NEEDS_CUDA_DEVICE();
  const test::TempDir directory;
  const auto config = [&](const std::string& folder, int i) {
    const std::vector<std::string> tasks{"task=copy", "task=copy-variable", "task=denoise"};
    const std::vector<std::string> names{"nru", "lstm", "gru", "nru"};
    return on_cuda(config_of(
        {{"cell", names[i % 4]}},
        {tasks[i % 3], "lag=12", "batch_size=4", "seed=" + std::to_string(i),
         "updates=" + std::to_string(150 + 40 * i), "evaluate_every=30", "checkpoint_every=20",
         "out=" + (directory / folder / std::to_string(i)).string()}));
  };
  constexpr int kRuns = 12;
  std::vector<std::thread> threads;
  std::vector<std::string> errors(kRuns);
  for (int i = 0; i < kRuns; ++i) {
    threads.emplace_back([&, i] {
      try {
        finish(config("together", i));
      } catch (const std::exception& error) {
        errors[i] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < kRuns; ++i) {
    ASSERT_EQ(errors[i], "") << i;
    finish(config("alone", i));
    Network together(config("together", i)), alone(config("alone", i));
    load_weights(directory / "together" / std::to_string(i) / "checkpoint.safetensors",
                 together.parameters);
    load_weights(directory / "alone" / std::to_string(i) / "checkpoint.safetensors",
                 alone.parameters);
    EXPECT_EQ(values_of(together.parameters), values_of(alone.parameters)) << i;
  }
}

// 200 hidden units, 100 rows and 120 steps: large enough for products on the tensor cores.
TEST(CudaPrecision, Tf32StaysNearFloat32) {
  NRU_NEEDS_CUDA_DEVICE();
  const auto config = [](const std::string& precision) {
    return on_cuda(config_of({{"cell", "lstm"}, {"precision", precision}},
                             {"task=copy", "lag=100", "batch_size=100", "cell.hidden_size=200"}));
  };
  Network exact(config("float32")), rounded(config("tf32"));
  const tasks::Batch batch = batch_of(exact, 0, tasks::Split::train);
  exact.engine->compute_gradients(batch);
  rounded.engine->compute_gradients(batch);
  double distance = 0, norm = 0;
  for (std::int64_t i = 0; i < exact.parameters.size(); ++i) {
    const double g = exact.parameters.gradients()[i];
    distance += std::pow(rounded.parameters.gradients()[i] - g, 2);
    norm += g * g;
  }
  EXPECT_LE(std::sqrt(distance / norm), 1e-2);
  EXPECT_GT(distance, 0) << "nothing was rounded: is the option passed on?";
}

TEST(CudaPrecision, Tf32OnTheCpuIsAClearError) {
  EXPECT_THAT(test::error_of([] { Network network(small_copy("nru", {"precision=tf32"})); }),
              ::testing::HasSubstr("precision=float32"));
}

TEST(CudaDevice, ThatIsNotThereIsAClearError) {
  RunConfig config = small_copy("nru");
  config.device = "cuda:99";
  EXPECT_THAT(
      test::error_of([&] { Network network(config); }),
      ::testing::AllOf(::testing::HasSubstr("cuda:99"), ::testing::HasSubstr("--device cpu")));
  config.device = "cuda";
  config.backend = "reference";
  EXPECT_THAT(test::error_of([&] { Network network(config); }), ::testing::HasSubstr("backend"));
}

}  // namespace
}  // namespace nru::training
