// The NRU's recurrence over a whole sequence in one kernel, for hidden states of about a thousand
// units (char-PTB): a group of 32 CTAs keeps all recurrent weights on chip, in shared memory and
// registers, and carries 32 rows of the batch through all steps. Products run on the tensor cores
// (tensor.cuh). The CTAs of a group exchange vectors through the second-level cache, three times a
// step; groups have nothing to do with each other.
//
// All CTAs must be on the GPU at once: the launch is a cooperative one. Kernels are compiled ahead
// of time for a few tiles (groups_tiles.cuh), smaller cells being padded with zeros; how deep a
// product is, and so how much shared memory it takes, is known at run time only.
#pragma once

#include <vector>

#include "kernels/cuda/cluster.h"

namespace nru::kernels::cuda {

inline constexpr int kGroupRows = 32;       // of the batch
inline constexpr int kGroupCtas = 32;       // at least as many as rows: each does one row's write
inline constexpr int kGroupFlags = 3 * 32;  // for each group: one of each kind for each CTA

struct GroupsForward : ClusterForward {
  unsigned* flags;  // [groups, kGroupFlags], zero
  int ctas;         // of a group
};
struct GroupsBackward : ClusterBackward {
  unsigned* flags;
  int ctas;
};

inline int groups_of(int batch) { return (batch + kGroupRows - 1) / kGroupRows; }

// Limits of a tile, and its kernels.
struct GroupsTile {
  int hidden, memory, outputs;  // largest h, m and number of head outputs
  int rows_per_head, slots;     // see ClusterTile
  bool relu;
  // Shared memory of a CTA at this size, the larger of both kernels.
  std::size_t (*shared_bytes)(const NruShape&);
  // How many CTAs the current device holds at once.
  int (*resident)(std::size_t shared_bytes);
  void (*forward)(const GroupsForward&, std::size_t shared_bytes, cudaStream_t);
  void (*backward)(const GroupsBackward&, std::size_t shared_bytes, cudaStream_t);

  bool holds(const NruShape& shape) const;
};

std::vector<GroupsTile> linear_groups_tiles();
std::vector<GroupsTile> relu_groups_tiles();

struct GroupsFit {
  const GroupsTile* tile = nullptr;
  std::size_t shared_bytes = 0;
};
// The first of the tiles that takes the cell and has all CTAs of the batch on the GPU at once; none
// below compute capability 9, for which the kernels have no code.
GroupsFit find_groups_tile(const std::vector<GroupsTile>& tiles, const NruShape& shape, int batch,
                           const DeviceLimits& limits);

}  // namespace nru::kernels::cuda
