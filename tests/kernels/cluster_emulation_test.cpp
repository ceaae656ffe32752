// The cluster kernels of the NRU without a GPU: their code, thread by thread, on an emulated
// cluster (emulated_cluster.h), against the kernels of the CPU. Warps and CTAs are held back in
// turn, so that a step which relies on another's pace shows.
#include <gtest/gtest.h>

#ifdef NRU_HAS_CUDA

#include "emulated_cluster.h"
// After it:
#include "emulation.h"
#include "kernels/cuda/cluster_backward.cuh"
#include "kernels/cuda/cluster_forward.cuh"

namespace nru::kernels::cuda {
namespace {

constexpr int kNobody = emulated::Cluster::kNobody;

template <class Cta, class Shared, class Call>
void run_clusters(const Call& call, int held_back) {
  for (int i = 0; i < (call.of.batch + kClusterRows - 1) / kClusterRows; ++i) {
    emulated::Cluster cluster(i, sizeof(Shared), held_back, static_cast<unsigned>(i));
    ASSERT_TRUE(cluster.run([&] { Cta(call, cluster.shared<Shared>()).run(); }))
        << "the threads wait for each other";
  }
}

template <class T>
void expect_the_same(int hidden, int memory, int heads, const RunCase& run, int held_back) {
  SCOPED_TRACE(testing::Message() << "h" << hidden << " m" << memory << " k" << heads << " "
                                  << (T::kRelu ? "relu" : "linear")
                                  << ", held back: " << held_back);
  NruShape shape{.input = 2, .hidden = hidden, .memory = memory, .heads = heads};
  shape.relu_heads = T::kRelu;
  Emulation(shape, run)
      .expect_the_same(
          [&](const ClusterForward& f) {
            run_clusters<ForwardCta<T>, ForwardShared<T>>(f, held_back);
          },
          [&](const ClusterBackward& b) {
            run_clusters<BackwardCta<T>, BackwardShared<T>>(b, held_back);
          });
}

TEST(ClusterEmulation, TheKernelsDoWhatTheCpuDoes) {
  const RunCase run{"", 2, 3, false, true};
  expect_the_same<Tile<7, 8, 5, 8, 1, false, false>>(212, 256, 4, run, kNobody);
  expect_the_same<Tile<7, 8, 9, 4, 2, true, true>>(133, 81, 9, run, kNobody);
  expect_the_same<Tile<7, 13, 6, 16, 2, true, false>>(201, 400, 4, run, kNobody);
  expect_the_same<Tile<10, 8, 5, 8, 1, true, true>>(300, 147, 3, run, kNobody);
}

// Small sizes in a larger tile: some warps make nothing.
TEST(ClusterEmulation, NobodyIsOvertaken) {
  const RunCase run{"", 3, 4, false, true};
  for (int cta = 0; cta < emulated::kCtas; ++cta) {
    const int warp = 9 * cta;
    expect_the_same<Tile<2, 4, 4, 8, 1, false, false>>(41, 100, 4, run,
                                                       emulated::Cluster::whole_cta(cta));
    expect_the_same<Tile<2, 4, 4, 8, 1, false, true>>(5, 16, 4, run, warp);
  }
}

TEST(ClusterEmulation, ThreadsThatWaitForEverAreFound) {
  emulated::Cluster cluster(0, 16, kNobody, 1);
  EXPECT_FALSE(cluster.run([&] {
    if (cluster_rank() != 1) cluster_barrier();
  }));
}

}  // namespace
}  // namespace nru::kernels::cuda

#else

TEST(ClusterEmulation, IsBuilt) { GTEST_SKIP() << "built without CUDA"; }

#endif
