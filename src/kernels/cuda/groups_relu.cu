// The kernels of groups for ReLU heads.
#include "kernels/cuda/groups_tiles.cuh"

namespace nru::kernels::cuda {

std::vector<GroupsTile> relu_groups_tiles() { return groups_tiles<true>(); }

}  // namespace nru::kernels::cuda
