// What the bridge asks of the kernels, whatever the device: a program over one batch of sequences,
// forward and back.
#pragma once

#include "kernels/sequence.h"

namespace nru {

// The pointers are to memory of the device. One object serves one forward pass and its backward
// passes.
template <class T>
class Runner {
 public:
  virtual ~Runner() = default;
  virtual void forward(const kernels::SequenceInputs<T>& inputs,
                       const kernels::SequenceOutputs<T>& outputs, bool keep) = 0;
  virtual void backward(const kernels::SequenceInputs<T>& inputs,
                        const kernels::SequenceGradients<T>& gradients) = 0;
};

}  // namespace nru
