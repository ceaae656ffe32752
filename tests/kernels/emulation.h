// A sequence for the kernels that run on an emulated cluster (emulated_cluster.h), judged by those
// of the CPU. To be included after that header.
#pragma once

#include <gtest/gtest.h>

#include "kernels/cuda/cluster.h"
#include "kernels/cuda/product.h"
#include "sequence_cases.h"

namespace nru::kernels::cuda {

// [count, width] numbers with the rows of a device's buffers: padded with zeros, what is not set
// not a number.
struct Rows {
  int ld;
  std::vector<float> values;
  Rows(std::size_t count, int width) : ld(padded_width(width)), values(count * ld) {
    for (std::size_t i = 0; i < values.size(); ++i)
      if (static_cast<int>(i % ld) < width) values[i] = NAN;
  }
  float& at(std::size_t row, int column) { return values[row * ld + column]; }
  float* data() { return values.data(); }
};

// [count - first, width]: without the padding and the first rows.
inline std::vector<float> dense(Rows& rows, int width, std::size_t first = 0) {
  std::vector<float> result;
  for (std::size_t r = first; r < rows.values.size() / rows.ld; ++r)
    for (int j = 0; j < width; ++j) result.push_back(rows.at(r, j));
  return result;
}

template <class T>
void near(const char* what, const std::vector<T>& got, const std::vector<float>& want,
          double bound) {
  EXPECT_LE(relative_distance(got, want), bound) << what;
}

// A case on the CPU, and its recurrence by the code of a CUDA kernel.
class Emulation {
 public:
  Emulation(const NruShape& shape, const RunCase& run)
      : shape_(shape),
        run_(run),
        data_(CellCase{"", shape}, run, 0.2),
        positions_(data_.positions()),
        h_(positions_ + run.batch, shape.hidden),
        m_(positions_ + run.batch, shape.memory),
        heads_(positions_ + run.batch, shape.head_outputs()),
        aux_(positions_ + run.batch, 4 * shape.heads + 2),
        d_output_(positions_, shape.hidden),
        d_pre_(positions_, shape.hidden),
        d_heads_(positions_, shape.head_outputs()),
        d_h_(run.batch, shape.hidden),
        d_m_(run.batch, shape.memory),
        events_(run.batch * kEvents) {
    kernels::Sequence<float> sequence(data_.program, 1);
    want_ = data_.forward(sequence, true);
    data_.backward(sequence);
    for (int row = 0; row < run.batch; ++row) {
      for (int j = 0; j < shape.hidden; ++j)
        h_.at(row, j) = data_.initial[0][row * shape.hidden + j];
      for (int j = 0; j < shape.memory; ++j)
        m_.at(row, j) = data_.initial[1][row * shape.memory + j];
    }
    for (std::size_t p = 0; p < positions_; ++p) {
      share_input(p, data_.parameters[0], data_.parameters[1], shape.hidden, true, h_);
      share_input(p, head_weight(), data_.parameters.back(), shape.head_outputs(), false, heads_);
      for (int j = 0; j < shape.hidden; ++j)
        d_output_.at(p, j) = data_.output_gradient[p * shape.hidden + j];
    }
  }

