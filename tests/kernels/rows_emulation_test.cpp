// The kernels of the NRU's design "rows" without a GPU: their code, thread by thread, on an
// emulated CTA (emulated_cluster.h), against the kernels of the CPU. Every warp is held back in
// turn, so that a role which relies on another's pace shows.
#include <gtest/gtest.h>

#ifdef NRU_HAS_CUDA

#include "emulated_cluster.h"
// After it:
#include "emulation.h"
#include "kernels/cuda/persistent_rows_backward.cuh"
#include "kernels/cuda/persistent_rows_forward.cuh"

namespace nru::kernels::cuda {
namespace {

constexpr int kNobody = emulated::Cluster::kNobody;

// The parts of a call that both designs have.
template <class Call>
Call call_of(const NruShape& shape, const ClusterSequence& of, const std::int64_t* lengths) {
  Call call(shape);
  call.steps = of.steps;
  call.batch = of.batch;
  call.ld_h = of.ld_h;
  call.ld_m = of.ld_m;
  call.ld_u = of.ld_heads;
  call.hh = {of.weights.h_from_h, of.weights.h_ld};
  call.hm = {of.weights.h_from_m, of.weights.h_ld};
  call.uh = {of.weights.heads_from_h, of.weights.heads_ld};
  call.um = {of.weights.heads_from_m, of.weights.heads_ld};
  call.lengths = lengths;
  return call;
}

template <class Row, class T, class Call>
void run_rows(const Call& call, int held_back) {
  struct Memory {
    typename Row::Shared vectors;
    float space[Row::kSpace + 1];
  };
  for (int row = 0; row < call.batch; ++row) {
    emulated::Cluster cta(row, sizeof(Memory), held_back, static_cast<unsigned>(row), 1,
                          T::kThreads);
    ASSERT_TRUE(cta.run([&] {
      auto& memory = cta.shared<Memory>();
      Row::run(call, memory.vectors, memory.space);
    })) << "the threads wait for each other";
  }
}

template <class T, bool kFast>
void expect_the_same(const NruShape& shape, const RunCase& run, int held_back = kNobody) {
  SCOPED_TRACE(testing::Message() << "h" << shape.hidden << " m" << shape.memory << " k"
                                  << shape.heads << ", held back: " << held_back);
  Emulation emulation(shape, run);
  emulation.expect_the_same(
      [&](const ClusterForward& f) {
        auto call = call_of<RowsForward>(shape, f.of, emulation.lengths());
        call.h = f.h;
        call.m = f.m;
        call.u = f.heads;
        call.events = f.events;
        call.largest_h = f.largest_h;
        call.largest_m = f.largest_m;
        run_rows<RowForward<T, kFast>, T>(call, held_back);
      },
      [&](const ClusterBackward& b) {
        auto call = call_of<RowsBackward>(shape, b.of, emulation.lengths());
        call.h = const_cast<float*>(b.h);
        call.u = const_cast<float*>(b.heads);
        call.bulk = b.d_output;
        call.final_h = b.final_h;
        call.final_m = b.final_m;
        call.d_a = b.d_pre;
        call.d_u = b.d_heads;
        call.gradient_h = b.d_h;
        call.gradient_m = b.d_m;
        call.state_limit = run.state_limit;
        if (run.state_limit > 0) {
          run_rows<RowBackward<T, kFast, true>, T>(call, held_back);
        } else {
          run_rows<RowBackward<T, kFast, false>, T>(call, held_back);
        }
      });
}

// The shared memory of a CTA: what find_rows_shape() goes by.
template <class T, bool kFast>
constexpr int kSharedBytes = std::max({sizeof(float) * RowForward<T, kFast>::kSpace +
                                           sizeof(typename RowForward<T, kFast>::Shared),
                                       sizeof(float) * RowBackward<T, kFast, false>::kSpace +
                                           sizeof(typename RowBackward<T, kFast, false>::Shared),
                                       sizeof(float) * RowBackward<T, kFast, true>::kSpace +
                                           sizeof(typename RowBackward<T, kFast, true>::Shared)});
static_assert(kSharedBytes<SmallRows, true> == kRowsShapes[0].shared_bytes);
static_assert(kSharedBytes<SmallRows, false> == kRowsShapes[0].shared_bytes);
static_assert(kSharedBytes<WideRows, true> == kRowsShapes[1].shared_bytes);
static_assert(kSharedBytes<WideRows, false> == kRowsShapes[1].shared_bytes);
static_assert(kSharedBytes<LargeRows, false> == kRowsShapes[2].shared_bytes);

NruShape shape_of(int hidden, int memory, int heads, bool relu = false) {
  NruShape shape{.input = 2, .hidden = hidden, .memory = memory, .heads = heads};
  shape.relu_heads = relu;
  return shape;
}

TEST(RowsEmulation, TheKernelsDoWhatTheCpuDoes) {
  const RunCase run{"", 2, 5, false, true};
  expect_the_same<SmallRows, true>(shape_of(80, 64, 4), run);
  expect_the_same<SmallRows, false>(shape_of(33, 36, 4, true), run);
  expect_the_same<WideRows, true>(shape_of(127, 64, 4), run);
  expect_the_same<LargeRows, false>(shape_of(101, 144, 4), run);
}

TEST(RowsEmulation, FinishedRowsKeepTheirStates) {
  expect_the_same<SmallRows, true>(shape_of(80, 64, 4), {"", 4, 5, true, true});
  expect_the_same<LargeRows, false>(shape_of(101, 144, 4, true), {"", 3, 4, true, true});
}

TEST(RowsEmulation, NobodyIsOvertaken) {
  for (int warp = 0; warp < SmallRows::kThreads / 32; ++warp) {
    expect_the_same<SmallRows, true>(shape_of(41, 64, 4), {"", 2, 4, true, true}, warp);
    expect_the_same<SmallRows, false>(shape_of(5, 16, 1), {"", 1, 3, false, true}, warp);
  }
}

// The smaller limit holds at every step, the larger one at some.
TEST(RowsEmulation, GradientsOfTheStateAreLimited) {
  for (double limit : {0.02, 0.3}) {
    expect_the_same<SmallRows, true>(shape_of(80, 64, 4), {"", 4, 5, true, true, limit});
    expect_the_same<SmallRows, false>(shape_of(33, 36, 4, true), {"", 4, 3, false, true, limit});
    expect_the_same<WideRows, true>(shape_of(127, 64, 4), {"", 3, 2, false, true, limit});
    expect_the_same<LargeRows, false>(shape_of(101, 144, 4), {"", 4, 3, true, true, limit});
  }
  for (int warp = 0; warp < SmallRows::kThreads / 32; ++warp)
    expect_the_same<SmallRows, true>(shape_of(41, 64, 4), {"", 4, 3, true, true, 0.02}, warp);
}

TEST(RowsEmulation, StrengthsAreCutOff) {
  const RunCase run{"", 3, 5, false, true};
  for (bool relu : {false, true}) {
    NruShape copy = shape_of(80, 64, 4, relu), large = shape_of(101, 144, 4, relu);
    copy.write_limit = large.write_limit = 0.1;
    relu ? expect_the_same<SmallRows, false>(copy, run)
         : expect_the_same<SmallRows, true>(copy, run);
    expect_the_same<LargeRows, false>(large, run);
  }
}

// As in a later part of a sequence: its states are all that there is to do.
TEST(RowsEmulation, ARowMayHaveEndedBefore) {
  const NruShape shape = shape_of(5, 16, 1);
  const std::vector<float> weights(1000);
  const std::int64_t length = 7;
  for (int warp = kNobody; warp < SmallRows::kThreads / 32; ++warp) {
    Rows h(4, shape.hidden), m(4, shape.memory), u(4, shape.head_outputs());
    for (int j = 0; j < shape.hidden; ++j) h.at(0, j) = static_cast<float>(j);
    for (int j = 0; j < shape.memory; ++j) m.at(0, j) = static_cast<float>(-j);
    RowsForward call(shape);
    call.steps = 3;
    call.batch = 1;
    call.ld_h = h.ld, call.ld_m = m.ld, call.ld_u = u.ld;
    call.hh = call.hm = call.uh = call.um = {weights.data(), 16};
    call.h = h.data(), call.m = m.data(), call.u = u.data();
    call.lengths = &length;
    call.begin = 9;
    run_rows<RowForward<SmallRows, false>, SmallRows>(call, warp);
    for (int t = 1; t <= call.steps; ++t) {
      for (int j = 0; j < shape.hidden; ++j) ASSERT_EQ(h.at(t, j), j) << "held back: " << warp;
      for (int j = 0; j < shape.memory; ++j) ASSERT_EQ(m.at(t, j), -j) << "held back: " << warp;
    }
  }
}

}  // namespace
}  // namespace nru::kernels::cuda

#else

TEST(RowsEmulation, IsBuilt) { GTEST_SKIP() << "built without CUDA"; }

#endif
