// RNN, pointwise part on the device. One phase: [x, h'] -> a, h = f(a) or f(LN(a)): activation.cu.
#include "kernels/rnn.h"

#include "kernels/cuda/activation.h"

namespace nru::kernels::cuda {
namespace {

constexpr int kH = 1, kPre = 2;       // parts; kPre with layer norm only
constexpr int kGamma = 3, kBeta = 4;  // parameters

DeviceCell cell(const Program<float>& program) {
  const auto shape = std::any_cast<RnnShape>(program.shape);
  Activation f{kH, shape.hidden, shape.tanh};
  DeviceCell c;
  if (shape.layer_norm) {
    f.pre = kPre;
    f.gamma = kGamma;
    f.beta = kBeta;
    c.row_sums = {kGamma, kBeta};
  }
  c.phases = {activation_phase(f)};
  return c;
}

const DeviceCellEntry entry("rnn", cell);

}  // namespace
}  // namespace nru::kernels::cuda
