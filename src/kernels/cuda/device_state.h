// The state that goes on from one batch to the next, on the device.
#pragma once

#include <memory>
#include <vector>

#include "kernels/cuda/device.h"
#include "kernels/program.h"

namespace nru::kernels::cuda {

class DeviceState {
 public:
  DeviceState(const Program<float>& program, int batch, StreamHandle stream);

  // By state part: [batch, width]. A sequence may start from it and leave its final state there.
  const std::vector<float*>& parts() const { return pointers_; }

  // Queues: a row with a magnitude above the limit, or a number that is not finite, anywhere,
  // becomes the initial one; it would spoil every later batch.
  void mend(float limit);

  // Part by part; an empty list, or an empty part: the initial state.
  void set(const std::vector<std::vector<float>>& state);
  std::vector<std::vector<float>> get();  // waits

 private:
  struct Part {
    int width = 0;
    float initial = 0;
    Buffer<float> values;
  };
  StreamHandle stream_;
  int batch_;
  std::vector<Part> parts_;
  std::vector<float*> pointers_;
  Buffer<int> bad_;  // [batch]
};

}  // namespace nru::kernels::cuda
