// Some rows of the batch on their way through the whole sequence: their storage, and the one time
// loop of the CPU.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/backward_plan.h"
#include "kernels/cpu/buffer.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/packed_program.h"
#include "kernels/program.h"
#include "kernels/sequence.h"

namespace nru::kernels {

// Of a phase: run_phase() has their operands on the stack. Sequence refuses programs with more.
inline constexpr int kMostSegments = 8;

// Everything a slice reads that all slices share.
template <class T>
struct SliceCall {
  const SequenceInputs<T>* inputs = nullptr;
  const SequenceOutputs<T>* outputs = nullptr;
  const SequenceGradients<T>* gradients = nullptr;
  const Readout<T>* readout = nullptr;
  const PackedProgram<T>* packed = nullptr;
  bool measure = false;  // max_abs of the states and the output
};

template <class T>
class Slice {
 public:
  Slice(const Program<T>& program, int first_row, int rows);

  // keep: hold all steps for backward(); otherwise only a window of chunk_steps() at a time.
  void forward(const SliceCall<T>& call, bool keep);
  void backward(const SliceCall<T>& call);

  double loss() const { return loss_; }
  const std::array<std::int64_t, kEvents>& events() const { return events_; }
  T max_abs(int part) const { return max_abs_[part]; }
  std::size_t stash_bytes() const;

  // Gradient of a parameter over these rows; the readout's weight and bias follow the program's
  // parameters, and then the embedding.
  const T* parameter_gradient(int parameter) const { return parameter_gradients_[parameter]; }

 private:
  // Rows of all parts at `slot` (slot s holds the state before step s of the window, and the values
  // made in step s-1).
  T* at(int part, int slot) {
    return storage_[part].data() + static_cast<std::size_t>(slot) * rows_ * ld_[part];
  }
  int chunk_steps() const;
  int width(int part) const { return program_->parts[part].width; }
  Rows<T> rows_at(int slot, int count);

  void load_initial(const SequenceInputs<T>& inputs);
  void load_input(const SequenceInputs<T>& inputs, int begin, int end, int slot);
  void name_embedded(const SequenceInputs<T>& inputs, int begin, int end, int slot);
  void run_phase(const SliceCall<T>& call, int phase_index, int slot, int count);
  void hold_finished_rows(const SequenceInputs<T>& inputs, int step, int slot);
  void store_outputs(const SliceCall<T>& call, int begin, int end, int slot);
  void count_events(const SequenceInputs<T>& inputs, int first_step, int count);
  void measure(const SequenceInputs<T>& inputs, int begin, int end, int slot);
  void store_final(const SliceCall<T>& call, int slot);
  void copy_out(int part, int slot, int begin, int end, const SequenceInputs<T>& inputs,
                bool zero_finished, T* destination);

  void size_gradients(const SliceCall<T>& call);
  void load_final_gradient(const SliceCall<T>& call);
  void clear_parameter_gradients(const SliceCall<T>& call);
  bool load_output_gradient(const SliceCall<T>& call, int begin, int end);
  bool run_readout(const SliceCall<T>& call, int begin, int end, int slot, bool gradient);
  void backward_bulk_phases(const SliceCall<T>& call, int begin, int end);
  void backward_step(const SliceCall<T>& call, int step, int chunk_step, bool bulk);
  void backward_phase(const SliceCall<T>& call, int phase_index, int step, int chunk_step);
  void limit_state_gradient(double limit);
  void accumulate_weights(const SliceCall<T>& call, int begin, int end);
  void accumulate_embedded(int phase, int begin, int end);
  void finish_embedded(const SliceCall<T>& call);
  void store_input_gradient(const SliceCall<T>& call, int begin, int end);
  bool finished(const SequenceInputs<T>& inputs, int row, int step) const {
    return inputs.lengths && step >= inputs.lengths[first_row_ + row];
  }

  const Program<T>* program_;
  const LinearOps<T>* ops_;
  int first_row_, rows_;
  std::vector<int> ld_;      // by part
  std::vector<int> states_;  // the state parts
  BackwardPlan plan_;
  std::vector<Buffer<T>> storage_;  // by part: [slots, rows, ld]
  std::vector<T*> current_;         // rows_at() fills these
  std::vector<const T*> previous_;

  // Backward: gradients of the parts at the step in hand, d_pre of a chunk of steps, gradients that
  // arrive in bulk.
  std::vector<Buffer<T>> gradient_;  // by part: [rows, ld]
  std::vector<Buffer<T>> d_pre_;     // by phase: [chunk, rows, ld]
  std::vector<Buffer<T>>
      bulk_;  // by part: [chunk, rows, ld]; the output and what phases off the path read
  std::vector<T*> gradient_pointers_, bulk_pointers_;
  std::vector<Buffer<T>> held_;  // by state part: gradients of rows that are past their length
  Buffer<T> input_gradient_;     // [chunk, rows, ld]
  // Inputs with an embedding: the row of it that x is, and by phase the sum of d_pre over all x
  // that are this row [embedding_rows + 1, ld].
  Buffer<std::int32_t> embedded_;  // [window, rows]
  std::vector<Buffer<T>> d_share_;
  Buffer<T> parameter_storage_;
  std::vector<T*> parameter_gradients_;

  Buffer<T> accumulators_;  // Program::accumulators

  Buffer<T> logits_, position_weights_, scratch_;
  Buffer<std::int32_t> position_targets_, position_predictions_;

  double loss_ = 0;
  std::array<std::int64_t, kEvents> events_{};
  std::vector<std::int64_t> row_events_;  // [rows of a call to a phase, kEvents]
  std::vector<T> max_abs_;                // by part; zero for those not measured
};

}  // namespace nru::kernels
