// The EURNN's whole-sequence kernels without a GPU, as cluster_emulation_test.cpp does it: a CTA
// per row, thread by thread, against the kernels of the CPU.
#include <gtest/gtest.h>

#ifdef NRU_HAS_CUDA

#include "emulated_cluster.h"
// After it:
#include "emulation.h"
#include "kernels/cuda/eurnn.cuh"
#include "kernels/cuda/eurnn_rows.cuh"

namespace nru::kernels::cuda {
namespace {

using eurnn::Index;

constexpr int kNobody = emulated::Cluster::kNobody;

// A case on the CPU, and its recurrence by the code of the kernels.
template <int P>
class EurnnEmulation {
 public:
  EurnnEmulation(const EurnnShape& shape, const RunCase& run, int held_back)
      : shape_(shape),
        run_(run),
        held_back_(held_back),
        n_(shape.hidden),
        wiring_(wiring_of(n_)),
        data_(CellCase{"", shape}, run),
        positions_(data_.positions()),
        h_(positions_ + run.batch, P * n_),
        z_(positions_ + run.batch, P * n_),
        re_(positions_ + run.batch, n_),
        y_(positions_, P * n_),
        dz_(positions_, P * n_),
        bulk_(positions_, n_),
        dh_(run.batch, P * n_) {
    kernels::Sequence<float> sequence(data_.program, 1);
    data_.forward(sequence, true);
    data_.backward(sequence);
    for (int row = 0; row < run.batch; ++row)
      for (int j = 0; j < P * n_; ++j)
        h_.at(row, j) = run.initial ? data_.initial[0][row * P * n_ + j] : 0.f;
    for (std::size_t p = 0; p < positions_; ++p) {
      for (int o = 0; o < P * n_; ++o) z_.at(run.batch + p, o) = share_of_input(p, o);
      for (int j = 0; j < n_; ++j) bulk_.at(p, j) = data_.output_gradient[p * n_ + j];
    }
    add_angles(Index<P>::kTheta, wiring_.angles);
    if (P == 2) add_angles(Index<P>::kPhi, wiring_.angles);
    if (P == 2) add_angles(Index<P>::kOmega, n_);
  }

  void expect_the_same() {
    forward();
    near("h", dense(h_, P * n_, run_.batch), data_.states[0], 2e-6);
    if (P == 2 && !run_.lengths) near("Re h", dense(re_, n_, run_.batch), data_.output, 2e-6);
    float largest = 0;
    for (std::size_t p = 0; p < positions_; ++p)
      for (int j = 0; j < P * n_ && !finished(p); ++j)
        largest = std::max(largest, std::abs(h_.at(run_.batch + p, j)));
    EXPECT_EQ(__uint_as_float(largest_), largest);

    backward();
    if (run_.initial)
      near("gradient of the initial h", dense(dh_, P * n_), data_.initial_gradients[0], 2e-5);
    expect_sums(Index<P>::kTheta, "theta", d_theta_);
    expect_sums(Index<P>::kBias, "bias", d_bias_);
    if (P == 2) expect_sums(Index<P>::kPhi, "phi", d_phi_);
    if (P == 2) expect_sums(Index<P>::kOmega, "omega", d_omega_);
    near("gradient of the input's weights", weight_gradient(),
         data_.parameter_gradients[Index<P>::kBias - 1], 2e-5);
  }

  // With nothing kept.
  void expect_the_same_states() {
    EurnnForward f = forward_call();
    f.y = nullptr;
    f.largest_h = nullptr;
    run_rows<EurnnRowForward<P>>(f);
    near("h", dense(h_, P * n_, run_.batch), data_.states[0], 2e-6);
  }

 private:
  bool finished(std::size_t position) const {
    return run_.lengths &&
           static_cast<std::int64_t>(position / run_.batch) >= data_.lengths[position % run_.batch];
  }
  float share_of_input(std::size_t position, int output) const {
    const std::vector<float>& weight = data_.parameters[Index<P>::kBias - 1];
    double sum = 0;
    for (int i = 0; i < shape_.input && !finished(position); ++i)
      sum += double(weight[output * shape_.input + i]) * data_.dense[position * shape_.input + i];
    return static_cast<float>(sum);
  }
  void add_angles(int parameter, int count) {
    for (int i = 0; i < count; ++i) {
      derived_.push_back(std::cos(data_.parameters[parameter][i]));
      derived_.push_back(std::sin(data_.parameters[parameter][i]));
    }
  }

