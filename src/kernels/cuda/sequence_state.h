// What a Sequence holds, and the one time loop of the device. Forward half: sequence_forward.cpp,
// backward half: sequence_backward.cpp.
//
// Storage of a part is [slots, batch, ld], as on the CPU: slot 0 is the initial state, step t of
// the window writes slot t+1. The input has no slots; it is multiplied for all steps of a window at
// once, into the storage of the phases that read it, where the products of the time loop add to it.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "kernels/backward_plan.h"
#include "kernels/cuda/device_cell.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/outer_sums.h"
#include "kernels/cuda/persistent.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/sequence.h"
#include "kernels/cuda/step_weights.h"

namespace nru::kernels::cuda {

// Throws std::logic_error where a phase has more segments than its weight gradients have room for.
void check_factors(const Program<float>& program);

struct SequenceCall {
  const SequenceInputs<float>* inputs = nullptr;
  const SequenceOutputs<float>* outputs = nullptr;
  const SequenceGradients<float>* gradients = nullptr;
  const Readout<float>* readout = nullptr;
};

struct Sequence::State {
  State(std::shared_ptr<const Program<float>> program, const SequenceOptions& options);

  void forward(const SequenceCall& call, bool keep, bool measure);
  void backward(const SequenceCall& call);
  SequenceResult result();

  std::shared_ptr<const Program<float>> program;
  DeviceCell cell;
  SequenceOptions options;
  cudaStream_t stream;
  Gemm gemm;
  BackwardPlan plan;
  std::vector<int> ld;      // by part
  std::vector<int> states;  // the state parts
  StepWeights weights;
  ChosenPath path;  // of the last call, and what it was chosen for
  int path_batch = 0;
  bool path_lengths = false, path_limited = false;
  Buffer<char> path_memory;  // PersistentCall::memory
  Buffer<float> derived;     // DeviceCell::derived

  // Forward.
  std::vector<Buffer<float>> storage;  // by part: [slots, batch, ld]
  Buffer<float> input;                 // [window, batch, I], unless the caller's can be used
  const float* x = nullptr;            // the window's input
  std::vector<float*> current;         // rows_at() fills these
  std::vector<const float*> previous;
  Buffer<float> logits;
  Buffer<double> losses;
  Buffer<unsigned> readout_ended;  // SmallReadout::ended

  // Backward: gradients of the parts at the step in hand; those that arrive in bulk and the d_pre
  // of all phases, for all steps.
  std::vector<Buffer<float>> gradient;  // by part: [batch, ld]
  std::vector<Buffer<float>> bulk;      // by part: [steps, batch, ld]
  std::vector<Buffer<float>> d_pre;     // by phase: [steps, batch, ld of its part]
  std::vector<Buffer<float>> row_sums;  // by parameter of DeviceCell::row_sums: [batch, size]
  std::vector<float*> gradient_pointers, bulk_pointers, row_sum_pointers;
  Buffer<float> sums_scratch;
  OuterSums outer_sums;
  bool output_gradient_done = false;  // by the forward pass, with the loss

  // Read back by result().
  Buffer<double> loss;
  Buffer<std::int64_t> events;  // [2, batch, kEvents]: of each row, and those of its last step
  int batch = 0;                // of the last call
  Buffer<unsigned> largest;     // by part: bits of the largest magnitude
  bool measured = false;

 private:
  int width(int part) const { return program->parts[part].width; }
  float* at(int part, int slot, int batch) {
    return storage[part].data() + static_cast<std::size_t>(slot) * batch * ld[part];
  }
  void choose(const SequenceCall& call);
  int window_steps(const SequenceInputs<float>& inputs, bool keep) const;
  Rows<float> rows_at(const SequenceCall& call, int slot, long long count);
  bool in_tiles(const StepProduct& product, int batch) const;
  void step_product(const StepProduct& product, const Product& operands);
  bool finishes_forward(int phase, int batch) const;
  bool finishes_backward(int phase, int batch) const;

  void begin_forward(const SequenceCall& call, int window, bool keep);
  bool share_input(const SequenceCall& call, const Steps& steps, int slot);
  void load_window(const SequenceCall& call, const Steps& steps, int slot);
  void run_step(const SequenceCall& call, int step, int slot);
  void fill_persistent_call(const SequenceCall& call, const Steps& steps, PersistentCall* whole);
  void run_steps(const SequenceCall& call, const Steps& steps, bool keep);
  void run_bulk_phases(const SequenceCall& call, const Steps& steps, int slot);
  void store_outputs(const SequenceCall& call, const Steps& steps, int slot);
  void run_readout(const SequenceCall& call, const Steps& steps, int slot);
  Matrix weight_block(const SequenceCall& call, const Segment& segment) const;

  void begin_backward(const SequenceCall& call);
  int load_output_gradient(const SequenceCall& call);
  void readout_gradient(const SequenceCall& call, int first);
  std::vector<OuterGroup> outer_groups(const SequenceCall& call, int bulk_first);
  void backward_bulk_phases(const SequenceCall& call, int first);
  void enter(const SequenceCall& call, int step, int bulk_first);
  void backward_phase(const SequenceCall& call, int phase, int step);
  void limit_state_gradient(const SequenceCall& call);
  void backward_steps(const SequenceCall& call, int bulk_first);
  void weight_gradients(const SequenceCall& call, int bulk_first);
  void form_product(const OuterGroup& group);
  void add_columns(const float* from, int ld, int width, long long rows, float* to);
  void input_gradient(const SequenceCall& call, int bulk_first);
};

}  // namespace nru::kernels::cuda
