// One table of cells and one of sequence shapes for all tests of the sequence kernels, and the
// buffers that a run of a case needs.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <ostream>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "kernels/eurnn.h"
#include "kernels/goru.h"
#include "kernels/gru.h"
#include "kernels/janet.h"
#include "kernels/lstm.h"
#include "kernels/nru.h"
#include "kernels/rnn.h"
#include "kernels/sequence.h"
#include "kernels/sru.h"
#include "random_values.h"

namespace nru::kernels {

struct CellCase {
  std::string name;
  std::variant<LstmShape, NruShape, RnnShape, GruShape, JanetShape, SruShape, EurnnShape, GoruShape>
      shape;
  double looseness = 1;  // of float gradients
  int input() const {
    return std::visit([](const auto& s) { return s.input; }, shape);
  }
  const NruShape* nru() const { return std::get_if<NruShape>(&shape); }
};

// Long enough for several chunks, wide enough for several slices, or as small as can be.
struct RunCase {
  std::string name;
  int steps = 1, batch = 1;
  bool lengths = false, initial = false;
  double state_limit = 0;  // of the gradients
};

inline void PrintTo(const CellCase& c, std::ostream* out) { *out << c.name; }
inline void PrintTo(const RunCase& c, std::ostream* out) { *out << c.name; }

// The NRU's sizes: R = sqrt(k m)/k rows per head; 4 and 8 have kernels of their own, and heads that
// straddle rows (k does not divide sqrt(k m)) take the general write.
inline const std::vector<CellCase>& cell_cases() {
  using enum NruDirection;
  static const std::vector<CellCase> cases = {
      {"lstm", LstmShape{3, 5}},
      {"lstm_whole_vectors", LstmShape{7, 16}},
      {"lstm_peephole", LstmShape{10, 17, true}},
      {"rnn_relu", RnnShape{3, 5}},
      {"rnn_relu_whole_vectors", RnnShape{7, 16}},
      {"rnn_tanh", RnnShape{10, 17, true}},
      {"rnn_relu_norm", RnnShape{4, 19, false, true}},
      {"rnn_tanh_norm", RnnShape{4, 13, true, true}},
      {"gru", GruShape{3, 5}},
      {"gru_whole_vectors", GruShape{7, 16}},
      {"gru_wide", GruShape{10, 17}},
      {"gru_reset_after", GruShape{3, 5, true}},
      {"gru_reset_after_wide", GruShape{10, 17, true}},
      {"janet", JanetShape{3, 5}},
      {"janet_whole_vectors", JanetShape{7, 16}},
      {"janet_beta", JanetShape{10, 17, 1}},
      {"sru", SruShape{3, 5, 7, 2, {0, 0.5, 0.9, 0.99, 0.999}}},
      {"sru_whole_vectors", SruShape{7, 16, 8, 16, {0, 0.25, 0.5, 0.9, 0.99}}},
      {"sru_one_scale", SruShape{10, 17, 13, 9, {0.9}}},
      {"nru_k4_m64_R4", NruShape{.input = 10, .hidden = 13, .memory = 64, .heads = 4}},
      {"nru_k4_m256_R8", NruShape{.input = 1, .hidden = 21, .memory = 256, .heads = 4}},
      {"nru_k1_m16_R4", NruShape{.input = 3, .hidden = 16, .memory = 16, .heads = 1}},
      {"nru_k1_m1_R1", NruShape{.input = 2, .hidden = 1, .memory = 1, .heads = 1}},
      {"nru_k2_m50_R5", NruShape{.input = 5, .hidden = 7, .memory = 50, .heads = 2}},
      {"nru_k3_m27_R3", NruShape{.input = 5, .hidden = 33, .memory = 27, .heads = 3}},
      {"nru_k9_m4_straddling", NruShape{.input = 4, .hidden = 9, .memory = 4, .heads = 9}},
      {"nru_k4_m9_straddling", NruShape{.input = 4, .hidden = 9, .memory = 9, .heads = 4}},
      {"nru_k9_m64_straddling", NruShape{.input = 2, .hidden = 7, .memory = 64, .heads = 9}},
      {"nru_relu",
       NruShape{.input = 6, .hidden = 13, .memory = 64, .heads = 4, .relu_heads = true}},
      {"nru_relu_k1", NruShape{.input = 6, .hidden = 8, .memory = 25, .relu_heads = true}},
      {"nru_relu_straddling",
       NruShape{.input = 3, .hidden = 9, .memory = 4, .heads = 9, .relu_heads = true}},
      {"nru_per_head",
       NruShape{.input = 3, .hidden = 11, .memory = 16, .heads = 3, .direction = per_head}},
      {"nru_per_head_relu", NruShape{.input = 3,
                                     .hidden = 11,
                                     .memory = 9,
                                     .heads = 2,
                                     .direction = per_head,
                                     .relu_heads = true}},
      {"nru_full", NruShape{.input = 3, .hidden = 10, .memory = 7, .heads = 3, .direction = full}},
      {"nru_sum", NruShape{.input = 3, .hidden = 10, .memory = 16, .heads = 4, .sum_heads = true}},
      {"nru_sees_input",
       NruShape{.input = 17, .hidden = 10, .memory = 16, .heads = 4, .heads_see_input = true}},
      {"nru_norm",
       NruShape{.input = 4, .hidden = 19, .memory = 16, .heads = 4, .layer_norm = true}},
      {"nru_norm_relu_sees_input_sum", NruShape{.input = 4,
                                                .hidden = 16,
                                                .memory = 16,
                                                .heads = 1,
                                                .sum_heads = true,
                                                .relu_heads = true,
                                                .heads_see_input = true,
                                                .layer_norm = true}},
      {"nru_authors_overflow",
       NruShape{.input = 4, .hidden = 12, .memory = 16, .heads = 4, .authors_overflow = true}},
      {"nru_multiply",
       NruShape{.input = 4, .hidden = 12, .memory = 16, .heads = 4, .multiply_memory = true}},
      {"nru_multiply_relu_straddling", NruShape{.input = 3,
                                                .hidden = 9,
                                                .memory = 4,
                                                .heads = 9,
                                                .relu_heads = true,
                                                .multiply_memory = true}},
      // Limits that some strengths of the tables' networks exceed and others do not.
      {"nru_limit",
       NruShape{.input = 10, .hidden = 13, .memory = 64, .heads = 4, .write_limit = 0.2}},
      {"nru_limit_relu", NruShape{.input = 6,
                                  .hidden = 13,
                                  .memory = 64,
                                  .heads = 4,
                                  .relu_heads = true,
                                  .write_limit = 0.2}},
      {"nru_limit_straddling",
       NruShape{.input = 4, .hidden = 9, .memory = 4, .heads = 9, .write_limit = 0.2}},
      // The butterfly's sizes: all layers within a vector, across vectors, with and without
      // coordinates that have no partner. Near zero the derivative of the smooth modReLU,
      // 1 + b eps / (|z| + eps)^2, changes by b / eps^2 per unit of z: float gradients are that
      // much looser.
      {"eurnn_n4", EurnnShape{.input = 3, .hidden = 4}, 10},
      {"eurnn_n6", EurnnShape{.input = 1, .hidden = 6}, 10},
      {"eurnn_n33", EurnnShape{.input = 5, .hidden = 33}, 10},
      {"eurnn_n128", EurnnShape{.input = 2, .hidden = 128}, 10},
      {"eurnn_n17_sign", EurnnShape{.input = 4, .hidden = 17, .modrelu = ModRelu::sign}},
      {"eurnn_complex_n4", EurnnShape{.input = 3, .hidden = 4, .complex = true}, 10},
      {"eurnn_complex_n6", EurnnShape{.input = 3, .hidden = 6, .complex = true}, 10},
      {"eurnn_complex_n17", EurnnShape{.input = 1, .hidden = 17, .complex = true}, 10},
      {"eurnn_complex_n75", EurnnShape{.input = 10, .hidden = 75, .complex = true}, 10},
      {"goru_n6", GoruShape{.input = 3, .hidden = 6}, 10},
      {"goru_n17", GoruShape{.input = 4, .hidden = 17}, 10},
      {"goru_n75", GoruShape{.input = 1, .hidden = 75}, 10},
      {"goru_n33_sign", GoruShape{.input = 10, .hidden = 33, .modrelu = ModRelu::sign}},
  };
  return cases;
}

inline const std::vector<RunCase>& run_cases() {
  static const std::vector<RunCase> cases = {
      {"T1_B1", 1, 1, false, false},
      {"T1_B11_state", 1, 11, false, true},
      {"T5_B3_lengths_state", 5, 3, true, true},
      {"T37_B1_state", 37, 1, false, true},
      {"T37_B11", 37, 11, false, false},
      {"T37_B11_lengths", 37, 11, true, false},
      {"T37_B11_lengths_state", 37, 11, true, true},
  };
  return cases;
}

// One name for all cells' programs.
template <class T>
Program<T> program_of(const LstmShape& shape) {
  return lstm_program<T>(shape);
}
template <class T>
Program<T> program_of(const NruShape& shape) {
  return nru_program<T>(shape);
}
template <class T>
Program<T> program_of(const RnnShape& shape) {
  return rnn_program<T>(shape);
}
template <class T>
Program<T> program_of(const GruShape& shape) {
  return gru_program<T>(shape);
}
template <class T>
Program<T> program_of(const JanetShape& shape) {
  return janet_program<T>(shape);
}
template <class T>
Program<T> program_of(const SruShape& shape) {
  return sru_program<T>(shape);
}
template <class T>
Program<T> program_of(const EurnnShape& shape) {
  return eurnn_program<T>(shape);
}
template <class T>
Program<T> program_of(const GoruShape& shape) {
  return goru_program<T>(shape);
}

template <class T>
std::shared_ptr<const Program<T>> make_program(const CellCase& cell) {
  return std::visit(
      [](const auto& shape) { return std::make_shared<const Program<T>>(program_of<T>(shape)); },
      cell.shape);
}

template <class T>
std::vector<int> state_widths(const Program<T>& program) {
  std::vector<int> widths;
  for (const Part& part : program.parts) {
    if (part.kind == PartKind::state) widths.push_back(part.width);
  }
  return widths;
}

template <class T>
std::vector<T*> pointers(std::vector<std::vector<T>>& buffers) {
  std::vector<T*> result;
  for (auto& buffer : buffers) result.push_back(buffer.data());
  return result;
}

// Everything that a call reads and writes. Values are drawn as float, so that float and double see
// exactly the same numbers.
template <class T>
struct SequenceData {
  std::shared_ptr<const Program<T>> program;
  RunCase run;
  int classes = 6;
  double scale = 0;
  std::vector<std::vector<T>> parameters, initial;
  std::vector<T> dense;
  std::vector<std::int32_t> symbols;  // used instead of `dense` if not empty
  std::vector<T> embedding;           // of the symbols; empty: one-hot
  std::vector<std::int64_t> lengths;
  std::vector<T> readout_weight, readout_bias;
  std::vector<std::int32_t> targets;
  std::vector<float> weights;
  int first_step = 0;
  double state_limit = run.state_limit;

