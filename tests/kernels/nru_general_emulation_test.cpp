// The general form of the NRU's write on emulated CTAs (emulated_cluster.h), a step of a few rows,
// against the kernels of the CPU: with the directions in shared memory, and formed anew.
#include <gtest/gtest.h>

#ifdef NRU_HAS_CUDA

#include "emulated_cluster.h"
// After it:
#include "emulation.h"
#include "kernels/cuda/nru_general.cuh"

namespace nru::kernels::cuda {
namespace {

constexpr int kNobody = emulated::Cluster::kNobody, kWidth = 4 * 32;
const RunCase kStep{"", 1, 3, false, true};

class GeneralWrite {
 public:
  explicit GeneralWrite(const NruShape& shape, int held_back = kNobody)
      : shape_(shape),
        sizes_(shape),
        held_back_(held_back),
        data_(CellCase{"", shape}, kStep, 1),
        heads_(kStep.batch, shape.head_outputs()),
        m_prev_(kStep.batch, shape.memory),
        m_(kStep.batch, shape.memory),
        d_heads_(kStep.batch, shape.head_outputs()),
        d_m_(kStep.batch, shape.memory),
        events_(kStep.batch * kEvents) {
    kernels::Sequence<float> sequence(data_.program, 1);
    want_ = data_.forward(sequence, true);
    data_.backward(sequence);
    const std::vector<float>& bias = data_.parameters.back();
    for (int row = 0; row < kStep.batch; ++row) {
      for (int j = 0; j < shape.memory; ++j) {
        m_prev_.at(row, j) = data_.initial[1][row * shape.memory + j];
        d_m_.at(row, j) = data_.final_gradient[1][row * shape.memory + j];
      }
      for (int o = 0; o < shape.head_outputs(); ++o) {
        double sum = bias[o];
        for (int i = 0; i < shape.hidden; ++i)
          sum += double(head_weight(o, i)) * data_.states[0][row * shape.hidden + i];
        for (int j = 0; j < shape.memory; ++j)
          sum += double(head_weight(o, shape.hidden + j)) * m_prev_.at(row, j);
        heads_.at(row, o) = static_cast<float>(sum);
      }
    }
  }

  template <bool kStored>
  void expect_the_same() {
    run(general::forward<kStored>, general::forward_bytes(sizes_), kStored);
    near("m", dense(m_, shape_.memory), data_.states[1], 2e-6);
    std::array<std::int64_t, kEvents> events{};
    for (std::size_t i = 0; i < events_.size(); ++i) events[i % kEvents] += events_[i];
    EXPECT_EQ(events, want_.events);

    run(general::backward<kStored>, general::backward_bytes(sizes_), kStored);
    std::vector<double> d_bias(shape_.head_outputs());
    for (int row = 0; row < kStep.batch; ++row)
      for (int o = 0; o < shape_.head_outputs(); ++o) d_bias[o] += d_heads_.at(row, o);
    near("gradient of the heads' bias", d_bias, data_.parameter_gradients.back(), 2e-5);
    near("gradient of the memory before", gradient_of_m_prev(), data_.initial_gradients[1], 2e-5);
  }

 private:
  float head_weight(int output, int column) const {
    return data_
        .parameters[data_.parameters.size() - 2][output * (shape_.hidden + shape_.memory) + column];
  }

  template <class Kernel>
  void run(const Kernel& kernel, std::size_t bytes, bool stored) {
    const NruWriteRows rows{kStep.batch,    heads_.ld,      0,
                            m_.ld,          heads_.data(),  nullptr,
                            m_prev_.data(), m_.data(),      events_.data(),
                            d_m_.data(),    d_heads_.data()};
    for (int row = 0; row < kStep.batch; ++row) {
      emulated::Cluster cta(row, bytes + (stored ? general::stored_bytes(sizes_) : 0), held_back_,
                            static_cast<unsigned>(row), 1, kWidth);
      ASSERT_TRUE(cta.run([&] { kernel(sizes_, rows, &cta.shared<general::Head>()); }))
          << "the threads wait for each other";
    }
  }

