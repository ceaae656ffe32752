// A slice whose x are rows of an embedding of few rows (50 characters, 19,200 positions in a window
// of the Penn Treebank). W x + b is formed once per row (PackedProgram::input_share), and on the
// way back the gradients of all positions with the same symbol are added up before anything is
// multiplied.
#include <cstring>

#include "kernels/cpu/slice.h"

namespace nru::kernels {

template <class T>
void Slice<T>::name_embedded(const SequenceInputs<T>& inputs, int begin, int end, int slot) {
  std::int32_t* to = embedded_.data() + static_cast<std::size_t>(slot) * rows_;
  for (int step = begin; step < end; ++step) {
    const std::int32_t* symbols =
        inputs.symbols + static_cast<std::size_t>(step) * inputs.batch + first_row_;
    for (int r = 0; r < rows_; ++r)  // what lies behind a row's length may be anything
      *to++ = finished(inputs, r, step) ? inputs.embedding_rows : symbols[r];
  }
}

template <class T>
void Slice<T>::accumulate_embedded(int phase, int begin, int end) {
  const int ld = ld_[program_->phases[phase].part], count = (end - begin) * rows_;
  const std::int32_t* names = embedded_.data() + static_cast<std::size_t>(begin) * rows_;
  for (int i = 0; i < count; ++i)
    ops_->add(d_pre_[phase].data() + i * ld, ld, d_share_[phase].data() + names[i] * ld);
}

// From the sums to the gradients of the input's weights and of the embedding.
template <class T>
void Slice<T>::finish_embedded(const SliceCall<T>& call) {
  const int w = width(kInput), ld_x = ld_[kInput], symbols = call.inputs->embedding_rows;
  const std::size_t size = static_cast<std::size_t>(symbols) * ld_x;
  T* x = input_gradient_.require(2 * size);  // padded with zeros, as the products want it
  T* d_x = x + size;
  std::memset(x, 0, 2 * size * sizeof(T));
  for (int v = 0; v < symbols; ++v)
    std::memcpy(x + v * ld_x, call.inputs->embedding + v * w, w * sizeof(T));
  for (std::size_t p = 0; p < program_->phases.size(); ++p) {
    const Phase<T>& phase = program_->phases[p];
    const int outputs = width(phase.part), ld = ld_[phase.part];
    for (std::size_t s = 0; s < phase.segments.size(); ++s) {
      const Segment& segment = phase.segments[s];
      if (segment.part != kInput) continue;
      const std::ptrdiff_t columns = program_->parameters[segment.parameter].columns;
      const Operand<T> d{d_share_[p].data(), ld, outputs};
      ops_->accumulate_outer(
          d.data, ld, outputs, x, ld_x, w, symbols,
          parameter_gradients_[segment.parameter] + segment.row * columns + segment.column,
          static_cast<int>(columns));
      ops_->multiply(&d, 1, symbols,
                     call.packed->backward(static_cast<int>(p), static_cast<int>(s)), w, nullptr,
                     true, d_x, ld_x);
    }
  }
  T* to = parameter_gradients_.back();
  for (int v = 0; v < symbols; ++v) std::memcpy(to + v * w, d_x + v * ld_x, w * sizeof(T));
}

template void Slice<float>::name_embedded(const SequenceInputs<float>&, int, int, int);
template void Slice<double>::name_embedded(const SequenceInputs<double>&, int, int, int);
template void Slice<float>::accumulate_embedded(int, int, int);
template void Slice<double>::accumulate_embedded(int, int, int);
template void Slice<float>::finish_embedded(const SliceCall<float>&);
template void Slice<double>::finish_embedded(const SliceCall<double>&);

}  // namespace nru::kernels
