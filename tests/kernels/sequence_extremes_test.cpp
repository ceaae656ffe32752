// The sequence kernels at the ends of float: directions of length zero, tiny and huge numbers,
// infinities and NaN. What can be represented must come out finite and right; what cannot must
// write nothing, be counted, and not reach the other rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sequence_cases.h"

namespace nru::kernels {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

bool all_finite(const std::vector<float>& values) {
  for (float v : values) {
    if (!std::isfinite(v)) return false;
  }
  return true;
}

void expect_finite(const SequenceData<float>& data) {
  EXPECT_TRUE(all_finite(data.output)) << "output";
  for (const auto& s : data.states) EXPECT_TRUE(all_finite(s)) << "state";
  for (std::size_t p = 0; p < data.parameters.size(); ++p) {
    EXPECT_TRUE(all_finite(data.parameter_gradients[p])) << data.program->parameters[p].name;
  }
  for (const auto& g : data.initial_gradients) EXPECT_TRUE(all_finite(g)) << "initial state";
  EXPECT_TRUE(all_finite(data.input_gradient)) << "input";
  EXPECT_TRUE(all_finite(data.readout_weight_gradient)) << "readout weight";
  EXPECT_TRUE(all_finite(data.readout_bias_gradient)) << "readout bias";
}

template <class T>
std::vector<T>& parameter(SequenceData<T>& data, std::string_view name) {
  for (std::size_t p = 0; p < data.parameters.size(); ++p) {
    if (data.program->parameters[p].name == name) return data.parameters[p];
  }
  throw std::out_of_range(std::string(name));
}

template <class T>
const std::vector<T>& gradient(const SequenceData<T>& data, std::string_view name) {
  for (std::size_t p = 0; p < data.parameters.size(); ++p) {
    if (data.program->parameters[p].name == name) return data.parameter_gradients[p];
  }
  throw std::out_of_range(std::string(name));
}

void multiply_all(std::vector<float>& values, float factor) {
  for (float& v : values) v *= factor;
}

const RunCase kRun{"T5_B3_state", 5, 3, false, true};
const RunCase kTwoSlices{"T37_B11_state", 37, 11, false, true};  // and two chunks

// What writes nothing holds the memory where writes are added. (Where they multiply it is zero from
// then on, and there is nothing more to say.)
bool is_nru(const CellCase& cell) { return cell.nru() && !cell.nru()->multiply_memory; }

// Factored cells once more with the general write.
std::vector<CellCase> nru_cases() {
  auto cases = those_with(cell_cases(), is_nru);
  for (const CellCase& cell : those_with(cell_cases(), is_nru)) {
    if (!cell.nru()->factored_write()) continue;
    NruShape shape = *cell.nru();
    shape.general_write = true;
    cases.push_back({cell.name + "_general", shape});
  }
  return cases;
}

class SequenceExtremes : public SequenceTest {};
NRU_SEQUENCE_CASES(SequenceExtremes, cell_cases(), std::vector{kRun});

class SequencePoison : public SequenceTest {};
NRU_SEQUENCE_CASES(SequencePoison, cell_cases(), std::vector{kTwoSlices});

class NruExtremes : public SequenceTest {
 protected:
  const NruShape& shape() const { return *cell().nru(); }
  std::int64_t heads_run() const {  // of one side
    return std::int64_t{shape().heads} * run().steps * run().batch;
  }
};
NRU_SEQUENCE_CASES(NruExtremes, nru_cases(), std::vector{kRun});

// The authors' overflow has another rule: see AuthorsOverflow.
class NruSafeOverflow : public NruExtremes {};
NRU_SEQUENCE_CASES(NruSafeOverflow,
                   those_with(nru_cases(),
                              [](const CellCase& c) { return !c.nru()->authors_overflow; }),
                   std::vector{kRun});

// The other directions share its code behind p q^T.
class NruShared : public NruExtremes {};
NRU_SEQUENCE_CASES(NruShared,
                   those_with(nru_cases(),
                              [](const CellCase& c) {
                                return c.nru()->direction == NruDirection::shared;
                              }),
                   std::vector{kRun});

// Everything of the rows but `row` is the same, bit for bit.
void expect_same_but_for(int row, const SequenceData<float>& a, const SequenceData<float>& b) {
  const int H = a.output_width(), I = a.input_width();
  for (std::size_t i = 0; i < a.positions(); ++i) {
    if (static_cast<int>(i) % a.run.batch == row) continue;
    for (int j = 0; j < H; ++j) ASSERT_EQ(a.output[i * H + j], b.output[i * H + j]);
    for (int j = 0; j < I; ++j) ASSERT_EQ(a.input_gradient[i * I + j], b.input_gradient[i * I + j]);
  }
}

TEST_P(SequencePoison, NanInOneRowStaysThereAndShows) {
  SequenceData<float> clean(cell(), run());
  Sequence<float> sequence(clean.program, 1);
  clean.forward(sequence, true);
  clean.backward(sequence);
  for (std::size_t part = 0; part < clean.initial.size(); ++part) {
    for (int row : {1, 7}) {  // one of each slice
      for (float poison : {kNan, -kNan}) {
        SequenceData<float> data(cell(), run());
        const int width = static_cast<int>(data.initial[part].size()) / run().batch;
        data.initial[part][row * width + width / 2] = poison;
        data.forward(sequence, true);
        data.backward(sequence);
        expect_same_but_for(row, data, clean);
        const auto first = data.output.begin() + row * data.output_width();
        EXPECT_TRUE(
            std::any_of(first, first + data.output_width(), [](float y) { return std::isnan(y); }));
        const SequenceResult result = data.train(sequence);
        EXPECT_TRUE(std::isnan(result.loss));
        for (double largest : result.max_abs) EXPECT_TRUE(std::isnan(largest));
        EXPECT_TRUE(std::isnan(result.max_output));
      }
    }
  }
}

TEST_P(SequenceExtremes, TinyNumbersStayFinite) {
  for (float tiny : {1e-10f, 1e-20f, 1e-30f, 1e-40f, 0.f}) {
    for (bool weights : {false, true}) {
      SCOPED_TRACE(testing::Message() << tiny << (weights ? ", all" : ", inputs and states"));
      SequenceData<float> data(cell(), run());
      multiply_all(data.dense, tiny);
      for (auto& s : data.initial) multiply_all(s, tiny);
      for (auto& p : data.parameters) {
        if (weights) multiply_all(p, tiny);
      }
      Sequence<float> sequence(data.program, 1);
      const SequenceResult result = data.train(sequence);
      EXPECT_TRUE(std::isfinite(result.loss));
      EXPECT_EQ(result.events[kOverflow], 0);
      expect_finite(data);
    }
  }
}

TEST_P(SequenceExtremes, HugeInputsStayFinite) {
  SequenceData<float> data(cell(), run());
  multiply_all(data.dense, 1e30f);
  for (auto& s : data.initial) multiply_all(s, 1e30f);
  Sequence<float> sequence(data.program, 1);
  EXPECT_TRUE(std::isfinite(data.train(sequence).loss));
  expect_finite(data);
}

// h is of size 1e15 then, the head outputs of 1e30. A step of the SRU is three products deep.
TEST_P(SequenceExtremes, HugeWeightsStayFinite) {
  SequenceData<float> data(cell(), RunCase{"", 1, 11, false, true});
  const float huge = std::holds_alternative<SruShape>(cell().shape) ? 1e11f : 1e15f;
  for (auto& p : data.parameters) multiply_all(p, huge);
  Sequence<float> sequence(data.program, 1);
  EXPECT_TRUE(std::isfinite(data.train(sequence).loss));
  expect_finite(data);
}

// The general write forms p q^T, which does overflow here; the factored one does not.
TEST(SequenceHuge, FactoredWriteIsRight) {
  for (const CellCase& cell : cell_cases()) {
    const NruShape* shape = cell.nru();
    if (!shape || !shape->factored_write() || shape->authors_overflow || shape->layer_norm)
      continue;
    SCOPED_TRACE(cell.name);
    SequenceData<float> a(cell, kRun);
    SequenceData<double> b(cell, kRun);
    for (float& v : a.dense) v *= 1e30f;
    for (double& v : b.dense) v *= 1e30f;
    Sequence<float> single(a.program, 1);
    Sequence<double> exact(b.program, 1);
    EXPECT_EQ(a.train(single).events[kOverflow], 0);
    b.train(exact);
    EXPECT_LT(relative_distance(a.states[1], b.states[1]), 1e-4);
    EXPECT_LT(relative_distance(a.output, b.output), 1e-4);
    EXPECT_LT(relative_distance(gradient(a, "weight"), gradient(b, "weight")), 1e-2);
  }
}

// alpha = beta = 1, and directions of length zero, which every step clamps and counts.
void zero_directions(SequenceData<float>& data, int heads) {
  auto &weight = parameter(data, "head_weight"), &bias = parameter(data, "head_bias");
  std::fill(weight.begin(), weight.end(), 0.f);
  std::fill(bias.begin() + 2 * heads, bias.end(), 0.f);
  std::fill_n(bias.begin(), 2 * heads, 1.f);
}

// The steps of a row behind its length are run, but do not count.
TEST_P(NruExtremes, IdleStepsAreNoEvents) {
  SequenceData<float> data(cell(), {"T37_B11_lengths", 37, 11, true, false});
  zero_directions(data, shape().heads);
  Sequence<float> sequence(data.program, 2);
  const auto steps = std::accumulate(data.lengths.begin(), data.lengths.end(), std::int64_t{0});
  ASSERT_LT(steps, 37 * 11);
  EXPECT_EQ(data.train(sequence).events[kClamped], 2 * shape().heads * steps);
  EXPECT_EQ(data.evaluate(sequence).events[kClamped], 2 * shape().heads * steps);
}

TEST_P(NruExtremes, ZeroDirectionsWriteNothing) {
  SequenceData<float> data(cell(), run());
  zero_directions(data, shape().heads);
  Sequence<float> sequence(data.program, 1);
  const SequenceResult result = data.train(sequence);
  EXPECT_EQ(result.events[kClamped], 2 * heads_run());
  EXPECT_EQ(result.events[kOverflow], 0);
  EXPECT_EQ(data.final_state[1], data.initial[1]);
  for (float g : gradient(data, "head_weight")) EXPECT_EQ(g, 0.f);
  for (float g : gradient(data, "head_bias")) EXPECT_EQ(g, 0.f);
  expect_finite(data);
}

// The norm of a direction is scale-safe: plain fifth powers leave the range of float beyond 1e-8
// and 4e7.
TEST_P(NruSafeOverflow, DirectionsOfAnyLengthAreRight) {
  const int k = shape().heads, D = shape().direction_size();
  const bool product = shape().direction != NruDirection::full;
  std::vector<std::pair<double, double>> scales = {
      {1, 1}, {1e-9, 1}, {1, 1e-9}, {1e-20, 1e15}, {1e15, 1e15}, {1e25, 1e-30}, {1e-30, 1e25}};
  if (shape().factored_write()) scales.push_back({1e30, 1e20});  // p q^T itself is beyond float
  for (const auto& [p_scale, q_scale] : scales) {
    SCOPED_TRACE(testing::Message() << p_scale << ", " << q_scale);
    SequenceData<float> a(cell(), run());
    SequenceData<double> b(cell(), run());
    const auto change = [&, p = p_scale, q = q_scale](auto& data) {
      auto& weight = parameter(data, "head_weight");
      std::fill(weight.begin(), weight.end(), 0);
      auto& bias = parameter(data, "head_bias");
      for (int i = 0; i < 2 * D; ++i) {
        bias[2 * k + i] *= static_cast<float>(i % D < D / 2 || !product ? p : q);
      }
    };
    change(a);
    change(b);
    for (std::size_t i = 0; i < parameter(b, "head_bias").size(); ++i)
      parameter(b, "head_bias")[i] = parameter(a, "head_bias")[i];
    Sequence<float> single(a.program, 1);
    Sequence<double> exact(b.program, 1);
    const SequenceResult result = a.train(single);
    EXPECT_EQ(result.events, b.train(exact).events);
    EXPECT_LT(relative_distance(a.states[1], b.states[1]), 1e-5);
    EXPECT_LT(relative_distance(gradient(a, "weight"), gradient(b, "weight")), 1e-4);
    const std::vector<float>& got = gradient(a, "head_bias");
    const std::vector<double>& want = gradient(b, "head_bias");
    double largest = 0;
    for (int i = 0; i < 2 * D; ++i) {  // times the value itself: of the same size for any length
      const double value = parameter(b, "head_bias")[2 * k + i];
      EXPECT_NEAR(got[2 * k + i] * value, want[2 * k + i] * value, 1e-6) << i;
      largest = std::max(largest, std::abs(want[2 * k + i] * value));
    }
    const bool moves = shape().memory > 1 && result.events[kClamped] == 0;
    EXPECT_EQ(largest > 1e-4, moves);
  }
}

// What all heads together add to the memory in one step if every norm is below the clamp: the
// numbers of p q^T themselves, over 1e-12.
std::vector<double> clamped_write(const NruShape& shape, const std::vector<double>& heads) {
  const int k = shape.heads, m = shape.memory, r = shape.rank();
  const auto f = [&](double x) { return shape.relu_heads ? std::max(x, 0.0) : x; };
  const double limit = shape.write_limit > 0 ? shape.write_limit : INFINITY;
  std::vector<double> sum(m);
  for (int side = 0; side < 2; ++side) {
    const double* p = heads.data() + 2 * k + side * 2 * r;
    for (int i = 0; i < k * m; ++i) {
      const double value = f(p[i / r] * p[r + i % r]) / 1e-12;
      sum[i % m] += (side ? -1 : 1) * std::clamp(f(heads[side * k + i / m]), -limit, limit) * value;
    }
  }
  for (double& x : sum) x *= shape.sum_heads ? 1.0 : 1.0 / k;
  return sum;
}

TEST_P(NruShared, ShortDirectionsAreClampedAndGetNoGradient) {
  const int k = shape().heads;
  SequenceData<double> data(cell(), run());
  auto &weight = parameter(data, "head_weight"), &bias = parameter(data, "head_bias");
  std::fill(weight.begin(), weight.end(), 0.0);
  for (std::size_t i = 0; i < bias.size(); ++i) bias[i] *= static_cast<int>(i) < 2 * k ? 1 : 1e-7;
  Sequence<double> sequence(data.program, 1);
  EXPECT_EQ(data.train(sequence).events[kClamped], 2 * heads_run());
  const std::vector<double> write = clamped_write(shape(), bias);
  double largest = 0;
  for (std::size_t i = 0; i < data.initial[1].size(); ++i) {
    const double want = run().steps * write[i % shape().memory];
    EXPECT_NEAR(data.final_state[1][i] - data.initial[1][i], want, 1e-12) << i;
    largest = std::max(largest, std::abs(want));
  }
  EXPECT_GT(largest, 1e-5);
  const std::vector<double>& gradients = gradient(data, "head_bias");
  for (std::size_t i = 2 * k; i < gradients.size(); ++i) EXPECT_EQ(gradients[i], 0) << i;
  EXPECT_TRUE(
      std::any_of(gradients.begin(), gradients.begin() + 2 * k, [](double g) { return g != 0; }));
}

// An infinite p_a silences the heads that own row a, an infinite q all of them (of that side).
TEST_P(NruExtremes, InfiniteDirectionsWriteNothing) {
  const int k = shape().heads, D = shape().direction_size();
  const bool shared = shape().direction == NruDirection::shared;
  for (float poison : {kInfinity, -kInfinity, kNan}) {
    for (int at : {0, D - 1, D, 2 * D - 1}) {
      SCOPED_TRACE(testing::Message() << poison << " at " << at);
      SequenceData<float> data(cell(), run());
      parameter(data, "head_bias")[2 * k + at] = poison;
      Sequence<float> sequence(data.program, 1);
      const SequenceResult result = data.train(sequence);
      EXPECT_TRUE(std::isfinite(result.loss));
      expect_finite(data);
      EXPECT_EQ(gradient(data, "head_bias")[2 * k + at], 0.f);
      if (!shared || shape().rank() % k == 0) {
        const bool all = shared && at % D == D - 1;
        EXPECT_EQ(result.events[kOverflow], all ? heads_run() : heads_run() / k);
      } else {  // of heads that straddle rows, all that touch the row or column
        EXPECT_GE(result.events[kOverflow], heads_run() / k);
      }
    }
  }
}

// The published code's norm is infinite beyond FLT_MAX^(1/5), and such a head writes nothing.
TEST(AuthorsOverflow, FreezesTheMemory) {
  for (bool general : {false, true}) {
    for (bool relu : {false, true}) {
      for (const auto& [size, frozen] :
           {std::pair{3e3f, false}, {4e3f, false}, {5e3f, true}, {1e4f, true}, {1e30f, true}}) {
        SCOPED_TRACE(testing::Message()
                     << size << (general ? " general" : "") << (relu ? " relu" : ""));
        const NruShape shape{.input = 10,
                             .hidden = 13,
                             .memory = 64,
                             .heads = 4,
                             .relu_heads = relu,
                             .authors_overflow = true,
                             .general_write = general};
        SequenceData<float> data(CellCase{"", shape}, kRun);
        auto &weight = parameter(data, "head_weight"), &bias = parameter(data, "head_bias");
        std::fill(weight.begin(), weight.end(), 0.f);
        std::fill(bias.begin() + 8, bias.end(), size);
        for (int i = 0; i < 8; ++i) bias[i] = 0.5f + 0.1f * i;
        Sequence<float> sequence(data.program, 1);
        const SequenceResult result = data.train(sequence);
        EXPECT_EQ(result.events[kOverflow], frozen ? 8 * 5 * 3 : 0);
        EXPECT_EQ(result.events[kClamped], 0);
        EXPECT_EQ(data.final_state[1] == data.initial[1], frozen);
        expect_finite(data);
      }
    }
  }
}

}  // namespace
}  // namespace nru::kernels
