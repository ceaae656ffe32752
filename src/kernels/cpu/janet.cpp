// JANET, pointwise part. One phase: [x, h'] -> gates.
//
//   f = s(a_f)   s2 = s(a_f - beta)   g = tanh(a_c)   h = f h' + (1 - s2) g
//
// Kept for the backward pass: f and g, in place of their pre-activations, and h. s2 is a function
// of f: e^-a_f = (1-f)/f, so s2 = f / (f + (1-f) e^beta), which costs a division and no
// exponential.
#include "kernels/janet.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/janet.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
// After foreach_target.h:
#include <hwy/highway.h>

#include <cmath>

#include "kernels/cpu/export.h"
#include "kernels/cpu/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nru::kernels {
namespace HWY_NAMESPACE {
namespace janet {

constexpr int kH = 1, kGates = 2;                              // parts; gates = f, g
constexpr int kWeightInput = 0, kWeightHidden = 1, kBias = 2;  // parameters

// s2; without beta it is f itself.
template <bool kBeta, class D, class V>
HWY_INLINE V shifted(D d, V f, V exp_beta) {
  if constexpr (!kBeta) return f;
  return hn::Div(f, hn::MulAdd(hn::Sub(hn::Set(d, 1), f), exp_beta, f));
}

template <class T, bool kBeta>
void forward(int H, T exp_beta, const Rows<T>& rows) {
  const hn::ScalableTag<T> d;
  const auto one = hn::Set(d, 1), e = hn::Set(d, exp_beta);
  for (int r = 0; r < rows.count; ++r) {
    T* gates = rows.current[kGates] + r * rows.ld[kGates];
    const T* h_prev = rows.previous[kH] + r * rows.ld[kH];
    T* h = rows.current[kH] + r * rows.ld[kH];
    for (int j = 0; j < H; j += vector_lanes<T>()) {
      const int n = H - j;
      const auto f = sigmoid(d, load_first(d, gates + j, n));
      const auto g = tanh(d, load_first(d, gates + H + j, n));
      const auto input = hn::Sub(one, shifted<kBeta>(d, f, e));
      store_first(d, f, n, gates + j);
      store_first(d, g, n, gates + H + j);
      store_first(d, hn::MulAdd(f, load_first(d, h_prev + j, n), hn::Mul(input, g)), n, h + j);
    }
  }
}

template <class T, bool kBeta>
void backward(int H, T exp_beta, const Rows<T>& rows) {
  const hn::ScalableTag<T> d;
  const auto one = hn::Set(d, 1), e = hn::Set(d, exp_beta);
  for (int r = 0; r < rows.count; ++r) {
    const T* gates = rows.current[kGates] + r * rows.ld[kGates];
    const T* h_prev = rows.previous[kH] + r * rows.ld[kH];
    T* dh_inout = rows.gradient[kH] + r * rows.ld[kH];
    T* da = rows.d_pre + r * rows.ld[kGates];
    for (int j = 0; j < H; j += vector_lanes<T>()) {
      const int n = H - j;
      const auto f = load_first(d, gates + j, n), g = load_first(d, gates + H + j, n);
      const auto h0 = load_first(d, h_prev + j, n), dh = load_first(d, dh_inout + j, n);
      const auto s2 = shifted<kBeta>(d, f, e), input = hn::Sub(one, s2);
      const auto slope_f = hn::Mul(f, hn::Sub(one, f));
      const auto df = kBeta ? hn::NegMulAdd(g, hn::Mul(s2, input), hn::Mul(h0, slope_f))
                            : hn::Mul(hn::Sub(h0, g), slope_f);
      store_first(d, hn::Mul(dh, df), n, da + j);
      store_first(d, hn::Mul(hn::Mul(dh, input), hn::NegMulAdd(g, g, one)), n, da + H + j);
      store_first(d, hn::Mul(dh, f), n, dh_inout + j);
    }
  }
}

template <class T>
Program<T> program(const JanetShape& shape) {
  const int I = shape.input, H = shape.hidden;
  const bool beta = shape.beta != 0;
  const T e = static_cast<T>(std::exp(shape.beta));
  Program<T> p;
  p.cell = "janet";
  p.shape = shape;
  p.parts = {
      {"x", I, PartKind::input}, {"h", H, PartKind::state, /*carries=*/true}, {"gates", 2 * H}};
  p.parameters = {{"weight_ih", 2 * H, I}, {"weight_hh", 2 * H, H}, {"bias_ih", 2 * H}};
  p.phases = {{kGates,
               {{kInput, false, kWeightInput, 0}, {kH, true, kWeightHidden, 0}},
               kBias,
               [=](const Rows<T>& rows) {
                 beta ? forward<T, true>(H, e, rows) : forward<T, false>(H, e, rows);
               },
               [=](const Rows<T>& rows) {
                 beta ? backward<T, true>(H, e, rows) : backward<T, false>(H, e, rows);
               }}};
  p.output = kH;
  return p;
}

}  // namespace janet

Program<float> janet_float(const JanetShape& shape) { return janet::program<float>(shape); }
Program<double> janet_double(const JanetShape& shape) { return janet::program<double>(shape); }

}  // namespace HWY_NAMESPACE
}  // namespace nru::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nru::kernels {
NRU_EXPORT_PROGRAM(janet, JanetShape);
}  // namespace nru::kernels
#endif
