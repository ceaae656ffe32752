#include "kernels/cuda/units.h"

#include "kernels/cuda/device.h"

namespace nru::kernels::cuda {

bool has_clusters(std::size_t shared_bytes) {
  const DeviceLimits limits = device_limits();
  return limits.major >= 9 && shared_bytes <= static_cast<std::size_t>(limits.shared_bytes);
}

}  // namespace nru::kernels::cuda
