// Cells of gates (RNN, LSTM, GRU, JANET, SRU, GORU) over a whole sequence in one kernel, for hidden
// states of some hundred units: as for the NRU (cluster.h), a cluster of four CTAs keeps all
// recurrent weights on chip and carries four rows of the batch through all steps. Each CTA owns a
// quarter of the units; after every product the CTAs exchange what the next one reads.
//
// A cell's file (units_lstm.cu, ...) has its equations, loop and tiles; what all of them share is
// in units_kernel.cuh. Smaller cells run in a larger tile, padded with zeros.
#pragma once

#include <any>
#include <memory>

#include "kernels/cuda/persistent.h"

namespace nru::kernels::cuda {

struct UnitSequence {
  int steps, batch, hidden;
};

// Gradient that arrives at each step [steps, batch, ld], from step `first` on.
struct BulkGradient {
  const float* data;
  int first;
};

// Whether the current device has clusters, and CTAs of so much shared memory.
bool has_clusters(std::size_t shared_bytes);

template <class Kernels, class Shape>
std::unique_ptr<Persistent> make_units(const Program<float>& program, const Shape& shape) {
  if (!Kernels::holds(shape) || !has_clusters(Kernels::kSharedBytes)) return nullptr;
  return std::make_unique<Kernels>(program, shape);
}

// A cell's kernels as a design: those of the first tile that holds a shape, so smallest first.
template <class Shape, class... Kernels>
PersistentDesign unit_design() {
  return {"cluster", 10, false, [](const Program<float>& program, int) {
            const Shape* shape = std::any_cast<Shape>(&program.shape);
            std::unique_ptr<Persistent> made;
            if (shape) ((made = make_units<Kernels>(program, *shape)) || ...);
            return made;
          }};
}

}  // namespace nru::kernels::cuda
