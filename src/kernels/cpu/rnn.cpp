// RNN, pointwise part. One phase: [x, h'] -> a, h = f(a) or f(LN(a)).
//
// Kept for the backward pass: h, in place of a, whose value says what f' is; with layer norm, a as
// well. The pointwise functions are those of activation-inl.h.
#include "kernels/rnn.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rnn.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
// After foreach_target.h:
#include <hwy/highway.h>

#include "kernels/cpu/activation-inl.h"
#include "kernels/cpu/export.h"

HWY_BEFORE_NAMESPACE();
namespace nru::kernels {
namespace HWY_NAMESPACE {
namespace rnn {

constexpr int kH = 1, kPre = 2;  // parts; kPre with layer norm only
constexpr int kWeightInput = 0, kWeightHidden = 1, kBias = 2, kGamma = 3, kBeta = 4;  // parameters

template <class T>
Program<T> program(const RnnShape& shape) {
  const int I = shape.input, H = shape.hidden;
  Program<T> p;
  p.cell = "rnn";
  p.shape = shape;
  p.parts = {{"x", I, PartKind::input}, {"h", H, PartKind::state}};
  p.parameters = {{"weight_ih", H, I}, {"weight_hh", H, H}, {"bias_ih", H}};
  Activation f{.part = kH, .width = H, .tanh = shape.tanh};
  if (shape.layer_norm) {
    p.parts.push_back({"a", H});
    p.parameters.push_back({"norm_weight", H});
    p.parameters.push_back({"norm_bias", H});
    f.pre = kPre;
    f.gamma = kGamma;
    f.beta = kBeta;
  }
  p.phases = {activation_phase<T>(
      f, {{kInput, false, kWeightInput, 0}, {kH, true, kWeightHidden, 0}}, kBias)};
  p.output = kH;
  return p;
}

}  // namespace rnn

Program<float> rnn_float(const RnnShape& shape) { return rnn::program<float>(shape); }
Program<double> rnn_double(const RnnShape& shape) { return rnn::program<double>(shape); }

}  // namespace HWY_NAMESPACE
}  // namespace nru::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nru::kernels {
NRU_EXPORT_PROGRAM(rnn, RnnShape);
}  // namespace nru::kernels
#endif
