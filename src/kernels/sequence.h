// Runs a Program over whole sequences on the CPU: forward, backward, and both with the output layer
// in one pass.
//
// The batch is cut into slices of rows. A slice runs through the whole sequence on one thread
// without waiting for the others; the cut depends on the batch size alone and the slices' weight
// gradients are added in a fixed order, so the result has the same bits on any number of threads.
//
// All arrays below belong to the caller, are dense row-major, and must outlive the call.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/program.h"

namespace nru::kernels {

template <class T>
struct SequenceInputs {
  int steps = 0;                          // T
  int batch = 0;                          // B
  const T* const* parameters = nullptr;   // by parameter of the program
  const T* dense = nullptr;               // [T, B, I], or:
  const std::int32_t* symbols = nullptr;  // [T, B], each a one-hot input of width I, or a row of
  const T* embedding = nullptr;           // [embedding_rows, I]; CPU only
  int embedding_rows = 0;
  const T* const* initial = nullptr;  // by state part, in order: [B, width]; null: Part::initial
  const std::int64_t* lengths = nullptr;  // [B], 1..T; null = all T
};

template <class T>
struct SequenceOutputs {
  T* output = nullptr;              // [T, B, output width]; zero behind a row's length
  T* const* states = nullptr;       // by state part: [T, B, width], every step's state
  T* const* final_state = nullptr;  // by state part: [B, width], the state at each row's length
};

template <class T>
struct SequenceGradients {
  // In:
  const T* output = nullptr;              // [T, B, output width]; null = zero
  const T* const* final_state = nullptr;  // by state part: [B, width]; null (array or entry) = zero
  // Out, each overwritten; null = not wanted:
  T* const* parameters = nullptr;  // by parameter
  T* input = nullptr;              // [T, B, I]
  T* embedding = nullptr;          // [embedding_rows, I]
  T* const* initial = nullptr;     // by state part: [B, width]
  // What a step sends back to the state before it is, for each row, scaled down to this norm (over
  // all parts together) where it is longer; 0: never. A row that is about to tip over then cannot
  // drown all others: the gradients are no longer those of the loss.
  double state_limit = 0;
};

// Output layer and softmax cross-entropy: loss = scale * sum over positions of weight * -log
// softmax(V y + c)[target].
template <class T>
struct Readout {
  int classes = 0;
  const T* weight = nullptr;              // V [classes, output width]
  const T* bias = nullptr;                // c [classes]
  const std::int32_t* targets = nullptr;  // [T, B]
  const float* weights = nullptr;         // [T, B]; null = 1
  int first_step = 0;                     // earlier steps have no loss
  double scale = 1;
  T* weight_gradient = nullptr;  // overwritten by train()
  T* bias_gradient = nullptr;
  std::int32_t* predictions =
      nullptr;  // [T, B] most likely class, from first_step on; null = not wanted
};

struct SequenceResult {
  double loss = 0;
  std::array<std::int64_t, kEvents> events{};
  // Largest magnitudes over all steps; filled by train() and evaluate().
  std::vector<double> max_abs;  // by state part
  double max_output = 0;        // of the output, which need not be a state part
};

template <class T>
class Sequence {
 public:
  // threads = 0: available_threads().
  explicit Sequence(std::shared_ptr<const Program<T>> program, int threads = 0);
  ~Sequence();
  Sequence(Sequence&&) noexcept;
  Sequence& operator=(Sequence&&) noexcept;

  // keep = store what backward() needs; without it memory does not grow with the number of steps.
  SequenceResult forward(const SequenceInputs<T>& inputs, const SequenceOutputs<T>& outputs,
                         bool keep);

  // After forward(keep = true) with the same inputs, any number of times.
  void backward(const SequenceInputs<T>& inputs, const SequenceGradients<T>& gradients);

  // Forward, loss and all gradients, one slice after the other while its activations are in cache.
  SequenceResult train(const SequenceInputs<T>& inputs, const SequenceOutputs<T>& outputs,
                       const Readout<T>& readout, const SequenceGradients<T>& gradients);

  // Forward and loss only.
  SequenceResult evaluate(const SequenceInputs<T>& inputs, const SequenceOutputs<T>& outputs,
                          const Readout<T>& readout);

  std::size_t stash_bytes() const;  // activations held for the backward pass

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The cut of a batch into slices: number of slices, and the first row of slice i (i = slices gives
// the batch size).
int slice_count(int batch);
int slice_begin(int batch, int slice);

}  // namespace nru::kernels