  std::vector<T> output;
  std::vector<std::vector<T>> states, final_state;
  std::vector<T> readout_weight_gradient, readout_bias_gradient;
  std::vector<std::int32_t> predictions;
  std::vector<T> output_gradient;              // in, for backward()
  std::vector<std::vector<T>> final_gradient;  // in, for backward() and train()
  std::vector<std::vector<T>> parameter_gradients, initial_gradients;
  std::vector<T> input_gradient, embedding_gradient;

  // Small weights: with large ones an NRU amplifies every difference exponentially in time.
  SequenceData(std::shared_ptr<const Program<T>> program, const RunCase& run,
               double weight_scale = 0.4, std::uint64_t seed = 1);
  SequenceData(const CellCase& cell, const RunCase& run, double weight_scale = 0.4)
      : SequenceData(make_program<T>(cell), run, weight_scale) {}

  int input_width() const { return program->parts[kInput].width; }
  int output_width() const { return program->parts[program->output].width; }
  std::size_t positions() const { return static_cast<std::size_t>(run.steps) * run.batch; }

  // The structs that the calls take; valid until the same function is called again.
  SequenceInputs<T> inputs();
  SequenceOutputs<T> outputs();
  SequenceGradients<T> gradients(bool with_output);
  Readout<T> readout();

