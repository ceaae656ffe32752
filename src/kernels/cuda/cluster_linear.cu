// The cluster kernels' tiles for linear heads. The sizes are those of the paper's psMNIST runs: the
// cell itself and each of the sensitivity study's, with smaller ones by padding.
#include "kernels/cuda/cluster_backward.cuh"
#include "kernels/cuda/cluster_forward.cuh"

namespace nru::kernels::cuda {
namespace {

template <class T>
ClusterTile tile() {
  return {32 * T::NH,
          32 * T::NM,
          32 * T::NU,
          T::RP,
          T::NS,
          std::max(sizeof(ForwardShared<T>), sizeof(BackwardShared<T>)),
          cluster_forward<T>,
          cluster_backward<T>};
}

}  // namespace

std::vector<ClusterTile> linear_cluster_tiles() {
  return {
      tile<Tile<4, 8, 5, 8, 1, false>>(),   // h 128, m 256, up to 4 heads of 8 rows
      tile<Tile<7, 8, 5, 8, 1, false>>(),   // h 224
      tile<Tile<8, 8, 5, 8, 1, false>>(),   // h 256
      tile<Tile<10, 8, 5, 8, 1, true>>(),   // h 320
      tile<Tile<7, 8, 3, 16, 1, false>>(),  // h 224, m 256, up to 2 heads of 16 rows
      tile<Tile<7, 8, 9, 4, 2, true>>(),    // h 224, m 256, up to 16 heads of 4 rows
      tile<Tile<7, 13, 6, 16, 2, true>>(),  // h 224, m 416, up to 4 heads of 16 rows
  };
}

}  // namespace nru::kernels::cuda
