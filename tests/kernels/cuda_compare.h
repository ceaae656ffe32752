// How results of a CUDA device are judged: same bits, or as close to float64 as the CPU's.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "cuda_data.h"

namespace nru::kernels::cuda {

inline void expect_same_bits(const std::vector<float>& a, const std::vector<float>& b,
                             const char* what) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_TRUE(a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0) << what;
}

inline void expect_same_bits(const std::vector<std::vector<float>>& a,
                             const std::vector<std::vector<float>>& b, const char* what) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) expect_same_bits(a[i], b[i], what);
}

inline void expect_same_results(const SequenceData<float>& a, const SequenceData<float>& b) {
  expect_same_bits(a.output, b.output, "output");
  expect_same_bits(a.states, b.states, "states");
  expect_same_bits(a.final_state, b.final_state, "final state");
  expect_same_bits(a.parameter_gradients, b.parameter_gradients, "parameter gradients");
  expect_same_bits(a.initial_gradients, b.initial_gradients, "initial gradients");
  expect_same_bits(a.input_gradient, b.input_gradient, "input gradient");
  expect_same_bits(a.readout_weight_gradient, b.readout_weight_gradient, "readout weight");
  expect_same_bits(a.readout_bias_gradient, b.readout_bias_gradient, "readout bias");
  EXPECT_EQ(a.predictions, b.predictions);
}

// The CPU's results in float: as they are, and with every parameter moved by one unit in the last
// place, which says how far rounding alone can throw a case (a direction that is short by chance, a
// modReLU near zero). Without these a lucky run of the CPU would set the bound.
using Call = std::function<void(SequenceData<float>&, kernels::Sequence<float>&)>;

inline std::vector<SequenceData<float>> host_runs(const SequenceData<float>& data,
                                                  const Call& call) {
  std::vector<SequenceData<float>> runs;
  for (int i = 0; i < 4; ++i) {
    runs.push_back(data);
    const Philox random(i, kernels::Stream::initial_weights);
    for (auto& parameter : runs.back().parameters) {
      for (std::size_t j = 0; i > 0 && j < parameter.size(); ++j)
        parameter[j] = std::nextafter(parameter[j], random.below(2, 0, j) ? 1e30f : -1e30f);
    }
    kernels::Sequence<float> sequence(data.program, 1);
    call(runs.back(), sequence);
  }
  return runs;
}

// The rule: against float64, at most twice (gradients: three times) as far off as the CPU's kernels
// in the same precision.
class Against {
 public:
  using Host = std::vector<SequenceData<float>>;
  Against(const SequenceData<float>& device, const Host& host, const SequenceData<double>& exact,
          double looseness = 1)
      : device_(device), host_(host), exact_(exact), looseness_(looseness) {}

  void outputs() const {
    near("output", 2, [](const auto& data) { return data.output; });
    for (std::size_t s = 0; s < exact_.states.size(); ++s) {
      near("state", 2, [s](const auto& data) { return data.states[s]; });
      near("final state", 2, [s](const auto& data) { return data.final_state[s]; });
    }
  }
  void gradients(bool readout) const {
    for (std::size_t p = 0; p < exact_.parameters.size(); ++p) {
      near(exact_.program->parameters[p].name, 3,
           [p](const auto& data) { return data.parameter_gradients[p]; });
    }
    for (std::size_t s = 0; s < exact_.initial_gradients.size(); ++s)
      near("initial state", 3, [s](const auto& data) { return data.initial_gradients[s]; });
    near("input", 3, [](const auto& data) { return data.input_gradient; });
    if (!readout) return;
    near("readout weight", 3, [](const auto& data) { return data.readout_weight_gradient; });
    near("readout bias", 3, [](const auto& data) { return data.readout_bias_gradient; });
  }

 private:
  template <class F>
  void near(const std::string& what, double factor, const F& of) const {
    double host_error = 0;
    for (const auto& host : host_)
      host_error = std::max(host_error, relative_distance(of(host), of(exact_)));
    const double floor = factor == 2 ? 1e-6 : 5e-6 * looseness_;
    EXPECT_LE(relative_distance(of(device_), of(exact_)), factor * host_error + floor) << what;
  }

