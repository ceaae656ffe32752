// The packed products against plain loops in float64, at sizes around those of a tile.
#include "kernels/cpu/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "kernels/cpu/buffer.h"
#include "random_values.h"

namespace nru::kernels {
namespace {

constexpr double kSentinel = 12345;  // in all memory that must not be written

int rounded_up(int n, int unit) { return (n + unit - 1) / unit * unit; }

// A row-major matrix with room behind its rows.
template <class T>
struct Matrix {
  int rows, columns, ld;
  std::vector<T> values;
  Matrix(int r, int c, int l, T fill = 0) : rows(r), columns(c), ld(l), values(r * l, fill) {}
  T* row(int r) { return values.data() + static_cast<std::ptrdiff_t>(r) * ld; }
  T& at(int r, int c) { return values[static_cast<std::ptrdiff_t>(r) * ld + c]; }
  T at(int r, int c) const { return values[static_cast<std::ptrdiff_t>(r) * ld + c]; }
};

// Random inside, `fill` behind each row.
template <class T>
Matrix<T> random_matrix(int rows, int columns, int ld, std::uint64_t seed, T fill = 0) {
  Matrix<T> m(rows, columns, ld, fill);
  const auto values = random_values<T>(static_cast<std::size_t>(rows) * columns, seed);
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < columns; ++c) m.at(r, c) = values[r * columns + c];
  }
  return m;
}

