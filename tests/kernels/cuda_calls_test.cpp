// The contract of the CUDA kernels beside the table of cases: streams, what may be left out, the
// ends of float, and sizes beyond a CTA's default memory.
#include <gtest/gtest.h>

#ifdef NRU_HAS_CUDA

#include <cuda_runtime_api.h>

#include <chrono>
#include <cmath>
#include <future>
#include <limits>
#include <string>
#include <string_view>
#include <thread>

#include "cuda_data.h"
#include "kernels/cuda/embedding.h"

namespace nru::kernels::cuda {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
const CellCase kCell{"nru", NruShape{.input = 5, .hidden = 7, .memory = 16, .heads = 4}};
const RunCase kRun{"", 37, 11, true, true};

std::vector<float>& parameter(SequenceData<float>& data, std::string_view name) {
  for (std::size_t p = 0; p < data.parameters.size(); ++p) {
    if (data.program->parameters[p].name == name) return data.parameters[p];
  }
  throw std::out_of_range(std::string(name));
}

TEST(CudaCalls, RefuseWhatTheyCannotDo) {
  NRU_NEEDS_CUDA_DEVICE();
  SequenceData<float> data(kCell, kRun);
  Sequence sequence(data.program);
  SequenceInputs<float> inputs = data.inputs();
  inputs.steps = 0;
  EXPECT_THROW(sequence.forward(inputs, {}, false), std::invalid_argument);
  Program<float> unknown = *data.program;
  unknown.cell = "nobody";
  EXPECT_FALSE(supports(unknown));
  EXPECT_TRUE(supports(*data.program));
  try {
    Sequence refused(std::make_shared<const Program<float>>(unknown));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("nobody"), std::string::npos) << error.what();
  }
  // More units than a CTA's shared memory holds: the error names the kernel and the size.
  const CellCase wide{"wide", EurnnShape{.input = 1, .hidden = 60000, .complex = true}};
  SequenceData<float> large(wide, RunCase{"", 1, 1, false, false});
  const Stream stream;
  Sequence eurnn(large.program, {.stream = stream.handle()});
  try {
    forward(large, eurnn, stream.handle(), false);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("eurnn of 60000 units"), std::string::npos)
        << error.what();
  }
}

TEST(CudaCalls, OutputsAndGradientsMayBeLeftOut) {
  NRU_NEEDS_CUDA_DEVICE();
  const Stream stream;
  SequenceData<float> all(kCell, kRun), some = all;
  Sequence sequence(all.program, {.stream = stream.handle()});
  const double loss = train(all, sequence, stream.handle()).loss;
  {
    DeviceData device(some, stream.handle());
    SequenceGradients<float> g = device.gradients(false);
    std::vector<float*> one(some.parameters.size());
    one[0] = g.parameters[0];
    g.parameters = one.data();
    g.input = nullptr;
    g.initial = nullptr;
    sequence.train(device.inputs(), {}, device.readout(), g);
    device.download();
  }
  EXPECT_EQ(sequence.result().loss, loss);
  EXPECT_EQ(some.parameter_gradients[0], all.parameter_gradients[0]);
  EXPECT_TRUE(std::isnan(some.parameter_gradients[1][0]));  // untouched
  EXPECT_TRUE(std::isnan(some.input_gradient[0]));
}

TEST(CudaCalls, FirstStepEqualsWeightsOfZero) {
  NRU_NEEDS_CUDA_DEVICE();
  const Stream stream;
  const CellCase sru{"sru", SruShape{3, 5, 7, 2, {0, 0.5, 0.9}}};  // with a phase off the path
  for (const CellCase& cell : {kCell, sru}) {
    for (int first : {0, 1, 31, 36, 37}) {
      SCOPED_TRACE(testing::Message() << cell.name << " " << first);
      SequenceData<float> data(cell, kRun), weighted = data;
      data.first_step = first;
      weighted.first_step = 0;
      std::fill_n(weighted.weights.begin(), first * kRun.batch, 0.f);
      Sequence sequence(data.program, {.stream = stream.handle()});
      EXPECT_NEAR(train(data, sequence, stream.handle()).loss,
                  train(weighted, sequence, stream.handle()).loss, 1e-9);
      for (std::size_t p = 0; p < data.parameters.size(); ++p) {
        EXPECT_LT(relative_distance(data.parameter_gradients[p], weighted.parameter_gradients[p]),
                  1e-5)
            << data.program->parameters[p].name;
      }
      EXPECT_LT(relative_distance(data.readout_weight_gradient, weighted.readout_weight_gradient),
                1e-5);
      EXPECT_LT(relative_distance(data.input_gradient, weighted.input_gradient), 1e-5);
      for (int i = 0; i < first * kRun.batch; ++i) ASSERT_EQ(data.predictions[i], -1);
    }
  }
}

