// The sequence kernels on a CUDA device: the one table of cases against float64 on the CPU, and
// what must not change a result. One test goes through the whole table, so that a machine without a
// GPU reports a few skipped tests, not hundreds.
#include <gtest/gtest.h>

#ifdef NRU_HAS_CUDA

#include <cmath>
#include <functional>

#include "bulk_program.h"
#include "cuda_compare.h"
#include "kernels/cuda/activation.h"
#include "kernels/cuda/device_cell.h"

namespace nru::kernels::cuda {
namespace {

// Each cell with each run.
void for_cases(const std::function<void(const CellCase&, const RunCase&)>& test) {
  for (const CellCase& cell : cell_cases()) {
    for (const RunCase& run : run_cases()) {
      SCOPED_TRACE(cell.name + " " + run.name);
      test(cell, run);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

// As few kernels as can be for every cell, for tools that make each of them slow
// (compute-sanitizer).
TEST(CudaSequence, ShortRunsOfEveryCellAreFinite) {
  NRU_NEEDS_CUDA_DEVICE();
  const Stream stream;
  for (const CellCase& cell : cell_cases()) {
    SCOPED_TRACE(cell.name);
    expect_finite(cell, RunCase{"", 2, 3, true, true}, {.stream = stream.handle()});
  }
}

// Short runs with small weights: where the recurrence amplifies no difference. The gradient of a
// direction of one number is pure rounding, and left out.
void for_stable_cases(const std::function<void(const CellCase&, const RunCase&)>& test) {
  for_cases([&](const CellCase& cell, const RunCase& run) {
    if (cell.nru() && cell.nru()->memory == 1) return;
    RunCase shortened = run;
    shortened.steps = std::min(run.steps, 12);
    test(cell, shortened);
  });
}

TEST(CudaSequence, TrainIsAsCloseToDoubleAsTheCpu) {
  NRU_NEEDS_CUDA_DEVICE();
  const Stream stream;
  for_stable_cases([&](const CellCase& cell, const RunCase& run) {
    expect_train_close_to_double(cell, run, {.stream = stream.handle()});
  });
}

TEST(CudaSequence, BackwardIsAsCloseToDoubleAsTheCpu) {
  NRU_NEEDS_CUDA_DEVICE();
  const Stream stream;
  for_stable_cases([&](const CellCase& cell, const RunCase& run) {
    expect_backward_close_to_double(cell, run, {.stream = stream.handle()});
  });
}

// The skeleton with a program that is no cell's: several phases off the path, a part that is no
// state but gets gradients in bulk and in the loop, and activations of both.
const DeviceCellEntry bulk_entry("test of phases off the path", [](const Program<float>& program) {
  using B = BulkProgram;
  DeviceCell cell;
  cell.phases = {activation_phase({B::kGate, B::G, /*tanh=*/true}), {}};
  if (program.phases.size() > 2) {
    cell.phases.push_back(activation_phase({B::kU, B::U, /*tanh=*/true}));
    cell.phases.push_back({});
  }
  return cell;
});

TEST(CudaSequence, PhasesOffThePathAreRight) {
  NRU_NEEDS_CUDA_DEVICE();
  const Stream stream;
  for (int output : {BulkProgram::kY, BulkProgram::kGate}) {
    for (const RunCase& run : run_cases()) {
      for (StepProducts products : {StepProducts::tiles, StepProducts::cublas}) {
        SCOPED_TRACE(run.name + ", output " + std::to_string(output));
        SequenceData<float> device(bulk_program<float>(output), run);
        const auto trained =
            host_runs(device, [](auto& data, auto& sequence) { data.train(sequence); });
        const auto backward = host_runs(device, forward_and_backward);
        SequenceData<double> exact(bulk_program<double>(output), run);
        Sequence sequence(device.program, {.stream = stream.handle(), .step_products = products});
        kernels::Sequence<double> exact_sequence(exact.program, 1);
        const double loss = train(device, sequence, stream.handle()).loss;
        EXPECT_NEAR(loss, exact.train(exact_sequence).loss, 1e-6 * loss);
        const Against check(device, trained, exact);
        check.outputs();
        check.gradients(true);
        forward_backward(device, sequence, stream.handle());
        exact.forward(exact_sequence, true);
        exact.backward(exact_sequence);
        Against(device, backward, exact).gradients(false);
      }
    }
  }
}

TEST(CudaSequence, EveryWayToFormTheProductsIsRight) {
  NRU_NEEDS_CUDA_DEVICE();
  const Stream stream;
  for_stable_cases([&](const CellCase& cell, const RunCase& run) {
    SequenceData<float> tiles(cell, run, 0.2), cublas(cell, run, 0.2);
    Sequence a(tiles.program, {.stream = stream.handle(), .step_products = StepProducts::tiles});
    Sequence b(cublas.program, {.stream = stream.handle(), .step_products = StepProducts::cublas});
    train(tiles, a, stream.handle());
    train(cublas, b, stream.handle());
    EXPECT_LT(relative_distance(tiles.output, cublas.output), 5e-6);
    for (std::size_t p = 0; p < tiles.parameters.size(); ++p) {
      EXPECT_LT(relative_distance(tiles.parameter_gradients[p], cublas.parameter_gradients[p]),
                1e-4 * cell.looseness)
          << tiles.program->parameters[p].name;
    }
  });
}

TEST(CudaSequence, TheSameRunTwiceAndAsAGraphHasTheSameBits) {
  NRU_NEEDS_CUDA_DEVICE();
  const Stream stream;
  for_cases([&](const CellCase& cell, const RunCase& run) {
    expect_repeats(cell, run, {.stream = stream.handle()});
  });
}

TEST(CudaSequence, KeepingActivationsChangesNothing) {
  NRU_NEEDS_CUDA_DEVICE();
  const Stream stream;
  for_cases([&](const CellCase& cell, const RunCase& run) {
    SequenceData<float> kept(cell, run), dropped = kept, trained = kept, evaluated = kept;
    Sequence sequence(kept.program, {.stream = stream.handle()});
    forward(kept, sequence, stream.handle(), true);
    forward(dropped, sequence, stream.handle(), false);
    const SequenceResult a = train(trained, sequence, stream.handle());
    const SequenceResult b = evaluate(evaluated, sequence, stream.handle());
    for (const SequenceData<float>* other : {&dropped, &trained, &evaluated}) {
      expect_same_bits(kept.output, other->output, "output");
      expect_same_bits(kept.states, other->states, "states");
      expect_same_bits(kept.final_state, other->final_state, "final state");
    }
    EXPECT_EQ(a.loss, b.loss);
    EXPECT_GT(a.loss, 0);
    EXPECT_EQ(a.events, b.events);
    EXPECT_EQ(a.max_abs, b.max_abs);
    EXPECT_EQ(trained.predictions, evaluated.predictions);
    float largest = 0;
    for (float y : trained.output) largest = std::max(largest, std::abs(y));
    EXPECT_EQ(a.max_output, largest);
  });
}

TEST(CudaSequence, SymbolsEqualOneHotInputs) {
  NRU_NEEDS_CUDA_DEVICE();
  const Stream stream;
  for_cases([&](const CellCase& cell, const RunCase& run) {
    SequenceData<float> dense(cell, run), symbols(cell, run);
    const int I = dense.input_width();
    const Philox random(5, kernels::Stream::train_batches);
    std::fill(dense.dense.begin(), dense.dense.end(), 0.f);
    for (std::size_t i = 0; i < dense.positions(); ++i) {
      symbols.symbols.push_back(static_cast<std::int32_t>(random.below(I, 0, i)));
      dense.dense[i * I + symbols.symbols.back()] = 1;
    }
    Sequence sequence(dense.program, {.stream = stream.handle()});
    EXPECT_EQ(train(dense, sequence, stream.handle()).loss,
              train(symbols, sequence, stream.handle()).loss);
    expect_same_results(dense, symbols);
  });
}

TEST(CudaSequence, WhatLiesBehindALengthIsNotRead) {
  NRU_NEEDS_CUDA_DEVICE();
  const Stream stream;
  for_cases([&](const CellCase& cell, const RunCase& run) {
    if (!run.lengths) return;
    for (bool with_symbols : {false, true}) {
      SequenceData<float> clean(cell, run);
      for (std::size_t i = 0; with_symbols && i < clean.positions(); ++i)
        clean.symbols.push_back(static_cast<std::int32_t>(i) % clean.input_width());
      SequenceData<float> spoilt = clean;
      spoil_what_lies_behind(spoilt);
      Sequence sequence(clean.program, {.stream = stream.handle()});
      EXPECT_EQ(train(clean, sequence, stream.handle()).loss,
                train(spoilt, sequence, stream.handle()).loss);
      expect_same_results(clean, spoilt);
      forward_backward(clean, sequence, stream.handle());
      forward_backward(spoilt, sequence, stream.handle());
      expect_same_bits(clean.parameter_gradients, spoilt.parameter_gradients, "parameters");
    }
  });
}

// An object that has seen larger batches, longer sequences and NaN computes what a new one does.
TEST(CudaSequence, EarlierCallsDoNotMatter) {
  NRU_NEEDS_CUDA_DEVICE();
  const Stream stream;
  for_cases([&](const CellCase& cell, const RunCase& run) {
    if (run.steps == 1) return;
    SequenceData<float> fresh(cell, run), used = fresh;
    Sequence sequence(fresh.program, {.stream = stream.handle()});
    const double loss = train(fresh, sequence, stream.handle()).loss;
    Sequence old(fresh.program, {.stream = stream.handle()});
    for (const RunCase& earlier : {RunCase{"", 50, run.batch, false, true},
                                   RunCase{"", run.steps, run.batch + 9, true, false}}) {
      SequenceData<float> other(cell, earlier);
      std::fill(other.dense.begin(), other.dense.end(), std::numeric_limits<float>::quiet_NaN());
      train(other, old, stream.handle());
    }
    EXPECT_EQ(train(used, old, stream.handle()).loss, loss);
    expect_same_results(fresh, used);
  });
}

}  // namespace
}  // namespace nru::kernels::cuda

#else

TEST(CudaSequence, IsBuilt) { GTEST_SKIP() << "built without CUDA"; }

#endif
