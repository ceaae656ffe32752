// The kernels of the cells of gates without a GPU, as cluster_emulation_test.cpp does it: the GORU,
// whose warps have different things to do at the same time.
#include <gtest/gtest.h>

#ifdef NRU_HAS_CUDA

#include "emulated_cluster.h"
// After it:
#include "emulation.h"
#include "kernels/cuda/units_goru.cuh"

namespace nru::kernels::cuda {
namespace {

constexpr int kNobody = emulated::Cluster::kNobody;

template <class Cta, class Memory>
void run_clusters(const GoruCall& call, int held_back) {
  for (int i = 0; i < (call.of.batch + kClusterRows - 1) / kClusterRows; ++i) {
    emulated::Cluster cluster(i, sizeof(Memory), held_back, static_cast<unsigned>(i));
    ASSERT_TRUE(cluster.run([&] { Cta(call, cluster.shared<Memory>()).run(); }))
        << "the threads wait for each other";
  }
}

// A case on the CPU, and its recurrence by the code of the kernels.
class GoruEmulation {
  enum { kTheta, kWeightCandidate, kWeightInput, kWeightHidden, kBiasGates, kBiasCandidate };

 public:
  GoruEmulation(const GoruShape& shape, const RunCase& run)
      : shape_(shape),
        run_(run),
        data_(CellCase{"", shape}, run, 0.2),
        positions_(data_.positions()),
        h_(positions_ + run.batch, shape.hidden),
        gates_(positions_ + run.batch, 2 * shape.hidden),
        u_(positions_ + run.batch, shape.hidden),
        d_output_(positions_, shape.hidden),
        d_gates_(positions_, 2 * shape.hidden),
        d_u_(positions_, shape.hidden),
        d_h_(run.batch, shape.hidden),
        d_theta_(run.batch * data_.parameters[kTheta].size(), NAN),
        d_bias_(static_cast<std::size_t>(run.batch) * shape.hidden, NAN) {
    kernels::Sequence<float> sequence(data_.program, 1);
    data_.forward(sequence, true);
    data_.backward(sequence);
    for (int row = 0; row < run.batch; ++row)
      for (int j = 0; j < shape.hidden; ++j)
        h_.at(row, j) = data_.initial[0][row * shape.hidden + j];
    for (std::size_t p = 0; p < positions_; ++p) {
      share_input(p, kWeightInput, &data_.parameters[kBiasGates], 2 * shape.hidden, gates_);
      share_input(p, kWeightCandidate, nullptr, shape.hidden, u_);
      for (int j = 0; j < shape.hidden; ++j)
        d_output_.at(p, j) = data_.output_gradient[p * shape.hidden + j];
    }
  }

  template <class T>
  void expect_the_same(int held_back) {
    const int n = shape_.hidden;
    const double loose = shape_.modrelu == ModRelu::sign ? 1 : 10;
    const GoruCall c = call();
    run_clusters<GoruForward<T>, GoruForwardMemory<T>>(c, held_back);
    std::vector<float> h = dense(h_, n);
    h.erase(h.begin(), h.begin() + static_cast<std::ptrdiff_t>(run_.batch) * n);
    near("h", h, data_.states[0], 1e-6);
    float largest = 0;
    for (float x : h) largest = std::max(largest, std::abs(x));
    EXPECT_EQ(__uint_as_float(largest_h_), largest);

    run_clusters<GoruBackward<T>, GoruBackwardMemory<T>>(c, held_back);
    near("initial h", dense(d_h_, n), data_.initial_gradients[0], 1e-5 * loose);
    near("theta", over_rows(d_theta_), data_.parameter_gradients[kTheta], 1e-5 * loose);
    near("bias", over_rows(d_bias_), data_.parameter_gradients[kBiasCandidate], 1e-5 * loose);
    near("gates' weights", products(d_gates_, 2 * n, h_.data(), h_.ld, n),
         data_.parameter_gradients[kWeightHidden], 1e-5 * loose);
    near("candidate's weights", products(d_u_, n, data_.dense.data(), shape_.input, shape_.input),
         data_.parameter_gradients[kWeightCandidate], 1e-5 * loose);
  }

