// Whole-sequence kernels: all steps of a sequence in one launch, with the recurrent weights
// resident on the chip. They take the place of the time loop of a Sequence and of nothing else: the
// input's share, output layer and loss, weight gradients, initial and final states are the same
// work on every path.
//
// A design (a way to lay a network out over the multiprocessors) takes the programs and batches
// that its compiled tile shapes hold; whatever none takes runs step by step, on the generic path. A
// file with a design enters it in the table here and changes nothing else.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "kernels/cuda/gemm.h"
#include "kernels/cuda/sequence.h"
#include "kernels/program.h"

namespace nru::kernels::cuda {

// The storage of a Sequence as a whole-sequence kernel sees it. Tables are host memory, values
// device memory; rows of part p are ld[p] apart, and the padding behind a part's width is zero and
// stays so.
struct PersistentCall {
  int steps = 0, batch = 0;
  const int* ld = nullptr;                   // by part
  const float* const* parameters = nullptr;  // by parameter, as the caller stores them
  const float* derived = nullptr;            // what DeviceCell::prepare made of them
  // By part: [steps + 1, batch, ld]. Slot 0 of a state part is the state before the first step;
  // step t belongs to slot t + 1. Before forward() slot t + 1 of a phase's part holds the share of
  // input and bias in its pre-activations; after it the part's values, as after the phase's
  // pointwise function. Parts that only the pointwise functions of the generic path need (norms)
  // stay unused, or are the design's own.
  float* const* slots = nullptr;
  // [batch], or null: all rows are as long as the sequence. A row is finished from the step
  // lengths[row] - begin of this call on: its states stay what they are, its d_pre is zero. Null
  // for designs that do not take lengths.
  const std::int64_t* lengths = nullptr;
  int begin = 0;
  // At least so many bytes for the kernels' own use, the same in each call unless more are asked
  // for: what forward() keeps there backward() finds. The Sequence's and not the kernels' own,
  // which go when others are chosen for another batch: a graph recorded before still points there.
  std::function<void*(std::size_t bytes)> memory;
  template <class T>
  T* memory_for(std::size_t count) const {
    return static_cast<T*>(memory(count * sizeof(T)));
  }
};

struct PersistentForward : PersistentCall {
  bool keep = false;               // a backward pass follows; otherwise the states suffice
  std::int64_t* events = nullptr;  // [batch, kEvents], to be added to
  // By part, or null if not asked for: bits of the largest magnitude of a state part, over the
  // steps of this call and what is there (atomicMax of unsigned: NaN is larger than all numbers).
  unsigned* largest = nullptr;
};

struct PersistentBackward : PersistentCall {
  // [steps, batch, ld]: the gradient that arrives at each step, from step bulk_first on; earlier
  // ones have none and hold anything. It is that of the program's output, or of the state that the
  // output is made of outside the time loop.
  const float* bulk = nullptr;
  int bulk_first = 0;
  // By part: [batch, width], the gradient of a row's last state; null (entry): zero.
  const float* const* final_state = nullptr;
  // To be written:
  float* const* d_pre = nullptr;     // by phase: [steps, batch, ld of its part]
  float* const* gradient = nullptr;  // by part, states only: [batch, ld], of the initial state
  // By parameter, those of DeviceCell::row_sums only: [batch, size], gradients of the parameter by
  // row of the batch.
  float* const* row_sums = nullptr;
  // SequenceGradients::state_limit; 0 for designs that do not take one.
  double state_limit = 0;
};

// The block of weights that a phase has for a part, as the caller stores it.
Matrix weight_block(const Program<float>& program, const PersistentCall& call, int phase, int part);

// The kernels of one design for one program. Both functions queue their work on the stream and may
// be recorded; the same call gives the same bits.
class Persistent {
 public:
  virtual ~Persistent() = default;
  virtual void forward(const PersistentForward& call, cudaStream_t stream) = 0;
  virtual void backward(const PersistentBackward& call, cudaStream_t stream) = 0;
};

struct PersistentDesign {
  std::string name;      // "rows", "cluster", "groups"
  int order = 0;         // of two designs that take a program, the one of the smaller order does
  bool lengths = false;  // rows of different lengths are taken
  // The kernels for this program and batch on the current device, or null if they do not fit.
  std::function<std::unique_ptr<Persistent>(const Program<float>&, int batch)> make;
  bool state_limit = false;  // the backward pass takes a state_limit
};

// Enters a design in the table. For a static object in the design's file.
struct PersistentDesignEntry {
  explicit PersistentDesignEntry(PersistentDesign design);
};

struct ChosenPath {
  std::string name = "generic";
  bool state_limit = true;              // the backward pass takes a state_limit
  std::unique_ptr<Persistent> kernels;  // null: the generic path
};
ChosenPath choose_path(const Program<float>& program, int batch, bool lengths, bool state_limit);

}  // namespace nru::kernels::cuda
