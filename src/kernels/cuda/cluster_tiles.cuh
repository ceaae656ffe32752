// The tiles that cluster kernels are compiled for. The sizes are those of the paper's psMNIST runs:
// the cell itself and each of the sensitivity study's, with smaller ones by padding.
#pragma once

#include "kernels/cuda/cluster_backward.cuh"
#include "kernels/cuda/cluster_forward.cuh"

namespace nru::kernels::cuda {

template <class T>
ClusterTile cluster_tile() {
  return {32 * T::NH,
          32 * T::NM,
          32 * T::NU,
          T::RP,
          T::NS,
          T::kRelu,
          std::max(sizeof(ForwardShared<T>), sizeof(BackwardShared<T>)),
          cluster_forward<T>,
          cluster_backward<T>};
}

template <bool kRelu>
std::vector<ClusterTile> cluster_tiles() {
  return {
      cluster_tile<Tile<4, 8, 5, 8, 1, false, kRelu>>(),   // h 128, m 256, up to 4 heads of 8 rows
      cluster_tile<Tile<7, 8, 5, 8, 1, false, kRelu>>(),   // h 224
      cluster_tile<Tile<8, 8, 5, 8, 1, false, kRelu>>(),   // h 256
      cluster_tile<Tile<10, 8, 5, 8, 1, true, kRelu>>(),   // h 320
      cluster_tile<Tile<7, 8, 3, 16, 1, false, kRelu>>(),  // h 224, m 256, up to 2 heads of 16 rows
      cluster_tile<Tile<7, 8, 9, 4, 2, true, kRelu>>(),    // h 224, m 256, up to 16 heads of 4 rows
      cluster_tile<Tile<7, 13, 6, 16, 2, true, kRelu>>(),  // h 224, m 416, up to 4 heads of 16 rows
  };
}

}  // namespace nru::kernels::cuda
