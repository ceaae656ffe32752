#include "kernels/cuda/device_state.h"

#include <cuda_runtime.h>

#include <stdexcept>

#include "kernels/cuda/check.h"

namespace nru::kernels::cuda {
namespace {

constexpr int kThreads = 256;

unsigned ctas(long long count) { return static_cast<unsigned>((count + kThreads - 1) / kThreads); }

__global__ void find_bad_kernel(const float* values, long long count, int width, float limit,
                                int* bad) {
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count && !(fabsf(values[i]) <= limit)) bad[i / width] = 1;  // no NaN is below a limit
}

__global__ void reset_if_bad_kernel(float* values, long long count, int width, float initial,
                                    const int* bad) {
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count && bad[i / width]) values[i] = initial;
}

}  // namespace

DeviceState::DeviceState(const Program<float>& program, int batch, StreamHandle stream)
    : stream_(stream), batch_(batch) {
  for (const auto& part : program.parts) {
    if (part.kind != PartKind::state) continue;
    parts_.push_back({part.width, static_cast<float>(part.initial), {}});
    pointers_.push_back(parts_.back().values.require(static_cast<std::size_t>(batch) * part.width));
  }
  bad_.require(batch);
  set({});
}

void DeviceState::mend(float limit) {
  check(cudaMemsetAsync(bad_.data(), 0, bad_.bytes(), stream_), "clearing flags");
  for (const Part& part : parts_) {
    const long long count = static_cast<long long>(batch_) * part.width;
    find_bad_kernel<<<ctas(count), kThreads, 0, stream_>>>(part.values.data(), count, part.width,
                                                           limit, bad_.data());
    check_launch("find_bad", batch_, part.width);
  }
  for (const Part& part : parts_) {
    const long long count = static_cast<long long>(batch_) * part.width;
    reset_if_bad_kernel<<<ctas(count), kThreads, 0, stream_>>>(
        part.values.data(), count, part.width, part.initial, bad_.data());
    check_launch("reset_if_bad", batch_, part.width);
  }
}

void DeviceState::set(const std::vector<std::vector<float>>& state) {
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    const std::size_t count = static_cast<std::size_t>(batch_) * parts_[p].width;
    std::vector<float> values(count, parts_[p].initial);
    if (!state.empty() && !state[p].empty()) values = state[p];
    if (values.size() != count)
      throw std::invalid_argument("a carried state has another size than the batch needs");
    upload(values.data(), count * sizeof(float), parts_[p].values.data(), stream_);
    wait(stream_);
  }
}

std::vector<std::vector<float>> DeviceState::get() {
  std::vector<std::vector<float>> state;
  for (const Part& part : parts_) {
    state.emplace_back(static_cast<std::size_t>(batch_) * part.width);
    download(part.values.data(), state.back().size() * sizeof(float), state.back().data(), stream_);
  }
  return state;
}

}  // namespace nru::kernels::cuda
