// What a device has room for, and leave for kernels to use it: both by device, since a process may
// use several, and for threads that ask at the same time.
#include <map>
#include <mutex>
#include <utility>

#include "kernels/cuda/launch.cuh"

namespace nru::kernels::cuda {
namespace {

constexpr std::size_t kSharedUnasked = 48 * 1024;

}  // namespace

DeviceLimits device_limits() {
  static std::mutex mutex;
  static std::map<int, DeviceLimits> known;
  int device = 0;
  const auto ok = [](cudaError_t error) {
    if (error != cudaSuccess) cudaGetLastError();  // is not the next call's
    return error == cudaSuccess;
  };
  const auto ask = [&](cudaDeviceAttr attribute, int* value) {
    return ok(cudaDeviceGetAttribute(value, attribute, device));
  };
  if (!ok(cudaGetDevice(&device))) return {};
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(device); found != known.end()) return found->second;
  DeviceLimits limits;
  if (!ask(cudaDevAttrComputeCapabilityMajor, &limits.major) ||
      !ask(cudaDevAttrMaxSharedMemoryPerBlockOptin, &limits.shared_bytes) ||
      !ask(cudaDevAttrMultiProcessorCount, &limits.multiprocessors))
    return {};
  return known[device] = limits;
}

cudaError_t allow_all_shared_memory(const void* kernel, std::size_t* bytes) {
  static std::mutex mutex;
  static std::map<std::pair<int, const void*>, std::size_t> allowed;
  int device = 0;
  if (const cudaError_t error = cudaGetDevice(&device); error != cudaSuccess) return error;
  const std::lock_guard lock(mutex);
  const std::pair key(device, kernel);
  if (const auto found = allowed.find(key); found != allowed.end()) {
    *bytes = found->second;
    return cudaSuccess;
  }
  cudaFuncAttributes of_kernel{};
  cudaError_t error = cudaFuncGetAttributes(&of_kernel, kernel);
  if (error != cudaSuccess) return error;
  const int most = device_limits().shared_bytes - static_cast<int>(of_kernel.sharedSizeBytes);
  error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most);
  if (error != cudaSuccess) return error;
  *bytes = allowed[key] = static_cast<std::size_t>(most);
  return cudaSuccess;
}

void allow_shared_memory(const std::string& what, const void* kernel, std::size_t bytes) {
  if (bytes <= kSharedUnasked) return;
  std::size_t most = 0;
  const cudaError_t error = allow_all_shared_memory(kernel, &most);
  if (error != cudaSuccess) fail(what, error);
  if (bytes > most) {
    throw Error("CUDA: " + what + " needs " + std::to_string(bytes) +
                " bytes of shared memory, more than the " + std::to_string(most) +
                " that this GPU has");
  }
}

}  // namespace nru::kernels::cuda
