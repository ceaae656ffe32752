// The cluster kernels for ReLU heads.
#include "kernels/cuda/cluster_tiles.cuh"

namespace nru::kernels::cuda {

std::vector<ClusterTile> relu_cluster_tiles() { return cluster_tiles<true>(); }

}  // namespace nru::kernels::cuda
