// Runs a Program over whole sequences on a CUDA device, in float: forward, backward, and both with
// the output layer and its loss in between. The calls and structs are those of kernels/sequence.h,
// with device memory behind all pointers to values; tables of pointers are host memory.
//
// Calls queue their work on the stream and return; only result() waits. They may be recorded in a
// Graph (device.h): every size is known on the host, and nothing is read back. Results have the
// same bits every time: sums have a fixed order, and there are no atomics on floats.
//
// An object belongs to one stream. Several objects on streams of their own run side by side.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "kernels/cuda/device.h"
#include "kernels/sequence.h"

namespace nru::kernels::cuda {

// Whether a program's cell has CUDA kernels.
bool supports(const Program<float>& program);

// How the recurrence of a program runs on the current device: the name of a whole-sequence design
// (persistent.h) that takes it at this batch size, or "generic", step by step. state_limit: with
// that of SequenceGradients.
std::string path_of(const Program<float>& program, int batch, bool state_limit = false);

// Who forms the products inside the generic time loop.
enum class StepProducts {
  automatic,  // by size
  tiles,      // product.h
  cublas,
};

struct SequenceOptions {
  StreamHandle stream = nullptr;  // the default stream, which cannot be recorded
  bool tf32 = false;              // products through cuBLAS may round their operands to TF32
  StepProducts step_products = StepProducts::automatic;
  bool whole_sequence = true;  // false: the generic path, whatever path_of() says
  // Choose kernels whose backward pass takes a SequenceGradients::state_limit. Needed for forward()
  // with a backward() of that kind to follow; train() knows by itself.
  bool state_limit = false;
};

// Where the results of the last call lie, for kernels that read them.
struct DeviceResult {
  const double* loss = nullptr;
  const std::int64_t* events = nullptr;  // [batch, kEvents]
  int batch = 0;
  const unsigned* largest = nullptr;  // by part: the bits of the largest magnitude, a float
};

class Sequence {
 public:
  explicit Sequence(std::shared_ptr<const Program<float>> program,
                    const SequenceOptions& options = {});
  ~Sequence();
  Sequence(Sequence&&) noexcept;
  Sequence& operator=(Sequence&&) noexcept;

  // keep = store what backward() needs; without it memory does not grow with the number of steps.
  void forward(const SequenceInputs<float>& inputs, const SequenceOutputs<float>& outputs,
               bool keep);
  // After forward(keep = true) with the same inputs, any number of times.
  void backward(const SequenceInputs<float>& inputs, const SequenceGradients<float>& gradients);
  void train(const SequenceInputs<float>& inputs, const SequenceOutputs<float>& outputs,
             const Readout<float>& readout, const SequenceGradients<float>& gradients);
  void evaluate(const SequenceInputs<float>& inputs, const SequenceOutputs<float>& outputs,
                const Readout<float>& readout);

  // Waits for the stream; loss, events and largest magnitudes of the last call (or of the last
  // launch of a graph made of it).
  SequenceResult result();

  DeviceResult device_result() const;  // for what follows on the stream
  std::size_t stash_bytes() const;     // activations held for the backward pass

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace nru::kernels::cuda
