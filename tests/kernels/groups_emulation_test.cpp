// The NRU's kernels for groups of CTAs without a GPU, as cluster_emulation_test.cpp does it: small
// cells on small groups, with a few more blocks of weights than fit into registers.
#include <gtest/gtest.h>

#ifdef NRU_HAS_CUDA

#include "emulated_group.h"
// After it:
#include "emulation.h"
#include "kernels/cuda/groups_backward.cuh"
#include "kernels/cuda/groups_forward.cuh"

namespace nru::kernels::cuda {
namespace {

constexpr int kNobody = emulated::Cluster::kNobody;

// `body` runs a CTA in its shared memory.
template <class Call>
void run_groups(Call call, std::size_t shared_bytes, int held_back,
                const std::function<void(const Call&, float*)>& body) {
  std::vector<unsigned> flags(groups_of(call.of.batch) * kGroupFlags);
  call.flags = flags.data();
  for (int i = 0; i < groups_of(call.of.batch); ++i) {
    emulated::Cluster group(i, shared_bytes, held_back, static_cast<unsigned>(i), call.ctas);
    ASSERT_TRUE(group.run([&] { body(call, &group.shared<float>()); }))
        << "the threads wait for each other";
  }
}

template <class T>
void expect_the_same(int hidden, int memory, int heads, int ctas, const RunCase& run,
                     int held_back) {
  SCOPED_TRACE(testing::Message() << "h" << hidden << " m" << memory << " k" << heads << " "
                                  << (T::kRelu ? "relu" : "linear") << ", " << ctas
                                  << " CTAs, held back: " << held_back);
  NruShape shape{.input = 2, .hidden = hidden, .memory = memory, .heads = heads};
  shape.relu_heads = T::kRelu;
  const GroupWidths widths{hidden, memory, shape.head_outputs(), ctas};
  ASSERT_LE(widths.h(0).each, 8 * T::NH);
  ASSERT_LE(widths.m(0).each, 8 * T::NM);
  ASSERT_LE(widths.u(0).each, 8 * T::NU);
  Emulation(shape, run)
      .expect_the_same(
          [&](const ClusterForward& f) {
            run_groups<GroupsForward>({f, nullptr, ctas}, GroupsForwardShared<T>::bytes(widths),
                                      held_back, groups_forward_cta<T>);
          },
          [&](const ClusterBackward& b) {
            run_groups<GroupsBackward>({b, nullptr, ctas}, GroupsBackwardShared<T>::bytes(widths),
                                       held_back, groups_backward_cta<T>);
          });
}

template <bool kRelu>
using Small = GroupTile<2, 2, 2, 16, 2, 1, 1, kRelu>;

TEST(GroupsEmulation, TheKernelsDoWhatTheCpuDoes) {
  const RunCase run{"", 3, 4, false, true};
  expect_the_same<Small<false>>(61, 36, 4, 4, run, kNobody);
  expect_the_same<Small<true>>(64, 36, 4, 4, run, kNobody);
  expect_the_same<Small<true>>(33, 16, 4, 5, run, kNobody);  // some CTAs have no share of something
}

// Each warp has blocks in registers and in shared memory.
TEST(GroupsEmulation, DeepProductsAreComplete) {
  const RunCase run{"", 2, 3, false, true};
  expect_the_same<GroupTile<4, 2, 2, 16, 2, 1, 2, true>>(300, 144, 4, 10, run, kNobody);
}

TEST(GroupsEmulation, NobodyIsOvertaken) {
  const RunCase run{"", 4, 3, false, true};
  for (int cta = 0; cta < 4; ++cta) {
    expect_the_same<Small<false>>(41, 36, 4, 4, run, emulated::Cluster::whole_cta(cta));
    expect_the_same<Small<true>>(41, 36, 4, 4, run, 9 * cta);
  }
}

}  // namespace
}  // namespace nru::kernels::cuda

#else

TEST(GroupsEmulation, IsBuilt) { GTEST_SKIP() << "built without CUDA"; }

#endif
