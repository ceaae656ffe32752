// The contract of a sequence call: what may be left out, what is counted, how a batch is cut.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/sequence.h"
#include "sequence_cases.h"

namespace nru::kernels {
namespace {

const CellCase kCell{"nru", NruShape{.input = 5, .hidden = 7, .memory = 16, .heads = 4}};
const RunCase kRun{"", 37, 11, true, true};

TEST(SequenceCalls, SlicesCoverTheBatchInOrder) {
  for (int batch = 1; batch <= 1000; ++batch) {
    const int slices = slice_count(batch);
    ASSERT_GE(slices, 1);
    ASSERT_EQ(slice_begin(batch, 0), 0);
    ASSERT_EQ(slice_begin(batch, slices), batch);
    for (int i = 0; i < slices; ++i) {
      const int rows = slice_begin(batch, i + 1) - slice_begin(batch, i);
      ASSERT_GE(rows, std::min(batch, 5));
      ASSERT_LE(rows, batch / slices + 1);
    }
  }
}

TEST(SequenceCalls, RefuseEmptySequences) {
  SequenceData<float> data(kCell, kRun);
  Sequence<float> sequence(data.program, 1);
  SequenceInputs<float> inputs = data.inputs();
  inputs.steps = 0;
  EXPECT_THROW(sequence.forward(inputs, data.outputs(), false), std::invalid_argument);
  inputs.steps = 37;
  inputs.batch = 0;
  EXPECT_THROW(sequence.forward(inputs, data.outputs(), false), std::invalid_argument);
}

// A slice has room for eight operands of a phase: a ninth would be written behind them.
TEST(SequenceCalls, RefuseMoreSegmentsThanThereIsRoomFor) {
  Program<float> program = *make_program<float>(kCell);
  auto& segments = program.phases[1].segments;
  const auto make = [&] {
    return Sequence<float>(std::make_shared<const Program<float>>(program), 1);
  };
  while (segments.size() < 8) segments.push_back(segments[0]);
  make();
  segments.push_back({kInput, false, 0, 0});
  try {
    make();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const std::logic_error& error) {
    EXPECT_EQ(error.what(), "cell nru: phase 1 (" + program.parts[program.phases[1].part].name +
                                ") has 9 segments; segment 8 (x) and what follows is too many");
  }
}

TEST(SequenceCalls, OutputsMayBeLeftOut) {
  SequenceData<float> data(kCell, kRun);
  Sequence<float> sequence(data.program, 1);
  const double loss = data.train(sequence).loss;
  EXPECT_EQ(sequence.train(data.inputs(), {}, data.readout(), data.gradients(false)).loss, loss);
  EXPECT_NEAR(sequence.evaluate(data.inputs(), {}, data.readout()).loss, loss, 1e-12 * loss);
}

TEST(SequenceCalls, GradientsMayBeLeftOut) {
  SequenceData<float> all(kCell, kRun);
  Sequence<float> sequence(all.program, 1);
  all.forward(sequence, true);
  all.backward(sequence);

  SequenceData<float> data(kCell, kRun);
  data.forward(sequence, true);
  SequenceGradients<float> g = data.gradients(true);
  g.parameters = nullptr;
  g.initial = nullptr;
  sequence.backward(data.inputs(), g);
  EXPECT_EQ(data.input_gradient, all.input_gradient);

  g = data.gradients(true);
  g.input = nullptr;
  g.initial = nullptr;
  std::vector<float*> some(data.parameters.size());
  some[0] = data.parameter_gradients[0].data();
  g.parameters = some.data();
  sequence.backward(data.inputs(), g);
  EXPECT_EQ(data.parameter_gradients[0], all.parameter_gradients[0]);

  g = data.gradients(true);
  g.parameters = nullptr;
  g.input = nullptr;
  sequence.backward(data.inputs(), g);
  EXPECT_EQ(data.initial_gradients, all.initial_gradients);
}

// Null means zero, for the gradients that come in and for the initial state.
TEST(SequenceCalls, LeftOutMeansZero) {
  SequenceData<float> zeros(kCell, kRun), missing = zeros;
  std::fill(zeros.output_gradient.begin(), zeros.output_gradient.end(), 0.f);
  std::fill(zeros.final_gradient[0].begin(), zeros.final_gradient[0].end(), 0.f);
  for (auto& s : zeros.initial) std::fill(s.begin(), s.end(), 0.f);
  Sequence<float> sequence(zeros.program, 1);
  zeros.forward(sequence, true);
  zeros.backward(sequence);

  missing.initial.clear();
  missing.forward(sequence, true);
  EXPECT_EQ(missing.output, zeros.output);
  SequenceGradients<float> g = missing.gradients(false);
  const float* final_gradients[] = {nullptr, missing.final_gradient[1].data()};
  g.final_state = final_gradients;
  sequence.backward(missing.inputs(), g);
  EXPECT_EQ(missing.parameter_gradients, zeros.parameter_gradients);
  EXPECT_EQ(missing.initial_gradients, zeros.initial_gradients);
  EXPECT_EQ(missing.input_gradient, zeros.input_gradient);
}

// ... unless the program says otherwise of a part.
TEST(SequenceCalls, AMemoryThatIsMultipliedStartsAtOne) {
  const CellCase cell{
      "nru", NruShape{.input = 5, .hidden = 7, .memory = 16, .heads = 4, .multiply_memory = true}};
  SequenceData<float> given(cell, kRun), missing = given;
  std::fill(given.initial[0].begin(), given.initial[0].end(), 0.f);
  std::fill(given.initial[1].begin(), given.initial[1].end(), 1.f);
  missing.initial.clear();
  Sequence<float> sequence(given.program, 1);
  EXPECT_EQ(given.train(sequence).loss, missing.train(sequence).loss);
  EXPECT_EQ(given.output, missing.output);
  EXPECT_EQ(given.parameter_gradients, missing.parameter_gradients);
  std::fill(given.initial[1].begin(), given.initial[1].end(), 0.f);
  given.forward(sequence, false);
  EXPECT_NE(given.output, missing.output);
  for (float m : given.final_state[1]) ASSERT_EQ(m, 0.f) << "zero stays zero";
}

TEST(SequenceCalls, WithoutWeightsEachPositionCountsOne) {
  SequenceData<float> ones(kCell, kRun), missing = ones;
  std::fill(ones.weights.begin(), ones.weights.end(), 1.f);
  missing.weights.clear();
  Sequence<float> sequence(ones.program, 1);
  EXPECT_EQ(ones.train(sequence).loss, missing.train(sequence).loss);
  EXPECT_EQ(ones.parameter_gradients, missing.parameter_gradients);
}

// Steps before first_step have no loss: as with weight zero.
TEST(SequenceCalls, FirstStepEqualsWeightsOfZero) {
  for (int first : {0, 1, 26, 27, 31, 32, 36, 37}) {
    SCOPED_TRACE(first);
    SequenceData<float> data(kCell, kRun), weighted = data;
    data.first_step = first;
    weighted.first_step = 0;
    std::fill_n(weighted.weights.begin(), first * kRun.batch, 0.f);
    Sequence<float> sequence(data.program, 1);
    EXPECT_NEAR(data.train(sequence).loss, weighted.train(sequence).loss, 1e-12);
    for (std::size_t p = 0; p < data.parameters.size(); ++p) {
      EXPECT_LT(relative_distance(data.parameter_gradients[p], weighted.parameter_gradients[p]),
                1e-6);
    }
    EXPECT_LT(relative_distance(data.readout_weight_gradient, weighted.readout_weight_gradient),
              1e-6);
    for (int i = 0; i < first * kRun.batch; ++i) ASSERT_EQ(data.predictions[i], -1);
    for (std::size_t i = first * kRun.batch; i < data.positions(); ++i)
      ASSERT_EQ(data.predictions[i], weighted.predictions[i]);
  }
}

TEST(SequenceCalls, MaxAbsIsThatOfTheStates) {
  SequenceData<float> data(kCell, kRun);
  Sequence<float> sequence(data.program, 2);
  const SequenceResult result = data.train(sequence);
  ASSERT_EQ(result.max_abs.size(), 2u);
  for (int part = 0; part < 2; ++part) {
    float largest = 0;
    for (float v : data.states[part]) largest = std::max(largest, std::abs(v));
    EXPECT_EQ(result.max_abs[part], largest);
  }
}

// A row's state stands still behind its length, and its last value is the final state.
TEST(SequenceCalls, StatesStandStillBehindTheLength) {
  SequenceData<float> data(kCell, kRun);
  Sequence<float> sequence(data.program, 1);
  data.forward(sequence, false);
  const auto widths = state_widths(*data.program);
  for (std::size_t s = 0; s < widths.size(); ++s) {
    for (int b = 0; b < kRun.batch; ++b) {
      for (int t = static_cast<int>(data.lengths[b]) - 1; t < kRun.steps; ++t) {
        for (int j = 0; j < widths[s]; ++j) {
          ASSERT_EQ(data.states[s][(t * kRun.batch + b) * widths[s] + j],
                    data.final_state[s][b * widths[s] + j]);
        }
      }
    }
  }
}

// One linear unit that doubles its state, h = x + 2 h' with all h positive: a gradient of one at
// the last step doubles on its way back until the limit stops it.
TEST(SequenceCalls, TheGradientOfTheStateIsLimited) {
  const CellCase unit{"rnn", RnnShape{1, 1}};
  const RunCase run{"", 5, 2, false, false};
  SequenceData<double> data(unit, run);
  data.parameters = {{1}, {2}, {0}};  // weights of x and h', bias
  ASSERT_EQ(data.program->parameters.size(), 3u);
  std::fill(data.dense.begin(), data.dense.end(), 1.0);
  std::fill(data.output_gradient.begin(), data.output_gradient.end(), 0.0);
  data.output_gradient[4 * 2] = 1;      // row 0, last step
  data.output_gradient[4 * 2 + 1] = 8;  // row 1
  for (auto& part : data.final_gradient) std::fill(part.begin(), part.end(), 0.0);
  Sequence<double> sequence(data.program, 1);
  data.forward(sequence, true);
  data.state_limit = 5;
  data.backward(sequence);
  // [T, B]: the last step's own gradient is never limited, what it sends back is.
  EXPECT_EQ(data.input_gradient, (std::vector<double>{5, 5, 5, 5, 4, 5, 2, 5, 1, 8}));
  data.state_limit = 0;
  data.backward(sequence);
  EXPECT_EQ(data.input_gradient, (std::vector<double>{16, 128, 8, 64, 4, 32, 2, 16, 1, 8}));
}

TEST(SequenceCalls, OnlyKeepingGrowsWithTheSteps) {
  RunCase run{"", 40, 6, false, false}, longer = run;
  longer.steps = 400;
  SequenceData<float> a(kCell, run), b(kCell, longer);
  Sequence<float> sequence(a.program, 1), same(a.program, 1), kept(a.program, 1);
  a.forward(sequence, false);
  b.forward(same, false);
  b.forward(kept, true);
  EXPECT_EQ(sequence.stash_bytes(), same.stash_bytes());
  EXPECT_GT(kept.stash_bytes(), 9 * same.stash_bytes());
}

TEST(SequenceCalls, CanBeMoved) {
  SequenceData<float> data(kCell, kRun), again = data;
  Sequence<float> sequence(data.program, 1);
  data.forward(sequence, true);
  Sequence<float> moved = std::move(sequence);
  data.backward(moved);
  again.forward(moved, true);
  again.backward(moved);
  EXPECT_EQ(data.parameter_gradients, again.parameter_gradients);
}

}  // namespace
}  // namespace nru::kernels
