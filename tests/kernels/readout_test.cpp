// Softmax cross-entropy against a plain float64 version.
#include "kernels/cpu/readout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/cpu/buffer.h"
#include "random_values.h"

namespace nru::kernels {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Rows of logits with what belongs to each.
template <class T>
struct Batch {
  int rows, classes, ld;
  std::vector<T> logits, weights;
  std::vector<std::int32_t> targets, predictions;

  Batch(int r, int c)
      : rows(r), classes(c), ld(padded_width<T>(c)), logits(r * ld + 16), predictions(r, -1) {
    const auto values = random_values<T>(r * c, 1, 3), w = random_values<T>(r, 2);
    const Philox random(3, Stream::initial_weights);
    for (int i = 0; i < r; ++i) {
      for (int j = 0; j < c; ++j) logits[i * ld + j] = values[i * c + j];
      weights.push_back(std::abs(w[i]));
      targets.push_back(static_cast<std::int32_t>(random.below(c, 0, i)));
    }
  }
  double run(T scale) {
    return softmax_cross_entropy<T>(logits.data(), ld, classes, rows, targets.data(),
                                    weights.data(), scale, predictions.data());
  }
};

template <class T>
class ReadoutKernel : public testing::Test {
 protected:
  static constexpr double kEps = std::numeric_limits<T>::epsilon();
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(ReadoutKernel, Types);

// Loss of one row; overwrites its logits by the gradient.
double naive_row(std::vector<double>& z, int target, double weight, double scale) {
  double top = -kInfinity, sum = 0;
  for (double v : z) top = std::max(top, v);
  for (double v : z) sum += std::exp(v - top);
  const double loss = weight * (std::log(sum) + top - z[target]);
  for (double& v : z) v = weight * scale * std::exp(v - top) / sum;
  z[target] -= weight * scale;
  return loss;
}

template <class T>
void expect_naive(Batch<T> batch, T scale, double tolerance) {
  const Batch<T> before = batch;
  const double got = batch.run(scale);
  double want = 0, size = 0;
  for (int r = 0; r < batch.rows; ++r) {
    const auto row = before.logits.begin() + r * batch.ld;
    std::vector<double> z(row, row + batch.classes);
    int best = 0;
    for (int j = 1; j < batch.classes; ++j) best = z[j] > z[best] ? j : best;
    EXPECT_EQ(batch.predictions[r], best) << "row " << r;
    const double largest = *std::max_element(z.begin(), z.end());
    size += batch.weights[r] * (1 + std::abs(largest));
    want += naive_row(z, batch.targets[r], batch.weights[r], scale);
    for (int j = 0; j < batch.classes; ++j) {
      ASSERT_NEAR(batch.logits[r * batch.ld + j], z[j], tolerance * batch.weights[r] * scale)
          << "row " << r << ", class " << j;
    }
  }
  EXPECT_NEAR(got, want, tolerance * size);
}

TYPED_TEST(ReadoutKernel, MatchesAPlainSoftmax) {
  for (int classes : {1, 2, 3, 7, 9, 10, 16, 17, 50, 143}) {
    SCOPED_TRACE(classes);
    expect_naive<TypeParam>(Batch<TypeParam>(13, classes), TypeParam(0.25), 40 * this->kEps);
  }
}

TYPED_TEST(ReadoutKernel, PredictionsAreOptional) {
  Batch<TypeParam> with(5, 9), without(5, 9);
  const double loss = with.run(1);
  EXPECT_EQ(loss, softmax_cross_entropy<TypeParam>(without.logits.data(), without.ld, 9, 5,
                                                   without.targets.data(), without.weights.data(),
                                                   1, nullptr));
  EXPECT_EQ(with.logits, without.logits);
}

TYPED_TEST(ReadoutKernel, FirstOfEqualClassesIsPredicted) {
  Batch<TypeParam> batch(1, 20);
  for (int j = 0; j < 20; ++j) batch.logits[j] = j == 7 || j == 13 ? 2 : 1;
  batch.run(1);
  EXPECT_EQ(batch.predictions[0], 7);
}

TYPED_TEST(ReadoutKernel, HugeLogitsStayFinite) {
  using T = TypeParam;
  for (double huge : {1e4, 1e30, double(std::numeric_limits<T>::max())}) {
    Batch<T> batch(3, 10);
    batch.weights = {1, 1, 1};
    batch.targets = {4, 5, 0};
    batch.logits[4] = T(huge);                                               // right and sure
    batch.logits[batch.ld + 4] = T(huge);                                    // wrong and sure
    for (int j = 0; j < 10; ++j) batch.logits[2 * batch.ld + j] = T(-huge);  // all the same
    const double distance = double(T(huge)) - double(batch.logits[batch.ld + 5]);
    const double loss = batch.run(1);
    EXPECT_NEAR(loss, distance + std::log(10), 1e-6 * loss);
    for (int j = 0; j < 10; ++j) {
      EXPECT_EQ(batch.logits[j], T(0)) << j;
      EXPECT_EQ(batch.logits[batch.ld + j], T(j == 4 ? 1 : j == 5 ? -1 : 0)) << j;
      EXPECT_NEAR(batch.logits[2 * batch.ld + j], j == 0 ? -0.9 : 0.1, 1e-6) << j;
    }
    EXPECT_EQ(batch.predictions[0], 4);
    EXPECT_EQ(batch.predictions[1], 4);
  }
}

// Such rows are padding: neither their logits nor their targets mean anything.
TYPED_TEST(ReadoutKernel, RowsWithoutWeightCountNothing) {
  using T = TypeParam;
  Batch<T> batch(4, 10), other(4, 10);
  batch.weights[1] = batch.weights[2] = other.weights[1] = other.weights[2] = 0;
  other.targets[1] = -1;
  for (int j = 0; j < 10; ++j) other.logits[other.ld + j] = T(kInfinity);
  other.logits[2 * other.ld + 3] = std::numeric_limits<T>::quiet_NaN();
  EXPECT_EQ(batch.run(1), other.run(1));
  for (int r = 0; r < 4; ++r) {
    for (int j = 0; j < 10; ++j) {
      const T value = other.logits[r * other.ld + j];
      EXPECT_EQ(value, batch.logits[r * batch.ld + j]);
      EXPECT_EQ(value == T(0), r == 1 || r == 2);
    }
  }
}

TYPED_TEST(ReadoutKernel, NanReachesLossAndGradient) {
  using T = TypeParam;
  for (int at : {0, 4, 9}) {
    Batch<T> batch(1, 10);
    batch.logits[at] = std::numeric_limits<T>::quiet_NaN();
    EXPECT_TRUE(std::isnan(batch.run(1))) << at;
    EXPECT_TRUE(std::isnan(batch.logits[at])) << at;
  }
}

TEST(ReadoutDerivative, GradientIsTheDerivativeOfTheLoss) {
  const double step = 1e-6;
  for (int j = 0; j < 7; ++j) {
    Batch<double> batch(3, 7), up = batch, down = batch;
    up.logits[up.ld + j] += step;
    down.logits[down.ld + j] -= step;
    batch.run(1);
    EXPECT_NEAR((up.run(1) - down.run(1)) / (2 * step), batch.logits[batch.ld + j], 1e-8) << j;
  }
}

}  // namespace
}  // namespace nru::kernels
