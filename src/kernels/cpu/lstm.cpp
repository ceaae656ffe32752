// LSTM, pointwise part. One phase: [x, h'] -> gates.
//
//   i = s(a_i + p_i c')   f = s(a_f + p_f c')   g = tanh(a_g)
//   c = f c' + i g        o = s(a_o + p_o c)    h = o tanh(c)
//
// Kept for the backward pass: the activated gates, in place of the pre-activations (their
// derivatives are functions of their values), c and h. tanh(c) is computed again: cheaper than
// storing it.
#include "kernels/lstm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/lstm.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
// After foreach_target.h:
#include <hwy/highway.h>

#include "kernels/cpu/export.h"
#include "kernels/cpu/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nru::kernels {
namespace HWY_NAMESPACE {
namespace lstm {

constexpr int kH = 1, kC = 2, kGates = 3;                                     // parts
constexpr int kWeightInput = 0, kWeightHidden = 1, kBias = 2, kPeephole = 3;  // parameters

template <class T>
void forward(const LstmShape& shape, const Rows<T>& rows) {
  const hn::ScalableTag<T> d;
  const int H = shape.hidden;
  const T* peephole = shape.peephole ? rows.parameters[kPeephole] : nullptr;
  for (int r = 0; r < rows.count; ++r) {
    T* gates = rows.current[kGates] + r * rows.ld[kGates];
    const T* c_prev = rows.previous[kC] + r * rows.ld[kC];
    T* c_out = rows.current[kC] + r * rows.ld[kC];
    T* h_out = rows.current[kH] + r * rows.ld[kH];
    for (int j = 0; j < H; j += vector_lanes<T>()) {
      const int n = H - j;
      auto i = load_first(d, gates + j, n), f = load_first(d, gates + H + j, n);
      auto g = load_first(d, gates + 2 * H + j, n), o = load_first(d, gates + 3 * H + j, n);
      const auto c0 = load_first(d, c_prev + j, n);
      if (peephole) {
        i = hn::MulAdd(load_first(d, peephole + j, n), c0, i);
        f = hn::MulAdd(load_first(d, peephole + H + j, n), c0, f);
      }
      i = sigmoid(d, i);
      f = sigmoid(d, f);
      g = tanh(d, g);
      const auto c = hn::MulAdd(f, c0, hn::Mul(i, g));
      if (peephole) o = hn::MulAdd(load_first(d, peephole + 2 * H + j, n), c, o);
      o = sigmoid(d, o);
      store_first(d, i, n, gates + j);
      store_first(d, f, n, gates + H + j);
      store_first(d, g, n, gates + 2 * H + j);
      store_first(d, o, n, gates + 3 * H + j);
      store_first(d, c, n, c_out + j);
      store_first(d, hn::Mul(o, tanh(d, c)), n, h_out + j);
    }
  }
}

template <class T>
void backward(const LstmShape& shape, const Rows<T>& rows) {
  const hn::ScalableTag<T> d;
  const int H = shape.hidden;
  const T* peephole = shape.peephole ? rows.parameters[kPeephole] : nullptr;
  T* d_peephole = shape.peephole ? rows.parameter_gradients[kPeephole] : nullptr;
  const auto one = hn::Set(d, 1);
  for (int r = 0; r < rows.count; ++r) {
    const T* gates = rows.current[kGates] + r * rows.ld[kGates];
    const T* c_prev = rows.previous[kC] + r * rows.ld[kC];
    const T* c_out = rows.current[kC] + r * rows.ld[kC];
    const T* dh_in = rows.gradient[kH] + r * rows.ld[kH];
    T* dc_inout = rows.gradient[kC] + r * rows.ld[kC];
    T* da = rows.d_pre + r * rows.ld[kGates];
    for (int j = 0; j < H; j += vector_lanes<T>()) {
      const int n = H - j;
      const auto i = load_first(d, gates + j, n), f = load_first(d, gates + H + j, n);
      const auto g = load_first(d, gates + 2 * H + j, n), o = load_first(d, gates + 3 * H + j, n);
      const auto c0 = load_first(d, c_prev + j, n), c = load_first(d, c_out + j, n);
      const auto dh = load_first(d, dh_in + j, n);
      auto dc = load_first(d, dc_inout + j, n);
      const auto tc = tanh(d, c);
      const auto da_o = hn::Mul(hn::Mul(dh, tc), hn::Mul(o, hn::Sub(one, o)));
      dc = hn::MulAdd(hn::Mul(dh, o), hn::NegMulAdd(tc, tc, one), dc);
      if (peephole) dc = hn::MulAdd(da_o, load_first(d, peephole + 2 * H + j, n), dc);
      const auto da_f = hn::Mul(hn::Mul(dc, c0), hn::Mul(f, hn::Sub(one, f)));
      const auto da_i = hn::Mul(hn::Mul(dc, g), hn::Mul(i, hn::Sub(one, i)));
      const auto da_g = hn::Mul(hn::Mul(dc, i), hn::NegMulAdd(g, g, one));
      auto dc0 = hn::Mul(dc, f);
      if (peephole) {
        dc0 = hn::MulAdd(da_i, load_first(d, peephole + j, n), dc0);
        dc0 = hn::MulAdd(da_f, load_first(d, peephole + H + j, n), dc0);
        store_first(d, hn::MulAdd(da_i, c0, load_first(d, d_peephole + j, n)), n, d_peephole + j);
        store_first(d, hn::MulAdd(da_f, c0, load_first(d, d_peephole + H + j, n)), n,
                    d_peephole + H + j);
        store_first(d, hn::MulAdd(da_o, c, load_first(d, d_peephole + 2 * H + j, n)), n,
                    d_peephole + 2 * H + j);
      }
      store_first(d, da_i, n, da + j);
      store_first(d, da_f, n, da + H + j);
      store_first(d, da_g, n, da + 2 * H + j);
      store_first(d, da_o, n, da + 3 * H + j);
      store_first(d, dc0, n, dc_inout + j);
    }
  }
}

template <class T>
Program<T> program(const LstmShape& shape) {
  const int I = shape.input, H = shape.hidden;
  Program<T> p;
  p.cell = "lstm";
  p.shape = shape;
  p.parts = {{"x", I, PartKind::input},
             {"h", H, PartKind::state},
             {"c", H, PartKind::state, /*carries=*/true},
             {"gates", 4 * H}};
  p.parameters = {{"weight_ih", 4 * H, I}, {"weight_hh", 4 * H, H}, {"bias_ih", 4 * H}};
  if (shape.peephole) p.parameters.push_back({"weight_peephole", 3, H});
  p.phases = {{kGates,
               {{kInput, false, kWeightInput, 0}, {kH, true, kWeightHidden, 0}},
               kBias,
               [shape](const Rows<T>& rows) { forward<T>(shape, rows); },
               [shape](const Rows<T>& rows) { backward<T>(shape, rows); }}};
  p.output = kH;
  return p;
}

}  // namespace lstm

Program<float> lstm_float(const LstmShape& shape) { return lstm::program<float>(shape); }
Program<double> lstm_double(const LstmShape& shape) { return lstm::program<double>(shape); }

}  // namespace HWY_NAMESPACE
}  // namespace nru::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nru::kernels {
NRU_EXPORT_PROGRAM(lstm, LstmShape);
}  // namespace nru::kernels
#endif
