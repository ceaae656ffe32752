// Clipping and Adam on flat buffers on the device: kernels/optimizer.h with nothing that the host
// must know. The norm (in float64), the decision whether to skip, and the step counter stay on the
// device, so that a whole update can be one Graph; report() reads them back when asked.
#pragma once

#include <cstdint>

#include "kernels/cuda/device.h"
#include "kernels/optimizer.h"

namespace nru::kernels::cuda {

struct AdamReport {
  std::int64_t steps = 0;           // updates applied
  std::int64_t skipped = 0;         // updates skipped because of their loss or gradient
  std::int64_t skipped_in_row = 0;  // of those, the newest without one applied in between
  double norm = 0;                  // of the newest gradient, before clipping
  Caution caution = {};             // set by resume() alone
};

class Adam {
 public:
  // max_norm 0: never clip.
  Adam(const AdamSettings& settings, double max_norm, StreamHandle stream);

  // One update of `count` values. All arrays are device memory. If the gradient's norm, or *loss
  // (null: not looked at), is not finite, or the loss is larger than caution allows, nothing
  // changes and the update counts as skipped.
  void update(const float* gradient, const double* loss, AdamState state, std::int64_t count);

  AdamReport report();  // waits for the stream
  const AdamReport* device_report() const;
  void resume(const AdamReport& earlier);  // to go on from these counters

  struct Control;  // what lies on the device

 private:
  AdamSettings settings_;
  double max_norm_;
  StreamHandle stream_;
  Buffer<Control> control_;
  Buffer<double> sums_;
};

}  // namespace nru::kernels::cuda
