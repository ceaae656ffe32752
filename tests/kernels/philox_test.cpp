// The generator against Random123's published vectors, and the laws of the draws cut from it.
#include "kernels/philox.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

namespace nru::kernels {
namespace {

void expect_words(const Words4& got, const Words4& want) {
  for (int i = 0; i < 4; ++i) EXPECT_EQ(got.v[i], want.v[i]) << "word " << i;
}

// Known answers of Random123's kat_vectors for philox4x32, 10 rounds.
TEST(Philox, MatchesPublishedVectors) {
  expect_words(philox4x32_10(Words4{{0, 0, 0, 0}}, 0, 0),
               Words4{{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}});
  expect_words(philox4x32_10(Words4{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}}, 0xffffffff,
                             0xffffffff),
               Words4{{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}});
  expect_words(philox4x32_10(Words4{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822,
                             0x299f31d0),
               Words4{{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}});
}

TEST(Philox, IsUsableAtCompileTime) {
  constexpr Philox random(1, Stream::train_batches);
  constexpr std::uint32_t symbol = random.below(8, 3, 5);
  static_assert(symbol < 8);
  EXPECT_EQ(symbol, Philox(1, Stream::train_batches).below(8, 3, 5));
}

// A change of any of these numbers would silently change what every seed means.
TEST(Philox, KeyDerivationStaysWhatItIs) {
  const Words4 key = philox4x32_10(Words4{{3, 0, 0, 0}}, 0x89abcdef, 0x01234567);
  const Philox random(0x0123456789abcdefULL, Stream::initial_weights);
  EXPECT_EQ(random.key0, key.v[0]);
  EXPECT_EQ(random.key1, key.v[1]);
  expect_words(
      random.block(0x1111222233334444ULL, 0x5555666677778888ULL),
      philox4x32_10(Words4{{0x77778888, 0x55556666, 0x33334444, 0x11112222}}, key.v[0], key.v[1]));
}

TEST(Philox, EveryCoordinateMatters) {
  std::set<std::uint32_t> firsts;
  const std::uint64_t far = std::uint64_t{1} << 40;
  int count = 0;
  for (std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{1}, far}) {
    for (std::uint32_t stream : {0u, 1u, 2u}) {
      for (std::uint64_t index : {std::uint64_t{0}, std::uint64_t{1}, far}) {
        for (std::uint64_t element : {std::uint64_t{0}, std::uint64_t{1}, far}) {
          firsts.insert(Philox(seed, stream).block(index, element).v[0]);
          ++count;
        }
      }
    }
  }
  EXPECT_EQ(static_cast<int>(firsts.size()), count);
}

TEST(Philox, UniformsStayInTheirRange) {
  EXPECT_EQ(to_unit_float(0), 0.0f);
  EXPECT_LT(to_unit_float(0xffffffff), 1.0f);
  EXPECT_EQ(to_unit_double(0, 0), 0.0);
  EXPECT_LT(to_unit_double(0xffffffff, 0xffffffff), 1.0);
  EXPECT_EQ(to_unit_double(0x80000000, 0), 0.5);
  EXPECT_EQ(to_below(0, 7), 0u);
  EXPECT_EQ(to_below(0xffffffff, 7), 6u);
  EXPECT_EQ(to_below(0xffffffff, 0xffffffff), 0xfffffffeu);
}

TEST(Philox, ElementsWalkThroughTheBlocks) {
  const Philox random(5, Stream::test_batches);
  for (std::uint64_t e = 0; e < 12; ++e) {
    EXPECT_EQ(random.word(9, e), random.block(9, e / 4).v[e % 4]);
    EXPECT_EQ(random.uniform_float(9, e), to_unit_float(random.word(9, e)));
  }
  const Words4 second = random.block(9, 1);
  EXPECT_EQ(random.uniform_double(9, 2), to_unit_double(second.v[0], second.v[1]));
  EXPECT_EQ(random.uniform_double(9, 3), to_unit_double(second.v[2], second.v[3]));
  EXPECT_EQ(random.normal(9, 2), random.normal_pair(9, 1).first);
  EXPECT_EQ(random.normal(9, 3), random.normal_pair(9, 1).second);
}

// 64 cells of 1,000 expected draws; chi-square with 63 degrees of freedom stays below 113 in 99.99
// % of the cases.
TEST(Philox, BelowIsUniform) {
  const Philox random(17, Stream::epoch_order);
  std::vector<int> counts(64, 0);
  for (std::uint64_t e = 0; e < 64000; ++e) ++counts[random.below(64, 2, e)];
  double chi_square = 0;
  for (int c : counts) chi_square += (c - 1000.0) * (c - 1000.0) / 1000.0;
  EXPECT_LT(chi_square, 113);
  EXPECT_GT(chi_square, 25);  // too even is not random either
}

TEST(Philox, NormalsHaveTheMomentsOfANormal) {
  const Philox random(3, Stream::initial_weights);
  const int n = 200000;
  double sum = 0, square = 0, cube = 0, fourth = 0, cross = 0;
  for (int p = 0; p < n / 2; ++p) {
    const NormalPair pair = random.normal_pair(0, static_cast<std::uint64_t>(p));
    cross += pair.first * pair.second;
    for (double x : {pair.first, pair.second}) {
      ASSERT_TRUE(std::isfinite(x));
      sum += x;
      square += x * x;
      cube += x * x * x;
      fourth += x * x * x * x;
    }
  }
  EXPECT_NEAR(sum / n, 0, 4 / std::sqrt(n));
  EXPECT_NEAR(square / n, 1, 4 * std::sqrt(2.0 / n));
  EXPECT_NEAR(cube / n, 0, 4 * std::sqrt(15.0 / n));
  EXPECT_NEAR(fourth / n, 3, 4 * std::sqrt(96.0 / n));
  EXPECT_NEAR(cross / (n / 2.0), 0, 4 / std::sqrt(n / 2.0));
}

}  // namespace
}  // namespace nru::kernels