 private:
  GoruCall call() {
    GoruCall c{};
    c.of = {run_.steps, run_.batch, shape_.hidden};
    c.weights = {data_.parameters[kWeightHidden].data(), shape_.hidden};
    c.wiring = wiring_of(shape_.hidden);
    c.form = shape_.modrelu;
    c.eps = static_cast<float>(shape_.epsilon);
    c.theta = data_.parameters[kTheta].data();
    c.bias = data_.parameters[kBiasCandidate].data();
    c.ld = h_.ld;
    c.ld_gates = gates_.ld;
    c.h = h_.data();
    c.gates = gates_.data();
    c.u = u_.data();
    c.largest_h = &largest_h_;
    c.bulk = {d_output_.data(), 0};
    c.final_h = data_.final_gradient[0].data();
    c.d_gates = d_gates_.data();
    c.d_u = d_u_.data();
    c.d_h = d_h_.data();
    c.d_theta = d_theta_.data();
    c.d_bias = d_bias_.data();
    return c;
  }

  // What input and bias give to the pre-activations of a position.
  void share_input(std::size_t position, int weight, const std::vector<float>* bias, int outputs,
                   Rows& to) {
    for (int o = 0; o < outputs; ++o) {
      double sum = bias ? (*bias)[o] : 0;
      for (int j = 0; j < shape_.input; ++j)
        sum += data_.parameters[weight][o * shape_.input + j] *
               data_.dense[position * shape_.input + j];
      to.at(run_.batch + position, o) = static_cast<float>(sum);
    }
  }
  // Sums of [batch, size].
  std::vector<float> over_rows(const std::vector<float>& of_row) const {
    std::vector<float> sums(of_row.size() / run_.batch);
    for (std::size_t i = 0; i < of_row.size(); ++i) sums[i % sums.size()] += of_row[i];
    return sums;
  }
  // The weight gradient d^T x over all positions.
  std::vector<float> products(Rows& d, int outputs, const float* x, int ld, int width) {
    std::vector<double> sums(static_cast<std::size_t>(outputs) * width);
    for (std::size_t p = 0; p < positions_; ++p)
      for (int o = 0; o < outputs; ++o)
        for (int j = 0; j < width; ++j) sums[o * width + j] += double(d.at(p, o)) * x[p * ld + j];
    return {sums.begin(), sums.end()};
  }

  GoruShape shape_;
  RunCase run_;
  SequenceData<float> data_;
  std::size_t positions_;
  Rows h_, gates_, u_, d_output_, d_gates_, d_u_, d_h_;
  std::vector<float> d_theta_, d_bias_;
  unsigned largest_h_ = 0;
};

template <class T>
void expect_the_same(int n, const RunCase& run, int held_back, ModRelu form = ModRelu::smooth) {
  SCOPED_TRACE(testing::Message() << "n" << n << ", held back: " << held_back);
  GoruEmulation({.input = 2, .hidden = n, .modrelu = form}, run).expect_the_same<T>(held_back);
}

TEST(UnitsEmulation, TheGoruDoesWhatTheCpuDoes) {
  const RunCase run{"", 3, 5, false, true};
  for (int n : {4, 5, 33, 98}) expect_the_same<SmallGoru>(n, run, kNobody);
  expect_the_same<SmallGoru>(112, run, kNobody, ModRelu::sign);
  const RunCase two_steps{"", 2, 3, false, true};
  for (int n : {113, 257, 282}) expect_the_same<LargeGoru>(n, two_steps, kNobody);
  expect_the_same<LargeGoru>(288, two_steps, kNobody, ModRelu::sign);
}

TEST(UnitsEmulation, OfTheGoruNobodyIsOvertaken) {
  const RunCase run{"", 5, 4, false, true};
  for (int cta = 0; cta < emulated::kCtas; ++cta) {
    expect_the_same<SmallGoru>(41, run, emulated::Cluster::whole_cta(cta));
    for (int warp : {cta, 7 - cta}) expect_the_same<SmallGoru>(37, run, kClusterWarps * cta + warp);
  }
  // Warps with several blocks of the butterfly.
  for (int warp : {0, 1, 4, 6}) expect_the_same<LargeGoru>(131, run, warp);
}

}  // namespace
}  // namespace nru::kernels::cuda

#else

TEST(UnitsEmulation, IsBuilt) { GTEST_SKIP() << "built without CUDA"; }

#endif
