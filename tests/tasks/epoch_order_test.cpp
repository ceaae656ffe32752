// The order of an epoch: a permutation, another one each epoch and seed, without preferred places.
#include "tasks/epoch_order.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

namespace nru::tasks {
namespace {

std::vector<std::uint32_t> order(std::uint64_t seed, std::uint64_t epoch, std::uint32_t n) {
  const EpochOrder order(seed, n);
  std::vector<std::uint32_t> items;
  for (std::uint32_t place = 0; place < n; ++place) items.push_back(order.at(epoch, place));
  return items;
}

TEST(EpochOrder, VisitsEveryItemOnce) {
  for (const std::uint32_t n : {1u, 2u, 3u, 4u, 5u, 16u, 17u, 1000u, 50'000u, 65'536u, 65'537u}) {
    for (const std::uint64_t epoch : {0, 1, 99}) {
      std::vector<int> seen(n, 0);
      for (const std::uint32_t item : order(1, epoch, n)) {
        ASSERT_LT(item, n);
        ++seen[item];
      }
      EXPECT_EQ(std::accumulate(seen.begin(), seen.end(), 0), static_cast<int>(n));
      for (const int count : seen) ASSERT_EQ(count, 1) << "n " << n << " epoch " << epoch;
    }
  }
}

TEST(EpochOrder, SeedAndEpochMatter) {
  const auto first = order(1, 0, 1000);
  EXPECT_EQ(order(1, 0, 1000), first);
  for (const auto& other : {order(1, 1, 1000), order(2, 0, 1000)}) {
    int equal = 0;
    for (std::size_t i = 0; i < first.size(); ++i) equal += first[i] == other[i];
    EXPECT_LT(equal, 10);  // one is expected of two random orders
  }
}

// Where each of 50 items ends up over 20,000 epochs: chi-square with 49*49 degrees of freedom is
// 2401 +- 69; five standard deviations either way.
TEST(EpochOrder, EveryItemIsEverywhereAlike) {
  constexpr std::uint32_t n = 50;
  constexpr int epochs = 20'000;
  std::vector<int> counts(n * n, 0);
  const EpochOrder order(3, n);
  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (std::uint32_t place = 0; place < n; ++place) ++counts[place * n + order.at(epoch, place)];
  }
  double chi_square = 0;
  for (const int count : counts) {
    const double off = count - double{epochs} / n;
    chi_square += off * off * n / epochs;
  }
  EXPECT_LT(chi_square, 2401 + 350);
  EXPECT_GT(chi_square, 2401 - 350);
}

// Neighbours do not stay neighbours: the correlation of successive items is that of noise.
TEST(EpochOrder, SuccessiveItemsAreUnrelated) {
  constexpr std::uint32_t n = 50'000;
  const auto items = order(1, 0, n);
  double sum = 0;
  for (std::uint32_t i = 0; i + 1 < n; ++i) {
    sum += (items[i] - (n - 1) / 2.0) * (items[i + 1] - (n - 1) / 2.0);
  }
  const double correlation = sum / n / (double{n} * n / 12);
  EXPECT_LT(std::abs(correlation), 5 / std::sqrt(double{n}));
}

}  // namespace
}  // namespace nru::tasks