  // `forward` and `backward` run the kernel.
  void expect_the_same(const std::function<void(const ClusterForward&)>& forward,
                       const std::function<void(const ClusterBackward&)>& backward) {
    const ClusterForward f{sequence(),  h_.data(),      m_.data(),   heads_.data(),
                           aux_.data(), events_.data(), &largest_h_, &largest_m_};
    forward(f);
    near("h", after(h_, shape_.hidden), data_.states[0], 1e-6);
    near("m", after(m_, shape_.memory), data_.states[1], 1e-6);
    std::array<std::int64_t, kEvents> events{};
    for (std::size_t i = 0; i < events_.size(); ++i) events[i % kEvents] += events_[i];
    EXPECT_EQ(events, want_.events);
    EXPECT_EQ(__uint_as_float(largest_h_), largest(h_, shape_.hidden));
    EXPECT_EQ(__uint_as_float(largest_m_), largest(m_, shape_.memory));

    const ClusterBackward b{sequence(),
                            h_.data(),
                            heads_.data(),
                            aux_.data(),
                            d_output_.data(),
                            0,
                            data_.final_gradient[0].data(),
                            data_.final_gradient[1].data(),
                            d_pre_.data(),
                            d_heads_.data(),
                            d_h_.data(),
                            d_m_.data()};
    backward(b);
    near("gradient of the initial h", dense(d_h_, shape_.hidden), data_.initial_gradients[0], 1e-5);
    near("gradient of the initial m", dense(d_m_, shape_.memory), data_.initial_gradients[1], 1e-5);
    near("gradient of the weights", weight_gradient(d_pre_, shape_.hidden, 0),
         state_columns(data_.parameter_gradients[0], shape_.hidden), 1e-5);
    const int outputs = shape_.head_outputs();
    near("gradient of the heads' weights", weight_gradient(d_heads_, outputs, run_.batch),
         state_columns(data_.parameter_gradients[data_.parameters.size() - 2], outputs), 1e-5);
  }

  const std::int64_t* lengths() const { return run_.lengths ? data_.lengths.data() : nullptr; }

 private:
  std::vector<float>& head_weight() { return data_.parameters[data_.parameters.size() - 2]; }

  // What input (of h alone) and bias give to the pre-activations of a position.
  void share_input(std::size_t position, const std::vector<float>& weight,
                   const std::vector<float>& bias, int outputs, bool input, Rows& to) {
    const std::size_t columns = weight.size() / outputs;
    for (int o = 0; o < outputs; ++o) {
      double sum = bias[o];
      for (int j = 0; input && j < shape_.input; ++j)
        sum += weight[o * columns + j] * data_.dense[position * shape_.input + j];
      to.at(run_.batch + position, o) = static_cast<float>(sum);
    }
  }

  ClusterSequence sequence() {
    const int H = shape_.hidden, M = shape_.memory, I = shape_.input;
    const float *weight = data_.parameters[0].data(), *heads = head_weight().data();
    return {NruWriteSizes(shape_),
            H,
            {weight + I, weight + I + H, heads, heads + H, I + H + M, H + M},
            run_.steps,
            run_.batch,
            h_.ld,
            m_.ld,
            heads_.ld,
            aux_.ld};
  }

  // Without the initial state.
  std::vector<float> after(Rows& rows, int width) { return dense(rows, width, run_.batch); }
  float largest(Rows& rows, int width) {
    float result = 0;
    for (float x : after(rows, width)) result = std::max(result, std::abs(x));
    return result;
  }

  // Over [h; m'], h being `h_ahead` rows ahead of m'.
  std::vector<float> weight_gradient(Rows& d, int outputs, int h_ahead) {
    const int H = shape_.hidden, columns = H + shape_.memory;
    std::vector<double> sums(static_cast<std::size_t>(outputs) * columns);
    for (std::size_t p = 0; p < positions_; ++p) {
      for (int o = 0; o < outputs; ++o) {
        for (int j = 0; j < columns; ++j)
          sums[o * columns + j] +=
              double(d.at(p, o)) * (j < H ? h_.at(p + h_ahead, j) : m_.at(p, j - H));
      }
    }
    return {sums.begin(), sums.end()};
  }
  std::vector<float> state_columns(const std::vector<float>& gradient, int outputs) {
    const int wanted = shape_.hidden + shape_.memory;
    const int columns = static_cast<int>(gradient.size()) / outputs;
    std::vector<float> result;
    for (int o = 0; o < outputs; ++o)
      for (int j = columns - wanted; j < columns; ++j) result.push_back(gradient[o * columns + j]);
    return result;
  }

  NruShape shape_;
  RunCase run_;
  SequenceData<float> data_;
  SequenceResult want_;
  std::size_t positions_;
  Rows h_, m_, heads_, aux_, d_output_, d_pre_, d_heads_, d_h_, d_m_;
  std::vector<std::int64_t> events_;
  unsigned largest_h_ = 0, largest_m_ = 0;
};

}  // namespace nru::kernels::cuda