  const SequenceData<float>& device_;
  const Host& host_;
  const SequenceData<double>& exact_;
  double looseness_;
};

inline void forward_and_backward(SequenceData<float>& data, kernels::Sequence<float>& sequence) {
  data.forward(sequence, true);
  data.backward(sequence);
}

// One training call with nothing beside it.
inline void expect_finite(const CellCase& cell, const RunCase& run,
                          const SequenceOptions& options) {
  SequenceData<float> data(cell, run);
  data.first_step = 0;
  Sequence sequence(data.program, options);
  EXPECT_GT(train(data, sequence, options.stream).loss, 0);
  for (const auto& gradients : data.parameter_gradients) {
    for (float g : gradients) ASSERT_TRUE(std::isfinite(g));
  }
  for (float g : data.input_gradient) ASSERT_TRUE(std::isfinite(g));
}

// Those within the rows' lengths: what a finished row's output would be means nothing.
template <class T>
std::vector<std::int32_t> predictions_of(const SequenceData<T>& data) {
  std::vector<std::int32_t> result = data.predictions;
  for (std::size_t i = 0; !data.lengths.empty() && i < result.size(); ++i) {
    const auto batch = static_cast<std::size_t>(data.run.batch);
    if (static_cast<std::int64_t>(i / batch) >= data.lengths[i % batch]) result[i] = -1;
  }
  return result;
}

// One training call, by the rule, with all that it counts. Small weights: where the recurrence
// amplifies no difference.
inline void expect_train_close_to_double(const CellCase& cell, const RunCase& run,
                                         const SequenceOptions& options) {
  SequenceData<float> device(cell, run, 0.2);
  const auto host = host_runs(device, [](auto& data, auto& sequence) { data.train(sequence); });
  SequenceData<double> exact(cell, run, 0.2);
  Sequence sequence(device.program, options);
  kernels::Sequence<double> exact_sequence(exact.program, 1);
  const SequenceResult got = train(device, sequence, options.stream);
  const SequenceResult want = exact.train(exact_sequence);
  EXPECT_NEAR(got.loss, want.loss, 1e-6 * want.loss);
  EXPECT_EQ(got.events, want.events);
  ASSERT_EQ(got.max_abs.size(), want.max_abs.size());
  for (std::size_t s = 0; s < want.max_abs.size(); ++s)
    EXPECT_NEAR(got.max_abs[s], want.max_abs[s], 1e-5 * want.max_abs[s]);
  EXPECT_NEAR(got.max_output, want.max_output, 1e-5 * want.max_output);
  EXPECT_EQ(predictions_of(device), predictions_of(exact));
  const Against check(device, host, exact, cell.looseness);
  check.outputs();
  check.gradients(true);
}

// Forward and backward as two calls, with gradients that arrive at all outputs.
inline void expect_backward_close_to_double(const CellCase& cell, const RunCase& run,
                                            const SequenceOptions& options) {
  SequenceData<float> device(cell, run, 0.2);
  const auto host = host_runs(device, forward_and_backward);
  SequenceData<double> exact(cell, run, 0.2);
  Sequence sequence(device.program, options);
  kernels::Sequence<double> exact_sequence(exact.program, 1);
  forward_backward(device, sequence, options.stream);
  exact.forward(exact_sequence, true);
  exact.backward(exact_sequence);
  const Against check(device, host, exact, cell.looseness);
  check.outputs();
  check.gradients(false);
}

// The same call twice, and in a graph, has the same bits.
inline void expect_repeats(const CellCase& cell, const RunCase& run,
                           const SequenceOptions& options) {
  SequenceData<float> first(cell, run), again = first, replayed = first;
  Sequence sequence(first.program, options), recorded(first.program, options);
  const double loss = train(first, sequence, options.stream).loss;
  EXPECT_EQ(train(again, sequence, options.stream).loss, loss);
  expect_same_results(first, again);
  DeviceData device(replayed, options.stream);
  Graph graph(options.stream, [&] {
    recorded.train(device.inputs(), device.outputs(), device.readout(), device.gradients(false));
  });
  for (int repeat = 0; repeat < 2; ++repeat) {
    graph.launch();
    device.download();
    EXPECT_EQ(recorded.result().loss, loss);
    expect_same_results(first, replayed);
  }
}

