#include "kernels/cuda/peak.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "kernels/cuda/check.h"
#include "kernels/cuda/gemm.h"

namespace nru::kernels::cuda {
namespace {

constexpr int kChains = 16;  // independent multiply-adds per thread: more than their latency
constexpr int kThreads = 256, kTries = 4;
constexpr int kRounds = 1 << 14;
constexpr int kMatrix = 8192;
constexpr std::size_t kCopied = std::size_t{1} << 30;

struct Times {
  long long cycles = 0, nanoseconds = 0;  // of one thread
};

__device__ long long nanoseconds() {
  long long time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}

__global__ void multiply_add_kernel(float factor, float* sink, Times* times) {
  float chain[kChains];
  for (int i = 0; i < kChains; ++i) chain[i] = static_cast<float>(threadIdx.x + i);
  const long long time = nanoseconds(), cycle = clock64();
  for (int round = 0; round < kRounds; ++round) {
#pragma unroll
    for (int i = 0; i < kChains; ++i) chain[i] = fmaf(chain[i], factor, 1.0f);
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) *times = {clock64() - cycle, nanoseconds() - time};
  float sum = 0;
  for (int i = 0; i < kChains; ++i) sum += chain[i];
  if (sum == 0.5f) *sink = sum;  // never, but the compiler does not know
}

// Numbers between -1 and 1 without a pattern: products of zeros would draw less power and run
// faster.
__global__ void scatter_kernel(float* to, std::size_t count) {
  for (std::size_t i = blockIdx.x * std::size_t{kThreads} + threadIdx.x; i < count;
       i += std::size_t{gridDim.x} * kThreads) {
    const unsigned mixed = static_cast<unsigned>(i * 2654435761u) ^ static_cast<unsigned>(i >> 7);
    to[i] = static_cast<float>(mixed & 0xffff) / 32768 - 1;
  }
}

// Fastest of several runs of `work`, after one to warm up.
double fastest(StreamHandle stream, const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  double best = 1e30;
  for (int i = 0; i <= kTries; ++i) {
    wait(stream);
    const auto start = Clock::now();
    work();
    wait(stream);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (i > 0) best = std::min(best, seconds);
  }
  return best;
}

int multiprocessors() {
  int device = 0, count = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device),
        "cudaDeviceGetAttribute");
  return count;
}

}  // namespace

Peaks measure_peaks(StreamHandle stream) {
  Peaks peaks;
  {
    const int blocks = 8 * multiprocessors();
    Buffer<Times> times;
    Buffer<float> sink;
    times.require(1);
    sink.require(1);
    const double seconds = fastest(stream, [&] {
      multiply_add_kernel<<<blocks, kThreads, 0, stream>>>(0.999f, sink.data(), times.data());
      check_launch("multiply_add", blocks, kThreads);
    });
    peaks.fma_flops = 2.0 * kChains * kRounds * kThreads * blocks / seconds;
    Times of_one;
    download(times.data(), sizeof of_one, &of_one, stream);
    peaks.clock_hz = 1e9 * static_cast<double>(of_one.cycles) / of_one.nanoseconds;
  }
  {
    Buffer<float> from, to;
    from.require(kCopied / sizeof(float));
    to.require(kCopied / sizeof(float));
    const double seconds = fastest(stream, [&] {
      check(cudaMemcpyAsync(to.data(), from.data(), kCopied, cudaMemcpyDeviceToDevice, stream),
            "copying on the device");
    });
    peaks.copy_bytes = 2.0 * kCopied / seconds;
    const std::size_t count = std::size_t{kMatrix} * kMatrix;
    scatter_kernel<<<1024, kThreads, 0, stream>>>(from.data(), 2 * count);
    check_launch("scatter", 2 * kMatrix, kMatrix);
    Gemm gemm(stream, /*tf32=*/true);
    const double product = fastest(stream, [&] {
      gemm.nn(kMatrix, kMatrix, kMatrix, {from.data(), kMatrix}, {from.data() + count, kMatrix},
              false, to.data(), kMatrix);
    });
    peaks.tf32_flops = 2.0 * kMatrix * kMatrix * kMatrix / product;
  }
  return peaks;
}

}  // namespace nru::kernels::cuda
