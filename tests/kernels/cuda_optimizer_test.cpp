// Clipping and Adam on a CUDA device against those of the CPU.
#include <gtest/gtest.h>

#ifdef NRU_HAS_CUDA

#include <cmath>
#include <limits>
#include <vector>

#include "cuda_data.h"
#include "kernels/cuda/optimizer.h"

namespace nru::kernels::cuda {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct AdamBuffers {
  std::vector<float> gradient, parameter, m, v, v_max, average;
  explicit AdamBuffers(int count)
      : gradient(random_values<float>(count, 1)),
        parameter(random_values<float>(count, 2)),
        m(count),
        v(count),
        v_max(count),
        average(count) {}
};

TEST(CudaAdam, EqualsTheCpu) {
  NRU_NEEDS_CUDA_DEVICE();
  for (int count : {1, 1000, 100003}) {
    for (bool amsgrad : {false, true}) {
      for (double max_norm : {0.0, 0.5}) {
        SCOPED_TRACE(testing::Message() << count << ", " << amsgrad << ", " << max_norm);
        const AdamSettings settings{
            .learning_rate = 1e-2, .amsgrad = amsgrad, .average = 0.7, .steps = 5, .annealed = 3};
        const Stream stream;
        AdamBuffers host(count), device(count);
        Adam adam(settings, max_norm, stream.handle());
        for (int step = 1; step <= 5; ++step) {
          host.gradient = device.gradient =
              random_values<float>(count, 10 + step, step == 3 ? 9 : 1);
          const double norm = std::sqrt(squared_norm(host.gradient.data(), count, 1));
          adam_update(settings, step, static_cast<float>(clip_scale(norm, max_norm)),
                      host.gradient.data(),
                      {host.parameter.data(), host.m.data(), host.v.data(), host.v_max.data(),
                       host.average.data()},
                      count, 1);
          Mirror mirror(stream.handle());
          for (auto* v : {&device.gradient, &device.parameter, &device.m, &device.v, &device.v_max,
                          &device.average})
            mirror.add(*v);
          mirror.upload();
          adam.update(mirror.device(device.gradient.data()), nullptr,
                      {mirror.device(device.parameter.data()), mirror.device(device.m.data()),
                       mirror.device(device.v.data()), mirror.device(device.v_max.data()),
                       mirror.device(device.average.data())},
                      count);
          mirror.download();
          EXPECT_NEAR(adam.report().norm, norm, 1e-12 * norm);
        }
        EXPECT_EQ(adam.report().steps, 5);
        EXPECT_LT(relative_distance(device.parameter, host.parameter), 1e-6);
        EXPECT_LT(relative_distance(device.m, host.m), 1e-6);
        EXPECT_LT(relative_distance(device.v, host.v), 1e-6);
        EXPECT_LT(relative_distance(device.average, host.average), 1e-6);
        if (amsgrad) {
          EXPECT_LT(relative_distance(device.v_max, host.v_max), 1e-6);
        }
      }
    }
  }
}

TEST(CudaAdam, SkipsWhatIsNotFinite) {
  NRU_NEEDS_CUDA_DEVICE();
  constexpr int kCount = 5000;
  const Stream stream;
  AdamBuffers buffers(kCount);
  Adam adam({}, 1, stream.handle());
  adam.resume({.steps = 7, .skipped = 3, .skipped_in_row = 0, .caution = {}});
  std::vector<double> loss{1.0};
  const auto update = [&](float gradient, double l) {
    buffers.gradient[4321] = gradient;
    loss[0] = l;
    Mirror mirror(stream.handle());
    for (auto* v : {&buffers.gradient, &buffers.parameter, &buffers.m, &buffers.v}) mirror.add(*v);
    mirror.add(loss);
    mirror.upload();
    adam.update(mirror.device(buffers.gradient.data()), mirror.device(loss.data()),
                {mirror.device(buffers.parameter.data()), mirror.device(buffers.m.data()),
                 mirror.device(buffers.v.data())},
                kCount);
    mirror.download();
    return adam.report();
  };
  const auto before = buffers.parameter;
  EXPECT_EQ(update(kNan, 1).skipped, 4);
  EXPECT_EQ(update(kInfinity, 1).skipped_in_row, 2);
  const AdamReport report = update(1, kNan);
  EXPECT_EQ(report.skipped, 6);
  EXPECT_EQ(report.skipped_in_row, 3);
  EXPECT_EQ(report.steps, 7);
  EXPECT_EQ(buffers.parameter, before);
  EXPECT_EQ(buffers.m, std::vector<float>(kCount));
  const AdamReport applied = update(1e25f, 1);  // its square is beyond float, not beyond float64
  EXPECT_EQ(applied.steps, 8);
  EXPECT_EQ(applied.skipped_in_row, 0);
  EXPECT_NEAR(applied.norm, 1e25, 1e19);
  EXPECT_NE(buffers.parameter, before);
}

TEST(CudaAdam, MindsCaution) {
  NRU_NEEDS_CUDA_DEVICE();
  constexpr int kCount = 100;
  const Stream stream;
  const auto change = [&](const Caution& caution, double loss) {
    AdamBuffers buffers(kCount);
    const auto before = buffers.parameter;
    std::vector<double> losses{loss};
    Adam adam({}, 1, stream.handle());
    adam.resume({.caution = caution});
    Mirror mirror(stream.handle());
    for (auto* v : {&buffers.gradient, &buffers.parameter, &buffers.m, &buffers.v}) mirror.add(*v);
    mirror.add(losses);
    mirror.upload();
    adam.update(mirror.device(buffers.gradient.data()), mirror.device(losses.data()),
                {mirror.device(buffers.parameter.data()), mirror.device(buffers.m.data()),
                 mirror.device(buffers.v.data())},
                kCount);
    mirror.download();
    return buffers.parameter[7] - before[7];
  };
  const float full = change({}, 5);
  EXPECT_NEAR(std::fabs(full), 1e-3, 1e-6);
  EXPECT_NEAR(change({.halvings = 2}, 5), full / 4, 1e-6);
  EXPECT_EQ(change({.most_loss = 5}, 5), full);
  EXPECT_EQ(change({.most_loss = 4}, 5), 0);
}

}  // namespace
}  // namespace nru::kernels::cuda

#else

TEST(CudaAdam, IsBuilt) { GTEST_SKIP() << "built without CUDA"; }

#endif
