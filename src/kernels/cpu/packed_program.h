// A program's parameters in the form the kernels read, made once per call: weights packed for the
// products of both directions, and what the cell itself derives from its parameters.
#pragma once

#include <vector>

#include "kernels/cpu/buffer.h"
#include "kernels/cpu/gemm.h"
#include "kernels/program.h"
#include "kernels/sequence.h"

namespace nru::kernels {

template <class T>
class PackedProgram {
 public:
  explicit PackedProgram(const Program<T>& program);

  // The work as independent pieces, for parallel_pieces(). The backward operands are needed by
  // backward passes only.
  int begin(const SequenceInputs<T>& inputs, bool backward, bool readout);  // how many
  void pack_piece(int piece, const SequenceInputs<T>& inputs, const Readout<T>* readout);

  // [sum of widths, outputs]; without x where its share is known.
  const T* forward(int phase) const { return forward_[phase].data(); }
  // Whether the inputs have an embedding of so few rows that phases know their share of each.
  bool shares_input() const { return shares_input_; }
  // Then, of a phase that reads x: W x + b for every row x of the embedding and, behind them, for
  // x = 0, [embedding_rows + 1, ld of the phase's part]. No step has to multiply by x. Else null.
  const T* input_share(int phase) const {
    return shares_input_ && reads_input_[phase] ? input_share_[phase].data() : nullptr;
  }
  const T* bias(int phase) const {
    return bias_[phase].data();
  }  // padded; null if the phase has none
  const T* backward(int phase, int segment) const {
    return backward_[first_segment_[phase] + segment].data();
  }
  const T* derived() const { return derived_.data(); }
  const T* readout() const { return readout_forward_.data(); }  // [output width, classes]
  const T* readout_bias() const { return readout_bias_.data(); }
  const T* readout_backward() const { return readout_backward_.data(); }  // [classes, output width]

 private:
  void pack_forward(int phase, const SequenceInputs<T>& inputs);
  void share_input(int phase, const SequenceInputs<T>& inputs);
  void pack_backward(int phase, int segment, const T* const* parameters);
  void pack_readout(const Readout<T>& readout);

  struct Piece {
    int phase, segment;  // segment -1: the forward operand
  };
  const Program<T>* program_;
  const LinearOps<T>* ops_;
  std::vector<Piece> pieces_;  // forward pieces first
  int forward_pieces_ = 0;
  std::vector<int> first_segment_;
  std::vector<Buffer<T>> forward_, bias_, backward_;
  bool shares_input_ = false;
  std::vector<char> reads_input_;                       // by phase, as are:
  std::vector<Buffer<T>> input_share_, input_weights_;  // the latter packed
  Buffer<T> derived_, readout_forward_, readout_bias_, readout_backward_;
};

}  // namespace nru::kernels
