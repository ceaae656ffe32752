// NumPy's numbers: what numpy.random.RandomState(seed).permutation(n) gives.
#include "tasks/numpy_random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace nru::tasks {
namespace {

using testing::ElementsAre;

TEST(NumpyRandomState, PermutationOfTen) {
  EXPECT_THAT(NumpyRandomState(42).permutation(10), ElementsAre(8, 1, 5, 0, 7, 2, 9, 4, 3, 6));
}

// The two draws behind the published psMNIST: images, then pixels, from one stream.
TEST(NumpyRandomState, SeedFifty) {
  NumpyRandomState random(50);
  const auto images = random.permutation(60'000);
  EXPECT_THAT(std::vector(images.begin(), images.begin() + 5),
              ElementsAre(6820, 11854, 9635, 45077, 18764));
  EXPECT_EQ(images.back(), 14000);
  const auto pixels = random.permutation(784);
  EXPECT_THAT(std::vector(pixels.begin(), pixels.begin() + 10),
              ElementsAre(46, 466, 537, 44, 515, 589, 362, 765, 270, 539));
  EXPECT_EQ(pixels.back(), 74);
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < pixels.size(); ++i) sum += static_cast<std::int64_t>(i) * pixels[i];
  EXPECT_EQ(sum, 121'624'397);
}

TEST(NumpyRandomState, SmallAndEmptyPermutations) {
  EXPECT_TRUE(NumpyRandomState(1).permutation(0).empty());
  EXPECT_THAT(NumpyRandomState(1).permutation(1), ElementsAre(0));
}

}  // namespace
}  // namespace nru::tasks
