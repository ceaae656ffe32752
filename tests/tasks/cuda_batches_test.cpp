// Batches made on a CUDA device are those of the host, bit for bit, launched by hand or in a graph.
#include <gtest/gtest.h>

#ifdef NRU_HAS_CUDA

#include <cstring>

#include "task_cases.h"
#include "tasks/cuda/device_batches.h"

namespace nru::tasks {
namespace {

namespace cuda = kernels::cuda;

#define NRU_NEEDS_CUDA_DEVICE() \
  if (cuda::device_count() == 0) GTEST_SKIP() << "no CUDA device"

// An array on the device, full of what nobody writes, with more of it behind its end.
template <class T>
class Poisoned {
 public:
  Poisoned(std::size_t size, cuda::StreamHandle stream) : size_(size), stream_(stream) {
    if (size == 0) return;
    const std::vector<unsigned char> poison((size + kBehind) * sizeof(T), kPoison);
    cuda::upload(poison.data(), poison.size(), memory_.require(size + kBehind), stream);
    cuda::wait(stream);
  }
  T* data() const { return memory_.data(); }

  // Fails where something was written behind the end.
  std::vector<T> download() const {
    if (size_ == 0) return {};
    std::vector<T> values(size_ + kBehind);
    cuda::download(data(), values.size() * sizeof(T), values.data(), stream_);
    const auto* behind = reinterpret_cast<const unsigned char*>(values.data() + size_);
    for (std::size_t i = 0; i < kBehind * sizeof(T); ++i)
      EXPECT_EQ(behind[i], kPoison) << "written behind the end";
    values.resize(size_);
    return values;
  }

 private:
  static constexpr std::size_t kBehind = 64;
  static constexpr unsigned char kPoison = 0xCD;
  std::size_t size_;
  cuda::StreamHandle stream_;
  cuda::Buffer<T> memory_;
};

// Device memory for one batch and its index.
class Place {
 public:
  Place(const BatchShape& shape, cuda::StreamHandle stream)
      : shape_(shape),
        stream_(stream),
        symbols_(shape.dense_width == 0 ? positions() : 0, stream),
        dense_(positions() * shape.dense_width, stream),
        targets_(positions(), stream),
        weights_(shape.weighted ? positions() : 0, stream) {
    index_.require(1);
  }

  void make(const DeviceBatches& batches, Split split) const {
    batches.make(split, index_.data(),
                 {shape_, symbols_.data(), dense_.data(), targets_.data(), weights_.data()},
                 stream_);
  }
  void set(std::uint64_t index) {
    cuda::upload(&index, sizeof index, index_.data(), stream_);
    cuda::wait(stream_);
  }
  void expect_equal(const Batch& expected) const {
    EXPECT_EQ(symbols_.download(), expected.symbols);
    EXPECT_EQ(targets_.download(), expected.targets);
    EXPECT_TRUE(same_bits(dense_.download(), expected.dense));
    EXPECT_TRUE(same_bits(weights_.download(), expected.weights));
  }

 private:
  std::size_t positions() const { return static_cast<std::size_t>(shape_.steps) * shape_.rows; }
  static bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() &&
           (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
  }

  BatchShape shape_;
  cuda::StreamHandle stream_;
  cuda::Buffer<std::uint64_t> index_;
  Poisoned<std::int32_t> symbols_;
  Poisoned<float> dense_;
  Poisoned<std::int32_t> targets_;
  Poisoned<float> weights_;
};

TEST(CudaBatches, EqualTheHosts) {
  NRU_NEEDS_CUDA_DEVICE();
  const cuda::Stream stream;
  const Task* current = nullptr;
  std::unique_ptr<DeviceBatches> batches;
  test::TaskCases().for_each([&](const Task& task, Split split, std::uint64_t index) {
    if (&task != current) batches = task.device_batches();
    current = &task;
    ASSERT_NE(batches, nullptr);
    Place place(task.shape(split, index), stream.handle());
    place.set(index);
    place.make(*batches, split);
    place.expect_equal(test::batch_of(task, split, index));
  });
}

// Recorded with one index and replayed with others of the same shape.
TEST(CudaBatches, AGraphMakesTheBatchOfTheIndex) {
  NRU_NEEDS_CUDA_DEVICE();
  const cuda::Stream stream;
  const Task* current = nullptr;
  BatchShape recorded;
  std::unique_ptr<DeviceBatches> batches;
  std::unique_ptr<Place> place;
  cuda::Graph graph;
  int replayed = 0;
  test::TaskCases().for_each([&](const Task& task, Split split, std::uint64_t index) {
    if (split != Split::train) return;
    const BatchShape shape = task.shape(split, index);
    if (&task != current) {
      current = &task;
      batches = task.device_batches();
      recorded = shape;
      place = std::make_unique<Place>(shape, stream.handle());
      graph = cuda::Graph(stream.handle(), [&] { place->make(*batches, split); });
    }
    if (shape.steps != recorded.steps) return;
    place->set(index);
    graph.launch();
    place->expect_equal(test::batch_of(task, split, index));
    ++replayed;
  });
  EXPECT_GT(replayed, 100);
}

}  // namespace
}  // namespace nru::tasks

#endif