// Training takes kernels that can limit. A backward pass behind the forward pass of kernels that
// cannot is refused.
TEST(CudaCalls, GradientsOfTheStateAreLimitedAsOnTheCpu) {
  NRU_NEEDS_CUDA_DEVICE();
  const Stream stream;
  const RunCase run{"", 12, 7, false, true, 0.01};
  for (const CellCase& cell : cell_cases()) {
    if (cell.nru() && cell.nru()->memory == 1) continue;
    SCOPED_TRACE(cell.name);
    SequenceData<float> device(cell, run, 0.2), host = device;
    kernels::Sequence<float> host_sequence(host.program, 1);
    host.train(host_sequence);
    Sequence sequence(device.program, {.stream = stream.handle()});
    train(device, sequence, stream.handle());
    for (std::size_t p = 0; p < host.parameters.size(); ++p) {
      EXPECT_LT(relative_distance(device.parameter_gradients[p], host.parameter_gradients[p]),
                1e-4 * cell.looseness)
          << host.program->parameters[p].name;
    }
    if (path_of(*device.program, run.batch) == path_of(*device.program, run.batch, true)) {
      EXPECT_NO_THROW(forward_backward(device, sequence, stream.handle()));
    } else {
      EXPECT_THROW(forward_backward(device, sequence, stream.handle()), Error);
    }
  }
}

// More steps than a window holds: the state goes from window to window, and memory does not grow.
TEST(CudaCalls, WindowsJoin) {
  NRU_NEEDS_CUDA_DEVICE();
  const Stream stream;
  const CellCase janet{"janet", JanetShape{3, 20}};
  const RunCase run{"", 100, 300, true, true};
  SequenceData<float> kept(janet, run, 0.2), dropped = kept;
  Sequence a(kept.program, {.stream = stream.handle()}),
      b(kept.program, {.stream = stream.handle()});
  const SequenceResult whole = train(kept, a, stream.handle());
  const SequenceResult windows = evaluate(dropped, b, stream.handle());
  EXPECT_LT(b.stash_bytes(), a.stash_bytes() / 2);
  EXPECT_NEAR(whole.loss, windows.loss, 1e-7 * whole.loss);
  EXPECT_LT(relative_distance(kept.output, dropped.output), 1e-6);
  EXPECT_LT(relative_distance(kept.final_state[0], dropped.final_state[0]), 1e-6);
  EXPECT_NEAR(whole.max_output, windows.max_output, 1e-6);
}

// A run of long updates must not hold up those that still record theirs.
TEST(CudaCalls, WhoWaitsInLooksKeepsNobodyFromRecording) {
  NRU_NEEDS_CUDA_DEVICE();
  struct Work {
    std::promise<void> recorded;
    bool in_time = false;
  } work;
  std::promise<void> begun;
  const Stream busy, other;
  Buffer<float> values;
  values.require(4);
  ASSERT_EQ(cudaLaunchHostFunc(
                busy.handle(),
                [](void* p) {
                  auto& of = *static_cast<Work*>(p);
                  of.in_time = of.recorded.get_future().wait_for(std::chrono::seconds(20)) ==
                               std::future_status::ready;
                },
                &work),
            cudaSuccess);
  std::thread waiting([&] {
    begun.set_value();
    wait_in_looks(busy.handle());
  });
  begun.get_future().wait();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // it has begun to wait
  Graph graph(other.handle(),
              [&] { cudaMemsetAsync(values.data(), 0, values.bytes(), other.handle()); });
  work.recorded.set_value();
  waiting.join();
  EXPECT_TRUE(work.in_time);
  graph.launch();
  wait(other.handle());
}

