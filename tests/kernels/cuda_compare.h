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

}  // namespace nru::kernels::cuda