template <class T>
class Gemm : public testing::Test {
 protected:
  const LinearOps<T>& ops = linear_ops<T>();
  // Relative error of a sum of `depth` products.
  double tolerance(int depth) const {
    return (depth + 2) * double(std::numeric_limits<T>::epsilon());
  }
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(Gemm, Types);

enum class Start { zero, bias, accumulate };

template <class T>
struct Product {
  int rows, columns;
  std::vector<int> depths;  // of the segments
  Start start;
  bool transposed = false;  // the weights lie as [columns, depth]
};

template <class T>
void check_multiply(const LinearOps<T>& ops, const Product<T>& p, double tolerance) {
  SCOPED_TRACE(testing::Message() << p.rows << " x " << p.columns << ", " << p.depths.size()
                                  << " segments from " << p.depths[0] << ", start " << int(p.start)
                                  << ", transposed " << p.transposed);
  int depth = 0;
  for (int d : p.depths) depth += d;
  const int written = rounded_up(p.columns, ops.lanes), ld = written + 3;
  auto weights = p.transposed ? random_matrix<T>(p.columns, depth, depth, 1)
                              : random_matrix<T>(depth, p.columns, p.columns, 1);
  const auto weight = [&](int k, int n) {
    return double(p.transposed ? weights.at(n, k) : weights.at(k, n));
  };
  std::vector<T> packed(ops.packed_size(depth, p.columns) + 1, T(kSentinel));
  std::vector<Matrix<T>> left;
  std::vector<Operand<T>> segments;
  int offset = 0;
  for (std::size_t s = 0; s < p.depths.size(); ++s) {
    left.push_back(
        random_matrix<T>(p.rows, p.depths[s], p.depths[s] + int(s), 2 + s, T(kSentinel)));
    const T* source = weights.values.data() + (p.transposed ? offset : offset * p.columns);
    ops.pack(source, p.depths[s], p.columns, p.transposed ? 1 : p.columns, p.transposed ? depth : 1,
             packed.data(), offset, depth);
    offset += p.depths[s];
  }
  for (auto& l : left) segments.push_back({l.values.data(), l.ld, l.columns});
  EXPECT_EQ(packed.back(), T(kSentinel));
  auto bias = random_values<T>(p.columns, 20);
  bias.resize(written);
  Matrix<T> out = p.start == Start::accumulate ? random_matrix<T>(p.rows, p.columns, ld, 21)
                                               : Matrix<T>(p.rows, p.columns, ld, T(kSentinel));
  for (int r = 0; r < p.rows; ++r) {
    for (int n = written; n < ld; ++n) out.at(r, n) = T(kSentinel);
  }
  const Matrix<T> before = out;
  ops.multiply(segments.data(), int(segments.size()), p.rows, packed.data(), p.columns,
               p.start == Start::bias ? bias.data() : nullptr, p.start == Start::accumulate,
               out.values.data(), ld);
  for (int r = 0; r < p.rows; ++r) {
    for (int n = 0; n < p.columns; ++n) {
      double want = p.start == Start::zero ? 0 : p.start == Start::bias ? bias[n] : before.at(r, n);
      double size = std::abs(want);
      int k = 0;
      for (const auto& l : left) {
        for (int j = 0; j < l.columns; ++j, ++k) {
          want += l.at(r, j) * weight(k, n);
          size += std::abs(l.at(r, j) * weight(k, n));
        }
      }
      ASSERT_NEAR(out.at(r, n), want, tolerance * size) << "at " << r << ", " << n;
    }
    for (int n = p.columns; n < written; ++n) ASSERT_EQ(out.at(r, n), T(0)) << "padding";
    for (int n = written; n < ld; ++n) ASSERT_EQ(out.at(r, n), T(kSentinel)) << "behind";
  }
}

TYPED_TEST(Gemm, MultipliesAllSizes) {
  for (int rows : {1, 2, 3, 5, 7, 13, 14, 15, 16, 17, 33}) {
    for (int columns : {1, 3, 5, 7, 13, 16, 17, 33, 80, 143}) {
      for (int depth : {1, 3, 17, 80}) {
        for (bool transposed : {false, true}) {
          check_multiply<TypeParam>(this->ops, {rows, columns, {depth}, Start::zero, transposed},
                                    this->tolerance(depth));
        }
      }
    }
  }
}

TYPED_TEST(Gemm, MultipliesSegments) {
  const std::vector<std::vector<int>> cuts = {{10, 80, 64}, {1, 1, 1, 1, 1}, {3, 143}, {33, 5, 7}};
  for (const auto& depths : cuts) {
    for (Start start : {Start::zero, Start::bias, Start::accumulate}) {
      for (int columns : {5, 16, 80}) {
        for (bool transposed : {false, true}) {
          check_multiply<TypeParam>(this->ops, {11, columns, depths, start, transposed},
                                    this->tolerance(160));
        }
      }
    }
  }
}

// The cut of rows into tiles must not overflow.
TYPED_TEST(Gemm, MultipliesVeryManyRows) {
  using T = TypeParam;
  const int rows = 300'000, ld = this->ops.lanes;
  const T weight = 3;
  std::vector<T> packed(this->ops.packed_size(1, 1)), x(rows), out(std::size_t(rows) * ld);
  for (int r = 0; r < rows; ++r) x[r] = T(r % 1000);
  this->ops.pack(&weight, 1, 1, 1, 1, packed.data(), 0, 1);
  const Operand<T> segment{x.data(), 1, 1};
  this->ops.multiply(&segment, 1, rows, packed.data(), 1, nullptr, false, out.data(), ld);
  for (int r = 0; r < rows; ++r) ASSERT_EQ(out[std::size_t(r) * ld], 3 * x[r]) << r;
}

// A row's result does not depend on how many rows are multiplied with it: that is what makes
// batches equal to their rows.
TYPED_TEST(Gemm, RowsAreIndependent) {
  using T = TypeParam;
  const int columns = 37, depth = 29, ld = padded_width<T>(columns);
  auto weights = random_matrix<T>(depth, columns, columns, 1);
  auto x = random_matrix<T>(33, depth, depth, 2);
  std::vector<T> packed(this->ops.packed_size(depth, columns));
  this->ops.pack(weights.values.data(), depth, columns, columns, 1, packed.data(), 0, depth);
  Matrix<T> all(33, columns, ld), alone(1, columns, ld);
  const Operand<T> segment{x.values.data(), depth, depth};
  this->ops.multiply(&segment, 1, 33, packed.data(), columns, nullptr, false, all.row(0), ld);
  for (int r = 0; r < 33; ++r) {
    const Operand<T> row{x.row(r), depth, depth};
    this->ops.multiply(&row, 1, 1, packed.data(), columns, nullptr, false, alone.row(0), ld);
    for (int n = 0; n < columns; ++n) ASSERT_EQ(alone.at(0, n), all.at(r, n)) << r << ", " << n;
  }
}

TYPED_TEST(Gemm, AccumulatesOuterProducts) {
  using T = TypeParam;
  for (int rows : {1, 3, 7, 13, 15, 33, 80}) {
    for (int width : {1, 5, 13, 16, 17, 33, 143}) {
      for (int depth : {1, 3, 16, 160}) {
        SCOPED_TRACE(testing::Message() << rows << " x " << width << ", depth " << depth);
        // The gradient is one column block of a wider matrix, as for a segment.
        const int ld_d = padded_width<T>(rows), ld_x = padded_width<T>(width), left = 2;
        const int ld = left + width + 4, slack = 2 * this->ops.lanes;
        const auto d = random_matrix<T>(depth, rows, ld_d, 3),
                   x = random_matrix<T>(depth, width, ld_x, 4);
        auto gradient = random_values<T>(std::size_t(rows) * ld + slack, 5);
        const auto before = gradient;
        this->ops.accumulate_outer(d.values.data(), ld_d, rows, x.values.data(), ld_x, width, depth,
                                   gradient.data() + left, ld);
        for (int n = 0; n < rows; ++n) {
          for (int w = -left; w < width + 4; ++w) {
            const std::size_t at = std::size_t(n) * ld + left + w;
            double want = before[at], size = std::abs(want);
            for (int k = 0; w >= 0 && w < width && k < depth; ++k) {
              want += double(d.at(k, n)) * x.at(k, w);
              size += std::abs(double(d.at(k, n)) * x.at(k, w));
            }
            ASSERT_NEAR(gradient[at], want, this->tolerance(depth) * size) << n << ", " << w;
            if (w < 0 || w >= width) {
              ASSERT_EQ(gradient[at], before[at]) << n << ", " << w;
            }
          }
        }
      }
    }
  }
}

TYPED_TEST(Gemm, AccumulatesColumns) {
  using T = TypeParam;
  for (int columns : {1, 3, 16, 17, 33, 143}) {
    const int depth = 37, ld = columns + 5;
    const auto d = random_matrix<T>(depth, columns, ld, 6, T(kSentinel));
    auto sums = random_values<T>(columns, 7);
    const auto before = sums;
    sums.push_back(T(kSentinel));
    this->ops.accumulate_columns(d.values.data(), ld, columns, depth, sums.data());
    for (int n = 0; n < columns; ++n) {
      double want = before[n], size = std::abs(want);
      for (int k = 0; k < depth; ++k) {
        want += d.at(k, n);
        size += std::abs(d.at(k, n));
      }
      ASSERT_NEAR(sums[n], want, this->tolerance(depth) * size) << n << " of " << columns;
    }
    EXPECT_EQ(sums[columns], T(kSentinel));
  }
}

TYPED_TEST(Gemm, Adds) {
  using T = TypeParam;
  for (std::size_t count : {0, 1, 3, 16, 17, 143}) {
    const auto a = random_values<T>(count + 1, 8);
    auto b = random_values<T>(count + 1, 9);
    const auto before = b;
    this->ops.add(a.data(), count, b.data());
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(b[i], before[i] + a[i]);
    EXPECT_EQ(b[count], before[count]);
  }
}

TYPED_TEST(Gemm, FindsTheLargestMagnitude) {
  using T = TypeParam;
  EXPECT_EQ(this->ops.max_abs(nullptr, 0), T(0));
  for (std::size_t count : {1, 3, 16, 17, 143}) {
    for (std::size_t at = 0; at < count; ++at) {
      auto x = random_values<T>(count + 1, 10);
      x[count] = 1000;  // not part of it
      x[at] = -100;
      ASSERT_EQ(this->ops.max_abs(x.data(), count), T(100)) << at << " of " << count;
      x[at] = std::numeric_limits<T>::quiet_NaN();
      ASSERT_TRUE(std::isnan(this->ops.max_abs(x.data(), count))) << at << " of " << count;
      x[at] = std::numeric_limits<T>::infinity();
      ASSERT_FALSE(std::isfinite(this->ops.max_abs(x.data(), count))) << at << " of " << count;
    }
  }
}

TEST(PaddedWidth, IsWholeCacheLinesOffTheSameSet) {
  for (int width = 1; width < 2000; ++width) {
    for (auto [padded, size] :
         {std::pair{padded_width<float>(width), 4}, {padded_width<double>(width), 8}}) {
      EXPECT_GE(padded, width);
      EXPECT_EQ(padded * size % 64, 0);
      EXPECT_NE(padded * size % 1024, 0);
      EXPECT_LE((padded - width) * size, 128);
    }
  }
}

}  // namespace
}  // namespace nru::kernels
