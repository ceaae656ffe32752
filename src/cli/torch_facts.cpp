#include "cli/torch_facts.h"

#include <nru/torch.h>

namespace nru::cli {

const char* torch_version() { return TORCH_VERSION; }

int cuda_devices() { return static_cast<int>(torch::cuda::device_count()); }

}  // namespace nru::cli
