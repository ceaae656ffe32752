// The NRU's recurrence over a whole sequence in one kernel, for hidden states of some hundred units
// (psMNIST): a cluster of four CTAs keeps all recurrent weights on chip and carries four rows of
// the batch through all steps. The CTAs exchange h and the head outputs (backward: the gradients of
// the pre-activations and of m) through distributed shared memory, twice a step.
//
// Kernels are compiled ahead of time for a few tiles (cluster_tile_*.cu); a smaller cell runs in a
// larger tile, padded with zeros. Needs a GPU of compute capability 9 or more.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cuda/device.h"
#include "kernels/cuda/nru_write.h"
#include "kernels/cuda/persistent.h"
#include "kernels/nru.h"

namespace nru::kernels::cuda {

inline constexpr int kClusterCtas = 4;  // each needs a share of h and of m

// Blocks of the cell's weights, as the caller stores them: row o of a block makes output o.
struct ClusterWeights {
  const float *h_from_h, *h_from_m;  // distance of rows: h_ld
  const float *heads_from_h, *heads_from_m;
  int h_ld, heads_ld;
};

// What both passes read. Values are [.., batch, ld].
struct ClusterSequence {
  NruWriteSizes sizes;
  int hidden;
  ClusterWeights weights;
  int steps, batch;
  int ld_h, ld_m, ld_heads, ld_aux;
};

struct ClusterForward {
  ClusterSequence of;
  // [steps + 1, ..]: the state before the first step is at 0, step t fills t + 1. There h and heads
  // hold what input and bias give to their pre-activations, and get the results in place of it.
  float *h, *m, *heads, *aux;
  std::int64_t* events;             // [batch, kEvents]
  unsigned *largest_h, *largest_m;  // bits of the largest magnitude, or null
};

struct ClusterBackward {
  ClusterSequence of;
  const float *h, *heads, *aux;  // as the forward pass left them
  const float* d_output;         // [steps, ..] gradient of h from elsewhere, from first_output on
  int first_output;
  const float *final_h, *final_m;  // [batch, width] gradient of the final state, or null
  // To be written:
  float *d_pre, *d_heads;  // [steps, ..] gradients of the pre-activations
  float *d_h, *d_m;        // [..] of the initial state
};

// A call of a whole-sequence path with the NRU's parts by name, for the designs that split its
// weights over several CTAs: this one and groups.h.
ClusterForward cluster_call(const Program<float>& program, const NruShape& shape,
                            const PersistentForward& call);
ClusterBackward cluster_call(const Program<float>& program, const NruShape& shape,
                             const PersistentBackward& call);

// Limits of a tile, and its kernels.
struct ClusterTile {
  int hidden, memory, outputs;  // largest h, m and number of head outputs
  int rows_per_head, slots;     // R up to this; heads * rows_per_head and r up to 32 * slots
  bool relu;                    // the kind of heads
  std::size_t shared_bytes;     // of a CTA
  void (*forward)(const ClusterForward&, cudaStream_t);
  void (*backward)(const ClusterBackward&, cudaStream_t);

  bool holds(const NruShape& shape) const;
  // What a step's time goes with.
  int weights() const { return (hidden + outputs) * (hidden + memory); }
};

std::vector<ClusterTile> linear_cluster_tiles();
std::vector<ClusterTile> relu_cluster_tiles();

// The cheapest tile for a cell; null if there is none, or the GPU has no clusters.
const ClusterTile* find_cluster_tile(const NruShape& shape);

}  // namespace nru::kernels::cuda
