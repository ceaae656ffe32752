// The gradients of the sequence kernels against central differences in float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bulk_program.h"
#include "sequence_cases.h"

namespace nru::kernels {
namespace {

using Data = SequenceData<double>;

// d objective / d *x by central differences. Two step sizes: where they disagree, a kink of a ReLU
// or a direction close to zero lies in between, and the value says nothing.
struct Difference {
  double value, noise;  // noise: the objective's rounding error, seen through the step
  bool reliable;
};

Difference central_difference(const std::function<double()>& objective, double* x, double step) {
  const double saved = *x;
  const auto slope = [&](double h) {
    *x = saved + h;
    const double up = objective();
    *x = saved - h;
    const double down = objective();
    *x = saved;
    return (up - down) / (2 * h);
  };
  const double fine = slope(step), coarse = slope(2 * step);
  const double noise = 2e-14 / step * (1 + std::abs(objective()));
  return {fine, noise, std::abs(fine - coarse) <= 1e-6 * std::abs(fine) + noise};
}

Difference central_difference(const std::function<double()>& objective, double* x) {
  const Difference first = central_difference(objective, x, 2e-6);
  return first.reliable ? first : central_difference(objective, x, 2e-7);
}

// Compares some entries of gradients with differences and keeps count.
class GradientCheck {
 public:
  explicit GradientCheck(std::function<double()> objective) : objective_(std::move(objective)) {}

  void entries(const std::string& name, std::vector<double>& values,
               const std::vector<double>& gradient, int count = 4) {
    const int size = static_cast<int>(values.size());
    const Philox random(7, Stream::epoch_order);
    for (int i = 0; i < std::min(count, size); ++i) {
      const int at = i == 0 ? 0 : i == 1 ? size - 1 : random.below(size, size, i);
      const Difference difference = central_difference(objective_, &values[at]);
      ++tried_;
      if (!difference.reliable) continue;
      ++compared_;
      nonzero_ += difference.value != 0;
      EXPECT_NEAR(gradient[at], difference.value,
                  2e-6 * std::abs(difference.value) + 2 * difference.noise)
          << name << "[" << at << "]";
    }
  }

  // A check that compares nothing, or only zeros, would always hold.
  void expect_enough() const {
    EXPECT_GE(compared_, 0.8 * tried_);
    EXPECT_GE(nonzero_, 0.1 * tried_);
  }

 private:
  std::function<double()> objective_;
  int tried_ = 0, compared_ = 0, nonzero_ = 0;
};

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

double final_term(const Data& data) {
  double sum = 0;
  for (std::size_t s = 0; s < data.final_state.size(); ++s) {
    sum += dot(data.final_state[s], data.final_gradient[s]);
  }
  return sum;
}

void check_all(GradientCheck& check, Data& data, const Data& result) {
  for (std::size_t p = 0; p < data.parameters.size(); ++p) {
    check.entries(data.program->parameters[p].name, data.parameters[p],
                  result.parameter_gradients[p]);
  }
  for (std::size_t s = 0; s < data.initial.size(); ++s) {
    check.entries("initial state", data.initial[s], result.initial_gradients[s]);
  }
  check.entries("input", data.dense, result.input_gradient, 6);
}

class SequenceGradient : public SequenceTest {};
NRU_SEQUENCE_CASES(SequenceGradient, cell_cases(), run_cases());

// train(): loss, and a gradient that arrives at the final state.
TEST_P(SequenceGradient, TrainMatchesDifferences) {
  Data data(cell(), run());
  Sequence<double> sequence(data.program, 1);
  data.train(sequence);
  const Data result = data;
  GradientCheck check([&] {
    const double loss = data.evaluate(sequence).loss;
    return loss + final_term(data);
  });
  check_all(check, data, result);
  check.entries("readout weight", data.readout_weight, result.readout_weight_gradient);
  check.entries("readout bias", data.readout_bias, result.readout_bias_gradient);
  check.expect_enough();
}

// forward() and backward(): gradients that arrive at every output and at the final state.
TEST_P(SequenceGradient, BackwardMatchesDifferences) {
  Data data(cell(), run());
  Sequence<double> sequence(data.program, 1), probe(data.program, 1);
  data.forward(sequence, true);
  data.backward(sequence);
  const Data result = data;
  GradientCheck check([&] {
    data.forward(probe, false);
    return dot(data.output, data.output_gradient) + final_term(data);
  });
  check_all(check, data, result);
  check.expect_enough();
}

// d loss / d output of train()'s loss, from the output alone.
std::vector<double> loss_gradient(const Data& data) {
  const int H = data.output_width(), C = data.classes, B = data.run.batch;
  std::vector<double> gradient(data.output.size());
  for (int t = data.first_step; t < data.run.steps; ++t) {
    for (int b = 0; b < B; ++b) {
      if (!data.lengths.empty() && t >= data.lengths[b]) continue;
      const int position = t * B + b;
      const double* y = data.output.data() + position * H;
      std::vector<double> e(C);
      double sum = 0;
      for (int c = 0; c < C; ++c) {
        double z = data.readout_bias[c];
        for (int j = 0; j < H; ++j) z += data.readout_weight[c * H + j] * y[j];
        sum += e[c] = std::exp(z);
      }
      for (int c = 0; c < C; ++c) {
        const double d = data.scale * data.weights[position] *
                         (e[c] / sum - (c == data.targets[position] ? 1 : 0));
        for (int j = 0; j < H; ++j)
          gradient[position * H + j] += d * data.readout_weight[c * H + j];
      }
    }
  }
  return gradient;
}

TEST_P(SequenceGradient, BackwardEqualsTrain) {
  Data trained(cell(), run());
  Sequence<double> sequence(trained.program, 1);
  trained.train(sequence);
  Data data(cell(), run());
  data.output_gradient = loss_gradient(trained);
  data.forward(sequence, true);
  for (int repeat = 0; repeat < 2; ++repeat) {  // backward() may be called again
    data.backward(sequence);
    for (std::size_t p = 0; p < data.parameters.size(); ++p) {
      EXPECT_LT(relative_distance(data.parameter_gradients[p], trained.parameter_gradients[p]),
                1e-11)
          << data.program->parameters[p].name;
    }
    for (std::size_t s = 0; s < data.initial.size(); ++s) {
      EXPECT_LT(relative_distance(data.initial_gradients[s], trained.initial_gradients[s]), 1e-11);
    }
    EXPECT_LT(relative_distance(data.input_gradient, trained.input_gradient), 1e-11);
  }
}

void check_bulk_program(int output, const RunCase& run) {
  SCOPED_TRACE(testing::Message() << run.name << ", output " << output);
  Data trained(bulk_program<double>(output), run), backward = trained;
  Sequence<double> sequence(trained.program, 1), probe(trained.program, 1);
  trained.train(sequence);
  Data data = trained;
  GradientCheck train_check([&] {
    const double loss = data.evaluate(probe).loss;
    return loss + final_term(data);
  });
  check_all(train_check, data, trained);
  train_check.expect_enough();

  backward.forward(sequence, true);
  backward.backward(sequence);
  data = backward;
  GradientCheck check([&] {
    data.forward(probe, false);
    return dot(data.output, data.output_gradient) + final_term(data);
  });
  check_all(check, data, backward);
  check.expect_enough();
}

TEST(SequenceBulkPhases, MatchDifferences) {
  for (const RunCase& run : run_cases()) {
    check_bulk_program(BulkProgram::kY, run);
    check_bulk_program(BulkProgram::kGate, run);
  }
}

}  // namespace
}  // namespace nru::kernels
