// What must not change the result of the sequence kernels: storage, threads, the form of the input,
// the other rows of a batch, what was computed before.
#include "kernels/sequence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "sequence_cases.h"

namespace nru::kernels {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <class T>
void expect_same_outputs(const SequenceData<T>& a, const SequenceData<T>& b) {
  EXPECT_EQ(a.output, b.output);
  EXPECT_EQ(a.states, b.states);
  EXPECT_EQ(a.final_state, b.final_state);
}

template <class T>
void expect_same_gradients(const SequenceData<T>& a, const SequenceData<T>& b) {
  for (std::size_t p = 0; p < a.parameters.size(); ++p) {
    EXPECT_EQ(a.parameter_gradients[p], b.parameter_gradients[p]) << a.program->parameters[p].name;
  }
  EXPECT_EQ(a.initial_gradients, b.initial_gradients);
  EXPECT_EQ(a.input_gradient, b.input_gradient);
  EXPECT_EQ(a.readout_weight_gradient, b.readout_weight_gradient);
  EXPECT_EQ(a.readout_bias_gradient, b.readout_bias_gradient);
}

// All results of a run whose x are rows of an embedding, against one that was given these rows.
void expect_those_of_dense(const SequenceData<double>& embedded,
                           const SequenceData<double>& dense) {
  constexpr double kBound = 1e-10;
  EXPECT_LT(relative_distance(embedded.output, dense.output), kBound);
  for (std::size_t s = 0; s < dense.final_state.size(); ++s)
    EXPECT_LT(relative_distance(embedded.final_state[s], dense.final_state[s]), kBound);
  for (std::size_t p = 0; p < dense.parameters.size(); ++p) {
    EXPECT_LT(relative_distance(embedded.parameter_gradients[p], dense.parameter_gradients[p]),
              kBound)
        << dense.program->parameters[p].name;
  }
  for (std::size_t s = 0; s < dense.initial_gradients.size(); ++s)
    EXPECT_LT(relative_distance(embedded.initial_gradients[s], dense.initial_gradients[s]), kBound);
  EXPECT_LT(relative_distance(embedded.input_gradient, dense.input_gradient), kBound);
  std::vector<double> sums(embedded.embedding.size());
  const int I = dense.input_width();
  for (std::size_t i = 0; i < dense.positions(); ++i) {
    for (int j = 0; embedded.symbols[i] >= 0 && j < I; ++j)
      sums[embedded.symbols[i] * I + j] += dense.input_gradient[i * I + j];
  }
  EXPECT_LT(relative_distance(embedded.embedding_gradient, sums), kBound);
}

class SequenceInvariance : public SequenceTest {};
NRU_SEQUENCE_CASES(SequenceInvariance, cell_cases(), run_cases());

class SequenceLengths : public SequenceTest {};
NRU_SEQUENCE_CASES(SequenceLengths, cell_cases(),
                   those_with(run_cases(), [](const RunCase& run) { return run.lengths; }));

// A direction of one number is all sign: its gradient is zero and comes out as pure rounding.
class SequencePrecision : public SequenceTest {};
NRU_SEQUENCE_CASES(SequencePrecision,
                   those_with(cell_cases(),
                              [](const CellCase& cell) {
                                return !cell.nru() || cell.nru()->memory > 1;
                              }),
                   run_cases());

class SequenceFactored : public SequenceTest {};
NRU_SEQUENCE_CASES(SequenceFactored,
                   those_with(cell_cases(),
                              [](const CellCase& cell) {
                                return cell.nru() && cell.nru()->factored_write();
                              }),
                   run_cases());

TEST_P(SequenceInvariance, KeepingActivationsChangesNothing) {
  SequenceData<float> kept(cell(), run()), dropped = kept, trained = kept, evaluated = kept;
  Sequence<float> sequence(kept.program, 1);
  kept.forward(sequence, true);
  dropped.forward(sequence, false);
  const SequenceResult train = trained.train(sequence), evaluate = evaluated.evaluate(sequence);
  expect_same_outputs(kept, dropped);
  expect_same_outputs(kept, trained);
  expect_same_outputs(kept, evaluated);
  // The chunks' losses are added front to back in one and back to front in the other.
  EXPECT_NEAR(train.loss, evaluate.loss, 1e-12 * train.loss);
  EXPECT_GT(train.loss, 0);
  EXPECT_EQ(train.events, evaluate.events);
  EXPECT_EQ(train.max_abs, evaluate.max_abs);
  EXPECT_EQ(train.max_output, evaluate.max_output);
  float largest = 0;
  for (float y : trained.output) largest = std::max(largest, std::abs(y));
  EXPECT_EQ(train.max_output, largest);
  EXPECT_EQ(trained.predictions, evaluated.predictions);
}

TEST_P(SequenceInvariance, ThreadsDoNotMatter) {
  SequenceData<float> one(cell(), run());
  Sequence<float> alone(one.program, 1);
  const double loss = one.train(alone).loss;
  SequenceData<float> one_backward(cell(), run());
  one_backward.forward(alone, true);
  one_backward.backward(alone);
  for (int threads : {2, 3}) {
    SCOPED_TRACE(threads);
    SequenceData<float> many(cell(), run());
    Sequence<float> sequence(many.program, threads);
    EXPECT_EQ(many.train(sequence).loss, loss);
    expect_same_outputs(one, many);
    expect_same_gradients(one, many);
    EXPECT_EQ(one.predictions, many.predictions);
    SequenceData<float> many_backward(cell(), run());
    many_backward.forward(sequence, true);
    many_backward.backward(sequence);
    expect_same_gradients(one_backward, many_backward);
  }
}

TEST_P(SequenceInvariance, SymbolsEqualOneHotInputs) {
  SequenceData<float> dense(cell(), run()), symbols(cell(), run());
  const int I = dense.input_width();
  const Philox random(5, Stream::train_batches);
  std::fill(dense.dense.begin(), dense.dense.end(), 0.f);
  for (std::size_t i = 0; i < dense.positions(); ++i) {
    symbols.symbols.push_back(static_cast<std::int32_t>(random.below(I, 0, i)));
    dense.dense[i * I + symbols.symbols.back()] = 1;
  }
  Sequence<float> sequence(dense.program, 1);
  EXPECT_EQ(dense.train(sequence).loss, symbols.train(sequence).loss);
  expect_same_outputs(dense, symbols);
  expect_same_gradients(dense, symbols);
}

// With few rows, whose share of the pre-activations is known before the first step, and with more
// rows than positions.
TEST_P(SequenceInvariance, EmbeddedSymbolsEqualTheirRows) {
  for (int rows : {1, 3, 500}) {
    SCOPED_TRACE(rows);
    SequenceData<double> dense(cell(), run()), embedded = dense;
    const int I = dense.input_width();
    const Philox random(6, Stream::train_batches);
    embedded.embedding = random_values<double>(static_cast<std::size_t>(rows) * I, 9);
    for (std::size_t i = 0; i < dense.positions(); ++i) {
      embedded.symbols.push_back(static_cast<std::int32_t>(random.below(rows, 0, i)));
      std::copy_n(embedded.embedding.begin() + embedded.symbols[i] * I, I,
                  dense.dense.begin() + i * I);
    }
    for (std::size_t i = 0; !dense.lengths.empty() && i < dense.positions(); ++i) {
      const int step = i / run().batch;
      if (step >= dense.lengths[i % run().batch]) embedded.symbols[i] = -1000000;  // never read
    }
    Sequence<double> sequence(dense.program, 1), other(dense.program, 2);
    const double loss = dense.train(sequence).loss;
    EXPECT_NEAR(loss, embedded.train(other).loss, 1e-11 * loss);
    expect_those_of_dense(embedded, dense);
    EXPECT_NEAR(loss, embedded.evaluate(other).loss, 1e-11 * loss);
    dense.forward(sequence, true);
    dense.backward(sequence);
    embedded.forward(other, true);
    embedded.backward(other);
    expect_those_of_dense(embedded, dense);
    const std::vector<double> with_all = embedded.embedding_gradient;
    SequenceGradients<double> alone = embedded.gradients(true);
    alone.parameters = nullptr;
    std::fill(embedded.embedding_gradient.begin(), embedded.embedding_gradient.end(), kNan);
    other.backward(embedded.inputs(), alone);
    EXPECT_EQ(embedded.embedding_gradient, with_all);
  }
}

// An object that has seen larger batches, longer sequences and NaN computes what a new one does.
TEST_P(SequenceInvariance, EarlierCallsDoNotMatter) {
  SequenceData<float> fresh(cell(), run()), used = fresh;
  Sequence<float> sequence(fresh.program, 1);
  const double loss = fresh.train(sequence).loss;
  Sequence<float> old(fresh.program, 1);
  for (const RunCase& earlier : {RunCase{"", 50, run().batch, false, true},
                                 RunCase{"", run().steps, run().batch + 9, true, false},
                                 RunCase{"", 3, run().batch, true, true}}) {
    SequenceData<float> other(cell(), earlier);
    std::fill(other.dense.begin(), other.dense.end(), kNan);
    other.train(old);
  }
  EXPECT_EQ(used.train(old).loss, loss);
  expect_same_outputs(fresh, used);
  expect_same_gradients(fresh, used);
}

// Takes one row of a batch out, cut to its length.
SequenceData<double> row_alone(const CellCase& cell, const SequenceData<double>& batch, int row) {
  RunCase run = batch.run;
  run.steps = static_cast<int>(batch.lengths[row]);
  run.batch = 1;
  run.lengths = false;
  SequenceData<double> alone(cell, run);
  const auto take = [&](const auto& from, auto& to, int width) {  // [T, B, width] -> [T, 1, width]
    to.resize(static_cast<std::size_t>(run.steps) * width);
    for (int t = 0; t < run.steps; ++t) {
      const auto at =
          from.begin() + (static_cast<std::ptrdiff_t>(t) * batch.run.batch + row) * width;
      std::copy_n(at, width, to.begin() + t * width);
    }
  };
  const auto take_state = [&](const auto& from, auto& to) {
    for (std::size_t s = 0; s < from.size(); ++s) {
      const std::size_t width = from[s].size() / batch.run.batch;
      to[s].assign(from[s].begin() + row * width, from[s].begin() + (row + 1) * width);
    }
  };
  take(batch.dense, alone.dense, batch.input_width());
  take(batch.targets, alone.targets, 1);
  take(batch.weights, alone.weights, 1);
  take_state(batch.initial, alone.initial);
  take_state(batch.final_gradient, alone.final_gradient);
  alone.parameters = batch.parameters;
  alone.readout_weight = batch.readout_weight;
  alone.readout_bias = batch.readout_bias;
  alone.scale = batch.scale;
  alone.first_step = batch.first_step;
  return alone;
}

TEST_P(SequenceLengths, BatchEqualsItsRowsAlone) {
  SequenceData<double> batch(cell(), run());
  spoil_what_lies_behind(batch);
  Sequence<double> sequence(batch.program, 2);
  const double loss = batch.train(sequence).loss;
  double sum = 0;
  auto gradients = batch.parameter_gradients;
  for (auto& g : gradients) std::fill(g.begin(), g.end(), 0.0);
  const int H = batch.output_width(), I = batch.input_width(), B = run().batch;
  for (int b = 0; b < B; ++b) {
    SCOPED_TRACE(testing::Message() << "row " << b << " of length " << batch.lengths[b]);
    SequenceData<double> alone = row_alone(cell(), batch, b);
    Sequence<double> single(alone.program, 1);
    sum += alone.train(single).loss;
    for (std::size_t p = 0; p < gradients.size(); ++p) {
      for (std::size_t i = 0; i < gradients[p].size(); ++i)
        gradients[p][i] += alone.parameter_gradients[p][i];
    }
    for (int t = 0; t < run().steps; ++t) {
      const double* y = batch.output.data() + (t * B + b) * H;
      const double* dx = batch.input_gradient.data() + (t * B + b) * I;
      const bool inside = t < batch.lengths[b];
      for (int j = 0; j < H; ++j) ASSERT_EQ(y[j], inside ? alone.output[t * H + j] : 0) << t;
      for (int j = 0; j < I; ++j) {
        ASSERT_NEAR(dx[j], inside ? alone.input_gradient[t * I + j] : 0, 1e-12) << t;
      }
    }
    for (std::size_t s = 0; s < batch.final_state.size(); ++s) {
      const int w = static_cast<int>(alone.final_state[s].size());
      for (int j = 0; j < w; ++j) {
        ASSERT_EQ(batch.final_state[s][b * w + j], alone.final_state[s][j]);
        if (!run().initial) continue;
        ASSERT_NEAR(batch.initial_gradients[s][b * w + j], alone.initial_gradients[s][j], 1e-11);
      }
    }
  }
  EXPECT_NEAR(loss, sum, 1e-12 * sum);
  for (std::size_t p = 0; p < gradients.size(); ++p) {
    EXPECT_LT(relative_distance(batch.parameter_gradients[p], gradients[p]), 1e-12)
        << batch.program->parameters[p].name;
  }
}

TEST_P(SequenceLengths, WhatLiesBehindALengthIsNotRead) {
  SequenceData<float> clean(cell(), run());
  for (std::size_t i = 0; i < clean.positions(); ++i)
    clean.symbols.push_back(i % clean.input_width());
  SequenceData<float> spoilt = clean;
  spoil_what_lies_behind(spoilt);
  Sequence<float> sequence(clean.program, 1);
  EXPECT_EQ(clean.train(sequence).loss, spoilt.train(sequence).loss);
  expect_same_outputs(clean, spoilt);
  expect_same_gradients(clean, spoilt);
  clean.forward(sequence, true);
  clean.backward(sequence);
  spoilt.forward(sequence, true);
  spoilt.backward(sequence);
  expect_same_gradients(clean, spoilt);
}

TEST_P(SequenceFactored, EqualsTheGeneralWrite) {
  NruShape general = *cell().nru();
  general.general_write = true;
  SequenceData<double> a(cell(), run()), b(CellCase{cell().name, general}, run());
  Sequence<double> fast(a.program, 1), plain(b.program, 1);
  const double bound = run().steps > 5 ? 5e-11 : 1e-12;  // a longer sequence amplifies more
  const double loss = a.train(fast).loss;
  EXPECT_NEAR(loss, b.train(plain).loss, bound * loss);
  EXPECT_LT(relative_distance(a.output, b.output), bound);
  for (std::size_t s = 0; s < a.states.size(); ++s)
    EXPECT_LT(relative_distance(a.states[s], b.states[s]), bound);
  for (std::size_t p = 0; p < a.parameters.size(); ++p) {
    EXPECT_LT(relative_distance(a.parameter_gradients[p], b.parameter_gradients[p]), bound)
        << a.program->parameters[p].name;
  }
  EXPECT_LT(relative_distance(a.input_gradient, b.input_gradient), bound);
}

// float against float64 where the recurrence is stable. A kernel that loses half of its digits
// anywhere misses these bounds by far. Gradients are looser: that of a direction is what remains
// after the part along it cancels, over the direction's norm.
TEST_P(SequencePrecision, FloatStaysCloseToDouble) {
  RunCase shortened = run();
  shortened.steps = std::min(run().steps, 12);
  SequenceData<float> a(cell(), shortened, 0.2);
  SequenceData<double> b(cell(), shortened, 0.2);
  Sequence<float> single(a.program, 1);
  Sequence<double> exact(b.program, 1);
  const double loss = a.train(single).loss, bound = 5e-5 * cell().looseness;
  EXPECT_NEAR(loss, b.train(exact).loss, 1e-6 * loss);
  EXPECT_LT(relative_distance(a.output, b.output), 5e-6);
  for (std::size_t s = 0; s < a.states.size(); ++s)
    EXPECT_LT(relative_distance(a.states[s], b.states[s]), 5e-6);
  for (std::size_t p = 0; p < a.parameters.size(); ++p) {
    EXPECT_LT(relative_distance(a.parameter_gradients[p], b.parameter_gradients[p]), bound)
        << a.program->parameters[p].name;
  }
  EXPECT_LT(relative_distance(a.input_gradient, b.input_gradient), bound);
}

}  // namespace
}  // namespace nru::kernels