TEST(CudaCalls, StreamsDoNotDisturbEachOther) {
  NRU_NEEDS_CUDA_DEVICE();
  const RunCase run{"", 60, 20, false, false};
  const Stream alone;
  SequenceData<float> want(kCell, run);
  Sequence first(want.program, {.stream = alone.handle()});
  train(want, first, alone.handle());
  constexpr int kStreams = 4;
  std::vector<Stream> streams(kStreams);
  std::vector<SequenceData<float>> data(kStreams, SequenceData<float>(kCell, run));
  std::vector<std::unique_ptr<DeviceData>> device;
  std::vector<Sequence> sequences;
  std::vector<Graph> graphs;
  for (int i = 0; i < kStreams; ++i) {
    device.push_back(std::make_unique<DeviceData>(data[i], streams[i].handle()));
    sequences.emplace_back(want.program, SequenceOptions{.stream = streams[i].handle()});
    graphs.emplace_back(streams[i].handle(), [&] {
      sequences[i].train(device[i]->inputs(), device[i]->outputs(), device[i]->readout(),
                         device[i]->gradients(false));
    });
  }
  for (int repeat = 0; repeat < 5; ++repeat) {
    for (Graph& graph : graphs) graph.launch();
  }
  for (int i = 0; i < kStreams; ++i) {
    device[i]->download();
    EXPECT_EQ(data[i].output, want.output);
    EXPECT_EQ(data[i].parameter_gradients, want.parameter_gradients);
  }
}

TEST(CudaCalls, EmbeddingsGatherAndAddUp) {
  NRU_NEEDS_CUDA_DEVICE();
  constexpr int kSteps = 50, kBatch = 33, kClasses = 7, kWidth = 5, kPositions = kSteps * kBatch;
  const Stream stream;
  const Philox random(3, kernels::Stream::train_batches);
  std::vector<std::int32_t> symbols;
  std::vector<std::int64_t> lengths;
  for (int b = 0; b < kBatch; ++b) lengths.push_back(1 + random.below(kSteps, 1, b));
  for (int i = 0; i < kPositions; ++i) {
    const bool inside = i / kBatch < lengths[i % kBatch];
    symbols.push_back(inside ? static_cast<std::int32_t>(random.below(kClasses, 0, i)) : -1000000);
  }
  auto table = random_values<float>(kClasses * kWidth, 1);
  auto gradient = random_values<float>(kPositions * kWidth, 2);
  std::vector<float> rows(kPositions * kWidth, kNan), d_table(kClasses * kWidth, kNan);
  std::vector<double> want(kClasses * kWidth);
  for (int i = 0; i < kPositions; ++i) {
    for (int j = 0; symbols[i] >= 0 && j < kWidth; ++j)
      want[symbols[i] * kWidth + j] += gradient[i * kWidth + j];
  }
  Mirror mirror(stream.handle());
  for (auto* v : {&table, &gradient, &rows, &d_table}) mirror.add(*v);
  mirror.add(symbols);
  mirror.add(lengths);
  mirror.upload();
  const Steps steps{0, kSteps, kBatch, mirror.device(lengths.data())};
  Embedding embedding(stream.handle());
  embedding.forward(steps, mirror.device(symbols.data()), mirror.device(table.data()), kWidth,
                    mirror.device(rows.data()));
  embedding.backward(steps, mirror.device(symbols.data()), kClasses, mirror.device(gradient.data()),
                     kWidth, mirror.device(d_table.data()));
  mirror.download();
  for (int i = 0; i < kPositions; ++i) {
    for (int j = 0; j < kWidth; ++j)
      ASSERT_EQ(rows[i * kWidth + j], symbols[i] < 0 ? 0 : table[symbols[i] * kWidth + j]);
  }
  EXPECT_LT(relative_distance(d_table, want), 1e-5);
}

// A forward and a backward pass of a cell on the device, against float64.
void expect_close_to_double(const CellCase& cell) {
  SCOPED_TRACE(cell.name);
  const Stream stream;
  const RunCase run{"", 3, 2, false, true};
  SequenceData<float> device(cell, run, 0.2);
  SequenceData<double> exact(cell, run, 0.2);
  Sequence sequence(device.program, {.stream = stream.handle()});
  kernels::Sequence<double> exact_sequence(exact.program, 2);
  forward_backward(device, sequence, stream.handle());
  exact.forward(exact_sequence, true);
  exact.backward(exact_sequence);
  EXPECT_LT(relative_distance(device.output, exact.output), 5e-6);
  for (std::size_t p = 0; p < exact.parameters.size(); ++p) {
    EXPECT_LT(relative_distance(device.parameter_gradients[p], exact.parameter_gradients[p]), 1e-3)
        << exact.program->parameters[p].name;
  }
}