  void fill(EurnnCall* c) {
    c->w = wiring_;
    c->form = shape_.modrelu;
    c->eps = static_cast<float>(shape_.epsilon);
    c->steps = run_.steps;
    c->batch = run_.batch;
    c->lengths = run_.lengths ? data_.lengths.data() : nullptr;
    c->ld_h = h_.ld;
    c->ld_z = z_.ld;
    c->ld_re = re_.ld;
    c->derived = derived_.data();
    c->bias = data_.parameters[Index<P>::kBias].data();
    c->h = h_.data();
    c->z = z_.data();
    c->re = re_.data();
    c->y = y_.data();
  }
  EurnnForward forward_call() {
    EurnnForward f{};
    fill(&f);
    f.largest_h = &largest_;
    return f;
  }
  void forward() { run_rows<EurnnRowForward<P>>(forward_call()); }
  void backward() {
    const std::size_t angles = static_cast<std::size_t>(run_.batch) * wiring_.angles,
                      units = static_cast<std::size_t>(run_.batch) * n_;
    d_theta_.assign(angles, NAN);
    d_phi_.assign(angles, NAN);
    d_omega_.assign(units, NAN);
    d_bias_.assign(units, NAN);
    EurnnBackward b{};
    fill(&b);
    b.bulk = bulk_.data();
    b.ld_bulk = bulk_.ld;
    b.final_h = data_.final_gradient[0].data();
    b.dz = dz_.data();
    b.dh = dh_.data();
    b.d_theta = d_theta_.data();
    b.d_phi = d_phi_.data();
    b.d_omega = d_omega_.data();
    b.d_bias = d_bias_.data();
    run_rows<EurnnRowBackward<P>>(b);
  }
  template <class Row, class Call>
  void run_rows(const Call& call) {
    const int threads = eurnn_threads(n_);
    for (int row = 0; row < run_.batch; ++row) {
      emulated::Cluster cta(row, sizeof(float) * Row::kPlanes * 2 * threads, held_back_,
                            static_cast<unsigned>(row), 1, threads);
      ASSERT_TRUE(cta.run([&] { Row(call, &cta.shared<float>()).run(); }))
          << "the threads wait for each other";
    }
  }

  void expect_sums(int parameter, const char* name, const std::vector<float>& of_rows) {
    const std::size_t size = data_.parameters[parameter].size();
    std::vector<double> sums(size);
    for (std::size_t i = 0; i < of_rows.size(); ++i) sums[i % size] += of_rows[i];
    near(name, sums, data_.parameter_gradients[parameter], 2e-5);
  }
  std::vector<double> weight_gradient() {
    std::vector<double> sums;
    for (int o = 0; o < P * n_; ++o) {
      for (int i = 0; i < shape_.input; ++i) {
        sums.push_back(0);
        for (std::size_t p = 0; p < positions_; ++p)
          sums.back() += double(dz_.at(p, o)) * data_.dense[p * shape_.input + i];
      }
    }
    return sums;
  }

  EurnnShape shape_;
  RunCase run_;
  int held_back_, n_;
  Wiring wiring_;
  SequenceData<float> data_;
  std::size_t positions_;
  Rows h_, z_, re_, y_, dz_, bulk_, dh_;
  std::vector<float> derived_, d_theta_, d_phi_, d_omega_, d_bias_;
  unsigned largest_ = 0;
};

// With an epsilon that leaves rounding errors as they are (see the cells' cases).
template <int P>
EurnnShape shape_of(int n) {
  return {.input = 2, .hidden = n, .complex = P == 2, .epsilon = 0.1};
}

const RunCase kRun{"", 3, 2, false, true}, kLengths{"", 4, 5, true, true};

template <int P>
void expect_the_same(const EurnnShape& shape, const RunCase& run, int held_back = kNobody) {
  SCOPED_TRACE(testing::Message() << "n" << shape.hidden << (P == 2 ? " complex" : " real")
                                  << ", held back: " << held_back);
  EurnnEmulation<P>(shape, run, held_back).expect_the_same();
}

TEST(EurnnEmulation, TheKernelsDoWhatTheCpuDoes) {
  for (int n : {1, 2, 5, 33, 64, 65, 100, 128, 200, 589, 1000, 1024}) {
    expect_the_same<1>(shape_of<1>(n), kRun);
    expect_the_same<2>(shape_of<2>(n), kRun);
  }
}

TEST(EurnnEmulation, TheSignFormOfTheModReluToo) {
  EurnnShape shape = shape_of<1>(77);
  shape.modrelu = ModRelu::sign;
  expect_the_same<1>(shape, kRun);
}

TEST(EurnnEmulation, RowsEndWhereTheirLengthsSay) {
  expect_the_same<1>(shape_of<1>(70), kLengths);
  expect_the_same<2>(shape_of<2>(33), kLengths);
}

TEST(EurnnEmulation, NothingNeedsToBeKept) {
  EurnnEmulation<1>(shape_of<1>(300), kRun, kNobody).expect_the_same_states();
  EurnnEmulation<2>(shape_of<2>(131), kRun, kNobody).expect_the_same_states();
}

TEST(EurnnEmulation, NobodyIsOvertaken) {
  for (int warp = 0; warp < 5; ++warp) {
    expect_the_same<1>(shape_of<1>(289), kRun, warp);
    expect_the_same<2>(shape_of<2>(312), kRun, warp);
  }
}

}  // namespace
}  // namespace nru::kernels::cuda

#else

TEST(EurnnEmulation, IsBuilt) { GTEST_SKIP() << "built without CUDA"; }

#endif