  SequenceResult forward(Sequence<T>& sequence, bool keep);
  void backward(Sequence<T>& sequence);
  SequenceResult train(Sequence<T>& sequence);
  SequenceResult evaluate(Sequence<T>& sequence);

 private:
  // Pointer tables behind the structs.
  std::vector<const T*> parameter_table_, initial_table_, final_gradient_table_;
  std::vector<T*> states_table_, final_table_, parameter_gradient_table_, initial_gradient_table_;
};

// Nothing behind a row's length may be looked at: NaN and nonsense in its place must not matter.
template <class T>
void spoil_what_lies_behind(SequenceData<T>& data) {
  constexpr T kNan = std::numeric_limits<T>::quiet_NaN();
  const int I = data.input_width(), H = data.output_width(), B = data.run.batch;
  for (int t = 0; t < data.run.steps; ++t) {
    for (int b = 0; b < B; ++b) {
      if (t < data.lengths[b]) continue;
      const int position = t * B + b;
      std::fill_n(data.dense.begin() + position * I, I, kNan);
      std::fill_n(data.output_gradient.begin() + position * H, H, kNan);
      data.targets[position] = -1000000;
      data.weights[position] = std::numeric_limits<float>::quiet_NaN();
      if (!data.symbols.empty()) data.symbols[position] = -1000000;
    }
  }
}

// A test case: a cell and the shape of a run.
using SequenceCase = std::tuple<CellCase, RunCase>;

inline std::string case_name(const testing::TestParamInfo<SequenceCase>& info) {
  return std::get<0>(info.param).name + "_" + std::get<1>(info.param).name;
}

class SequenceTest : public testing::TestWithParam<SequenceCase> {
 protected:
  const CellCase& cell() const { return std::get<0>(GetParam()); }
  const RunCase& run() const { return std::get<1>(GetParam()); }
};

template <class Case, class F>
std::vector<Case> those_with(const std::vector<Case>& cases, const F& property) {
  std::vector<Case> chosen;
  std::copy_if(cases.begin(), cases.end(), std::back_inserter(chosen), property);
  return chosen;
}

#define NRU_SEQUENCE_CASES(suite, cells, runs)                                                  \
  INSTANTIATE_TEST_SUITE_P(Cases, suite,                                                        \
                           testing::Combine(testing::ValuesIn(cells), testing::ValuesIn(runs)), \
                           case_name)

// Largest |a - b| over largest |b|, and over one where b is small.
template <class A, class B>
double relative_distance(const std::vector<A>& a, const std::vector<B>& b) {
  double distance = a.size() == b.size() ? 0 : 1e300, size = 1e-3;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const double d = std::abs(double(a[i]) - double(b[i]));
    if (!(d <= distance)) distance = d;  // keeps a NaN
    size = std::max(size, std::abs(double(b[i])));
  }
  return distance / size;
}

}  // namespace nru::kernels