  // What reaches it directly, through the heads, and through h, which the heads see.
  std::vector<double> gradient_of_m_prev() {
    const int H = shape_.hidden, M = shape_.memory, columns = shape_.input + H + M;
    std::vector<double> result;
    for (int row = 0; row < kStep.batch; ++row) {
      std::vector<double> d_zeta(H + M), d_m(M);
      for (int o = 0; o < shape_.head_outputs(); ++o)
        for (int c = 0; c < H + M; ++c)
          d_zeta[c] += double(d_heads_.at(row, o)) * head_weight(o, c);
      for (int j = 0; j < M; ++j) d_m[j] = d_m_.at(row, j) + d_zeta[H + j];
      for (int i = 0; i < H; ++i) {
        if (!(data_.states[0][row * H + i] > 0)) continue;
        const double d_pre =
            d_zeta[i] + data_.output_gradient[row * H + i] + data_.final_gradient[0][row * H + i];
        for (int j = 0; j < M; ++j)
          d_m[j] += d_pre * data_.parameters[0][i * columns + shape_.input + H + j];
      }
      result.insert(result.end(), d_m.begin(), d_m.end());
    }
    return result;
  }

  NruShape shape_;
  NruWriteSizes sizes_;
  int held_back_;
  SequenceData<float> data_;
  SequenceResult want_;
  Rows heads_, m_prev_, m_, d_heads_, d_m_;
  std::vector<std::int64_t> events_;
};

// The general write of every kind: heads that straddle rows, a row of its own, directions of their
// own, ReLU, sums, multiplied memory.
std::vector<NruShape> shapes() {
  using enum NruDirection;
  return {{.input = 4, .hidden = 9, .memory = 4, .heads = 9},
          {.input = 4, .hidden = 9, .memory = 9, .heads = 4},
          {.input = 2, .hidden = 7, .memory = 64, .heads = 9},
          {.input = 3, .hidden = 5, .memory = 100, .heads = 9},
          {.input = 3, .hidden = 9, .memory = 4, .heads = 9, .relu_heads = true},
          {.input = 3, .hidden = 11, .memory = 16, .heads = 3, .direction = per_head},
          {.input = 3,
           .hidden = 11,
           .memory = 9,
           .heads = 2,
           .direction = per_head,
           .relu_heads = true},
          {.input = 3, .hidden = 10, .memory = 7, .heads = 3, .direction = full},
          {.input = 3, .hidden = 10, .memory = 9, .heads = 4, .sum_heads = true},
          {.input = 4, .hidden = 12, .memory = 16, .heads = 4, .multiply_memory = true},
          {.input = 3,
           .hidden = 9,
           .memory = 4,
           .heads = 9,
           .relu_heads = true,
           .multiply_memory = true}};
}

void expect_the_same(const NruShape& shape, int held_back = kNobody) {
  SCOPED_TRACE(testing::Message() << "m" << shape.memory << " k" << shape.heads
                                  << ", held back: " << held_back);
  GeneralWrite(shape, held_back).expect_the_same<true>();
  GeneralWrite(shape, held_back).expect_the_same<false>();
}

TEST(NruGeneralEmulation, TheKernelsDoWhatTheCpuDoes) {
  for (const NruShape& shape : shapes()) expect_the_same(shape);
}

TEST(NruGeneralEmulation, NobodyIsOvertaken) {
  for (int warp = 0; warp < kWidth / 32; ++warp)
    for (const NruShape& shape : shapes()) expect_the_same(shape, warp);
}

}  // namespace
}  // namespace nru::kernels::cuda

#else

TEST(NruGeneralEmulation, IsBuilt) { GTEST_SKIP() << "built without CUDA"; }

#endif
