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
  int pieces(bool backward, bool readout) const;
  void pack_piece(int piece, const T* const* parameters, const Readout<T>* readout);

  const T* forward(int phase) const { return forward_[phase].data(); }  // [sum of widths, outputs]
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
  void pack_forward(int phase, const T* const* parameters);
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
  Buffer<T> derived_, readout_forward_, readout_bias_, readout_backward_;
};

}  // namespace nru::kernels
