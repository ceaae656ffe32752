// The products of a time step on a CUDA device against sums in float64.
#include <gtest/gtest.h>

#ifdef NRU_HAS_CUDA

#include <cmath>
#include <limits>
#include <vector>

#include "cuda_data.h"
#include "kernels/cuda/product.h"

namespace nru::kernels::cuda {
namespace {

// Rows [count, ld] with zero padding, as all parts have.
std::vector<float> padded_rows(int count, int width, std::uint64_t seed) {
  const int ld = padded_width(width);
  std::vector<float> rows(static_cast<std::size_t>(count) * ld);
  const auto values = random_values<float>(static_cast<std::size_t>(count) * width, seed);
  for (int r = 0; r < count; ++r)
    std::copy_n(values.begin() + r * width, width, rows.begin() + r * ld);
  return rows;
}

void check_product(int rows, const std::vector<int>& inputs, const std::vector<int>& outputs) {
  SCOPED_TRACE(testing::Message() << rows << " rows, " << inputs.size() << " inputs from "
                                  << inputs[0] << ", " << outputs.size() << " outputs from "
                                  << outputs[0]);
  const Stream stream;
  Mirror mirror(stream.handle());
  int depth = 0, columns = 0;
  for (int width : inputs) depth += padded_width(width);
  for (int width : outputs) columns += width;
  std::vector<float> weights(static_cast<std::size_t>(columns) * depth);
  std::vector<std::vector<float>> a, c;
  for (std::size_t i = 0, at = 0; i < inputs.size(); at += padded_width(inputs[i++])) {
    a.push_back(padded_rows(rows, inputs[i], 10 + i));
    const auto block = padded_rows(columns, inputs[i], 20 + i);
    const int ld = padded_width(inputs[i]);
    for (int r = 0; r < columns; ++r)
      std::copy_n(block.begin() + r * ld, ld, weights.begin() + r * depth + at);
  }
  for (std::size_t o = 0; o < outputs.size(); ++o)
    c.push_back(padded_rows(rows, outputs[o], 30 + o));
  const auto before = c;
  mirror.add(weights);
  for (auto& v : a) mirror.add(v);
  for (auto& v : c) mirror.add(v);
  mirror.upload();
  Product p;
  p.rows = rows;
  p.weights = mirror.device(weights.data());
  p.depth = depth;
  for (std::size_t i = 0; i < a.size(); ++i)
    p.input[p.inputs++] = {mirror.device(a[i].data()), padded_width(inputs[i])};
  for (std::size_t o = 0; o < c.size(); ++o)
    p.output[p.outputs++] = {mirror.device(c[o].data()), padded_width(outputs[o]), outputs[o],
                             o % 2 == 0};
  run_product(p, stream.handle());
  mirror.download();
  int column = 0;
  for (std::size_t o = 0; o < c.size(); ++o) {
    for (int j = 0; j < outputs[o]; ++j, ++column) {
      for (int r = 0; r < rows; ++r) {
        double sum = o % 2 == 0 ? before[o][r * padded_width(outputs[o]) + j] : 0, size = 1;
        for (std::size_t i = 0, at = 0; i < a.size(); at += padded_width(inputs[i++])) {
          for (int k = 0; k < inputs[i]; ++k) {
            const double term = double(a[i][r * padded_width(inputs[i]) + k]) *
                                weights[static_cast<std::size_t>(column) * depth + at + k];
            sum += term;
            size += std::abs(term);
          }
        }
        ASSERT_NEAR(c[o][r * padded_width(outputs[o]) + j], sum, 2e-6 * size) << r << "," << j;
      }
    }
    for (int r = 0; r < rows; ++r) {  // the padding stays zero
      for (int j = outputs[o]; j < padded_width(outputs[o]); ++j)
        ASSERT_EQ(c[o][r * padded_width(outputs[o]) + j], 0.f);
    }
  }
}

// Sizes on both sides of every tile, and large enough that each kind of tile is chosen.
TEST(CudaProduct, IsRightForAllTiles) {
  NRU_NEEDS_CUDA_DEVICE();
  for (int rows : {1, 3, 16, 17, 100, 128, 131}) check_product(rows, {5, 9}, {3, 8, 17});
  check_product(10, {80, 64}, {80});
  check_product(100, {212, 256}, {212});
  check_product(100, {212}, {212, 256});
  check_product(128, {1000, 576}, {1000});
  check_product(128, {1000}, {1000, 576});
  check_product(300, {33, 1, 65}, {500, 7});
}

}  // namespace
}  // namespace nru::kernels::cuda

#else

TEST(CudaProduct, IsBuilt) { GTEST_SKIP() << "built without CUDA"; }

#endif
