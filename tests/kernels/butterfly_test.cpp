// The butterfly's wiring against its definition, coordinate by coordinate.
#include "kernels/butterfly.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace nru::kernels {
namespace {

using Pairs = std::vector<std::pair<int, int>>;

Pairs pairs_of(const ButterflyLayer& layer) {
  Pairs pairs;
  for (int p = 0; p < layer.pairs; ++p)
    pairs.push_back({layer.lower(p), layer.lower(p) + layer.stride});
  return pairs;
}

TEST(Butterfly, PairsAreThoseOfTheDefinition) {
  for (int n = 1; n <= 130; ++n) {
    SCOPED_TRACE(n);
    int count = 0;
    while ((1 << count) < n) ++count;  // L = ceil(log2 n)
    const Butterfly butterfly(n);
    EXPECT_EQ(butterfly.size(), n);
    ASSERT_EQ(butterfly.layers().size(), static_cast<std::size_t>(count));
    int angles = 0;
    for (int l = 0; l < count; ++l) {
      const ButterflyLayer& layer = butterfly.layers()[l];
      const int d = 1 << (count - 1 - l);
      Pairs expected;
      for (int a = 0; a + d < n; ++a)
        if ((a & d) == 0) expected.push_back({a, a + d});
      EXPECT_EQ(layer.stride, d);
      EXPECT_EQ(layer.first, angles);
      EXPECT_EQ(pairs_of(layer), expected);
      angles += layer.pairs;
    }
    EXPECT_EQ(butterfly.angles(), angles);
  }
}

TEST(Butterfly, KnownSizes) {
  EXPECT_EQ(Butterfly(2).angles(), 1);
  EXPECT_EQ(Butterfly(6).angles(), 7);
  EXPECT_EQ(Butterfly(1024).angles(), 5120);
  EXPECT_EQ(Butterfly(8192).angles(), 53248);
  EXPECT_EQ(pairs_of(Butterfly(6).layers()[0]), (Pairs{{0, 4}, {1, 5}}));
  EXPECT_EQ(pairs_of(Butterfly(6).layers()[1]), (Pairs{{0, 2}, {1, 3}}));
  EXPECT_EQ(pairs_of(Butterfly(6).layers()[2]), (Pairs{{0, 1}, {2, 3}, {4, 5}}));
}

}  // namespace
}  // namespace nru::kernels
