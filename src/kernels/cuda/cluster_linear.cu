// The cluster kernels for linear heads.
#include "kernels/cuda/cluster_tiles.cuh"

namespace nru::kernels::cuda {

std::vector<ClusterTile> linear_cluster_tiles() { return cluster_tiles<false>(); }

}  // namespace nru::kernels::cuda
