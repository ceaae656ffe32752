// The tiles that groups' kernels are compiled for: the paper's char-PTB cell (h 1000, m 576, k 4),
// and a larger memory on a smaller hidden state.
#pragma once

#include "kernels/cuda/groups_backward.cuh"
#include "kernels/cuda/groups_forward.cuh"

namespace nru::kernels::cuda {

template <class T>
GroupsTile groups_tile() {
  GroupsTile tile;
  tile.hidden = 8 * T::NH * kGroupCtas;
  tile.memory = 8 * T::NM * kGroupCtas;
  tile.outputs = 8 * T::NU * kGroupCtas;
  tile.rows_per_head = T::RP;
  tile.slots = T::NS;
  tile.relu = T::kRelu;
  tile.shared_bytes = [](const NruShape& s) {
    const GroupWidths widths{s.hidden, s.memory, s.head_outputs(), kGroupCtas};
    return std::max(GroupsForwardShared<T>::bytes(widths), GroupsBackwardShared<T>::bytes(widths));
  };
  tile.resident = [](std::size_t bytes) {
    return std::min(resident_ctas(groups_forward_kernel<T>, bytes),
                    resident_ctas(groups_backward_kernel<T>, bytes));
  };
  tile.forward = groups_forward<T>;
  tile.backward = groups_backward<T>;
  return tile;
}

template <bool kRelu>
std::vector<GroupsTile> groups_tiles() {
  return {
      groups_tile<GroupTile<4, 3, 1, 16, 2, 2, 2, kRelu>>(),  // h 1024, m 768, 4 heads of 16 rows
      groups_tile<GroupTile<3, 4, 2, 16, 2, 2, 2, kRelu>>(),  // h 768, m 1024
  };
}

}  // namespace nru::kernels::cuda