// A long training call against the step-by-step path, and the same forward pass window by window.
inline void expect_agrees_with_the_generic_path(const CellCase& cell, const RunCase& run,
                                                StreamHandle stream) {
  SequenceData<float> whole(cell, run, 0.1), windows = whole, generic = whole;
  Sequence a(whole.program, {.stream = stream});
  Sequence b(whole.program, {.stream = stream, .whole_sequence = false});
  const SequenceResult got = train(whole, a, stream);
  const SequenceResult evaluated = evaluate(windows, a, stream);
  const SequenceResult want = train(generic, b, stream);
  EXPECT_NEAR(evaluated.loss, got.loss, 1e-8 * got.loss);  // summed up by window
  EXPECT_EQ(evaluated.max_abs, got.max_abs);
  expect_same_bits(whole.states, windows.states, "states");
  EXPECT_NEAR(got.loss, want.loss, 1e-5 * want.loss);
  EXPECT_EQ(got.events, want.events);
  for (std::size_t s = 0; s < want.max_abs.size(); ++s)
    EXPECT_NEAR(got.max_abs.at(s), want.max_abs[s], 1e-4 * want.max_abs[s]);
  EXPECT_LT(relative_distance(whole.output, generic.output), 1e-4);
  for (std::size_t p = 0; p < whole.parameters.size(); ++p) {
    EXPECT_LT(relative_distance(whole.parameter_gradients[p], generic.parameter_gradients[p]), 1e-3)
        << whole.program->parameters[p].name;
  }
}

// Heads of an NRU whose norms leave the range of float: what is clamped, overflows or is not a
// number counts and writes as on the CPU.
inline void expect_extreme_heads_as_on_the_cpu(NruShape s, StreamHandle stream) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const RunCase run{"", 3, 6, false, true};
  for (bool authors : {false, true}) {
    for (float size : {0.f, 1e-38f, 1e-20f, 1e-9f, 1e4f, 1e9f, 1e20f, 3e38f, kInfinity}) {
      SCOPED_TRACE(size);
      s.authors_overflow = authors;
      SequenceData<float> device({"", s}, run, 0.2);
      auto& bias = device.parameters.back();
      ASSERT_EQ(bias.size(), static_cast<std::size_t>(s.head_outputs()));
      // The first head's p on the write side, and q on the side that erases.
      const int p = 2 * s.heads, q = p + 3 * s.rank(), R = s.rank() / s.heads;
      auto& weight = device.parameters[device.parameters.size() - 2];
      const std::size_t columns = weight.size() / bias.size();
      const auto set = [&](int row) {
        bias[row] = row % 3 == 0 ? -size : size;
        std::fill_n(weight.begin() + row * columns, columns, 0.f);
      };
      for (int i = 0; i < R; ++i) set(p + i);
      for (int i = 0; i < s.rank(); ++i) set(q + i);
      SequenceData<float> host = device;
      Sequence sequence(device.program, {.stream = stream});
      kernels::Sequence<float> host_sequence(host.program, 1);
      const SequenceResult got = train(device, sequence, stream);
      const SequenceResult want = host.train(host_sequence);
      EXPECT_EQ(got.events, want.events);
      EXPECT_LT(relative_distance(device.states[1], host.states[1]), 1e-5);
      EXPECT_LT(relative_distance(device.output, host.output), 1e-5);
      for (std::size_t i = 0; i < device.parameters.size(); ++i) {
        EXPECT_LT(relative_distance(device.parameter_gradients[i], host.parameter_gradients[i]),
                  2e-4)
            << device.program->parameters[i].name;
      }
    }
  }
}

}  // namespace nru::kernels::cuda