// A butterfly of the size of char-PTB's, complex: beyond the shared memory a kernel gets unasked.
TEST(CudaCalls, LargeButterfliesAreRight) {
  NRU_NEEDS_CUDA_DEVICE();
  for (int n : {8192, 8191})
    expect_close_to_double(
        {std::to_string(n), EurnnShape{.input = 2, .hidden = n, .complex = true}});
}

// The directions of 9 heads, which straddle rows: 72 KB, beyond the shared memory a kernel gets
// unasked; and 253 KB, beyond what a CTA of any GPU has.
TEST(CudaCalls, LargeGeneralWritesAreRight) {
  NRU_NEEDS_CUDA_DEVICE();
  for (int memory : {1024, 3600})
    expect_close_to_double(
        {std::to_string(memory), NruShape{.input = 2, .hidden = 5, .memory = memory, .heads = 9}});
}

// ---- the ends of float ----

const RunCase kShort{"T5_B3_state", 5, 3, false, true};

TEST(CudaExtremes, NanInOneRowStaysThereAndShows) {
  NRU_NEEDS_CUDA_DEVICE();
  const Stream stream;
  for (const CellCase& cell : cell_cases()) {
    SCOPED_TRACE(cell.name);
    SequenceData<float> clean(cell, kShort);
    Sequence sequence(clean.program, {.stream = stream.handle()});
    forward_backward(clean, sequence, stream.handle());
    for (std::size_t part = 0; part < clean.initial.size(); ++part) {
      SequenceData<float> data(cell, kShort);
      const int width = static_cast<int>(data.initial[part].size()) / kShort.batch;
      data.initial[part][width + width / 2] = kNan;  // of row 1
      forward_backward(data, sequence, stream.handle());
      const int H = data.output_width();
      for (std::size_t i = 0; i < data.positions(); ++i) {
        if (i % kShort.batch == 1) continue;
        for (int j = 0; j < H; ++j) ASSERT_EQ(data.output[i * H + j], clean.output[i * H + j]);
      }
      const SequenceResult result = train(data, sequence, stream.handle());
      EXPECT_TRUE(std::isnan(result.loss));
      for (double largest : result.max_abs) EXPECT_TRUE(std::isnan(largest));
      EXPECT_TRUE(std::isnan(result.max_output));
    }
  }
}

// Directions of length zero, tiny, huge, infinite or NaN: the same heads are clamped or dropped as
// on the CPU, nothing finite becomes infinite, and the memory is the same.
TEST(CudaExtremes, DirectionsFareAsOnTheCpu) {
  NRU_NEEDS_CUDA_DEVICE();
  const Stream stream;
  for (const CellCase& listed : cell_cases()) {
    if (!listed.nru()) continue;
    for (bool general : {false, true}) {
      NruShape shape = *listed.nru();
      shape.general_write = general;
      const CellCase cell{listed.name, shape};
      const int k = shape.heads, D = shape.direction_size();
      for (float poison : {0.f, 1e-30f, 1e-9f, 1e9f, 1e25f, kInfinity, -kInfinity, kNan}) {
        for (bool all : {false, true}) {
          SCOPED_TRACE(testing::Message() << cell.name << (general ? " general " : " ") << poison
                                          << (all ? " all" : " one"));
          SequenceData<float> device(cell, kShort), host = device;
          for (SequenceData<float>* data : {&device, &host}) {
            auto &weight = parameter(*data, "head_weight"), &bias = parameter(*data, "head_bias");
            std::fill(weight.begin(), weight.end(), 0.f);
            for (int i = 0; i < (all ? 2 * D : 1); ++i) {
              float& value = bias[2 * k + i];
              value = std::isfinite(poison) ? value * poison : poison;
            }
          }
          Sequence sequence(device.program, {.stream = stream.handle()});
          kernels::Sequence<float> host_sequence(host.program, 1);
          const SequenceResult got = train(device, sequence, stream.handle());
          const SequenceResult want = host.train(host_sequence);
          EXPECT_EQ(got.events, want.events);
          EXPECT_NEAR(got.loss, want.loss, 1e-5 * want.loss);
          EXPECT_LT(relative_distance(device.states[1], host.states[1]), 1e-5);
          for (const auto& gradients : device.parameter_gradients) {
            for (float g : gradients) ASSERT_TRUE(std::isfinite(g));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace nru::kernels::cuda

#else

TEST(CudaCalls, AreBuilt) { GTEST_SKIP() << "built without CUDA"; }

#endif
