#include "kernels/cpu/packed_program.h"

#include <algorithm>

namespace nru::kernels {
namespace {

template <class T>
const T* block(const Segment& s, int columns, const T* const* parameters) {
  return parameters[s.parameter] + static_cast<std::ptrdiff_t>(s.row) * columns + s.column;
}

bool is_input(const Segment& s) { return s.part == kInput; }

}  // namespace

template <class T>
PackedProgram<T>::PackedProgram(const Program<T>& program)
    : program_(&program), ops_(&linear_ops<T>()) {
  const int phases = static_cast<int>(program.phases.size());
  for (int p = 0; p < phases; ++p) pieces_.push_back({p, -1});
  forward_pieces_ = phases;
  for (int p = 0; p < phases; ++p) {
    first_segment_.push_back(static_cast<int>(pieces_.size()) - phases);
    for (std::size_t s = 0; s < program.phases[p].segments.size(); ++s)
      pieces_.push_back({p, static_cast<int>(s)});
  }
  forward_.resize(phases);
  bias_.resize(phases);
  for (const Phase<T>& phase : program.phases) {
    reads_input_.push_back(std::any_of(phase.segments.begin(), phase.segments.end(), is_input));
  }
  input_share_.resize(phases);
  input_weights_.resize(phases);
  backward_.resize(pieces_.size() - phases);
}

template <class T>
int PackedProgram<T>::begin(const SequenceInputs<T>& inputs, bool backward, bool readout) {
  // Each slice has sums of its own to multiply for every row of the embedding.
  shares_input_ =
      inputs.embedding && std::int64_t{2} * slice_count(inputs.batch) * inputs.embedding_rows <=
                              std::int64_t{inputs.steps} * inputs.batch;
  return (backward ? static_cast<int>(pieces_.size()) : forward_pieces_) +
         (program_->prepare ? 1 : 0) + (readout ? 1 : 0);
}

template <class T>
void PackedProgram<T>::pack_piece(int piece, const SequenceInputs<T>& inputs,
                                  const Readout<T>* readout) {
  if (readout && piece-- == 0) return pack_readout(*readout);
  if (program_->prepare && piece-- == 0) {
    return program_->prepare(inputs.parameters, derived_.require(program_->derived));
  }
  const Piece& p = pieces_[piece];
  p.segment < 0 ? pack_forward(p.phase, inputs)
                : pack_backward(p.phase, p.segment, inputs.parameters);
}

template <class T>
void PackedProgram<T>::pack_forward(int phase_index, const SequenceInputs<T>& inputs) {
  const Phase<T>& phase = program_->phases[phase_index];
  const int outputs = program_->parts[phase.part].width;
  if (phase.bias >= 0) {
    T* bias = bias_[phase_index].require(padded_width<T>(outputs));  // padding stays zero
    std::copy_n(inputs.parameters[phase.bias] + phase.bias_row, outputs, bias);
  }
  if (shares_input_ && reads_input_[phase_index]) share_input(phase_index, inputs);
  const auto left_out = [&](const Segment& s) { return shares_input_ && is_input(s); };
  int depth = 0;
  for (const Segment& s : phase.segments) {
    if (!left_out(s)) depth += program_->parts[s.part].width;
  }
  T* packed = forward_[phase_index].require(ops_->packed_size(depth, outputs));
  int offset = 0;
  for (const Segment& s : phase.segments) {
    if (left_out(s)) continue;
    const int width = program_->parts[s.part].width;
    const int ld = program_->parameters[s.parameter].columns;
    ops_->pack(block(s, ld, inputs.parameters), width, outputs, 1, ld, packed, offset, depth);
    offset += width;
  }
}

template <class T>
void PackedProgram<T>::share_input(int phase_index, const SequenceInputs<T>& inputs) {
  const Phase<T>& phase = program_->phases[phase_index];
  const int width = program_->parts[kInput].width, outputs = program_->parts[phase.part].width;
  const int ld = padded_width<T>(outputs), rows = inputs.embedding_rows;
  T* share = input_share_[phase_index].require(static_cast<std::size_t>(rows + 1) * ld);
  for (int r = 0; r <= rows; ++r) {
    if (phase.bias >= 0)
      std::copy_n(bias_[phase_index].data(), ld, share + r * ld);
    else
      std::fill_n(share + r * ld, ld, T(0));
  }
  for (const Segment& s : phase.segments) {
    if (!is_input(s)) continue;
    const int columns = program_->parameters[s.parameter].columns;
    T* weights = input_weights_[phase_index].require(ops_->packed_size(width, outputs));
    ops_->pack(block(s, columns, inputs.parameters), width, outputs, 1, columns, weights, 0, width);
    const Operand<T> x{inputs.embedding, width, width};
    ops_->multiply(&x, 1, rows, weights, outputs, nullptr, true, share, ld);
  }
}

template <class T>
void PackedProgram<T>::pack_backward(int phase_index, int segment, const T* const* parameters) {
  const Phase<T>& phase = program_->phases[phase_index];
  const Segment& s = phase.segments[segment];
  const int outputs = program_->parts[phase.part].width, width = program_->parts[s.part].width;
  const int ld = program_->parameters[s.parameter].columns;
  T* packed =
      backward_[first_segment_[phase_index] + segment].require(ops_->packed_size(outputs, width));
  ops_->pack(block(s, ld, parameters), outputs, width, ld, 1, packed, 0, outputs);
}

template <class T>
void PackedProgram<T>::pack_readout(const Readout<T>& readout) {
  const int width = program_->parts[program_->output].width, classes = readout.classes;
  ops_->pack(readout.weight, width, classes, 1, width,
             readout_forward_.require(ops_->packed_size(width, classes)), 0, width);
  ops_->pack(readout.weight, classes, width, width, 1,
             readout_backward_.require(ops_->packed_size(classes, width)), 0, classes);
  std::copy_n(readout.bias, classes, readout_bias_.require(padded_width<T>(classes)));
}

template class PackedProgram<float>;
template class PackedProgram<double>;

}  // namespace nru::kernels
