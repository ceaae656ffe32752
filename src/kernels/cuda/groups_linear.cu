// The kernels of groups for linear heads.
#include "kernels/cuda/groups_tiles.cuh"

namespace nru::kernels::cuda {

std::vector<GroupsTile> linear_groups_tiles() { return groups_tiles<false>(); }

}  // namespace nru::kernels::cuda
