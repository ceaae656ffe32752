// GRU, pointwise part.
//
//   reset before the product (the default)         reset after it (torch's)
//   [x, h']  -> r, z:  r, z = s(a);  rh = r h'     [x, h'] -> r, z
//   [x, rh]  -> n:     n = tanh(a)                 [h']    -> hn
//                      h = (1-z) n + z h'          [x]     -> n:  r, z = s(a);  n = tanh(a + r hn)
//                                                                 h = (1-z) n + z h'
//
// Kept for the backward pass: the activated gates and n, in place of their pre-activations, and the
// operand of the inner product or its result (rh or hn). What the last phase knows about the gates'
// gradients waits in the gradient of part rz until their phase is reached.
#include "kernels/gru.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gru.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
// After foreach_target.h:
#include <hwy/highway.h>

#include <algorithm>

#include "kernels/cpu/export.h"
#include "kernels/cpu/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nru::kernels {
namespace HWY_NAMESPACE {
namespace gru {

constexpr int kH = 1, kGates = 2, kInner = 3, kN = 4;  // parts; gates = r, z; inner = rh or hn
constexpr int kWeightInput = 0, kWeightHidden = 1, kBias = 2, kBiasInner = 3;  // parameters

// ---- reset before the product ----

template <class T>
void gates_forward(int H, const Rows<T>& rows) {
  const hn::ScalableTag<T> d;
  for (int row = 0; row < rows.count; ++row) {
    T* gates = rows.current[kGates] + row * rows.ld[kGates];
    const T* h_prev = rows.previous[kH] + row * rows.ld[kH];
    T* rh = rows.current[kInner] + row * rows.ld[kInner];
    for (int j = 0; j < H; j += vector_lanes<T>()) {
      const int n = H - j;
      const auto r = sigmoid(d, load_first(d, gates + j, n));
      const auto z = sigmoid(d, load_first(d, gates + H + j, n));
      store_first(d, r, n, gates + j);
      store_first(d, z, n, gates + H + j);
      store_first(d, hn::Mul(r, load_first(d, h_prev + j, n)), n, rh + j);
    }
  }
}

template <class T>
void gates_backward(int H, const Rows<T>& rows) {
  const hn::ScalableTag<T> d;
  const auto one = hn::Set(d, 1);
  for (int row = 0; row < rows.count; ++row) {
    const T* gates = rows.current[kGates] + row * rows.ld[kGates];
    const T* h_prev = rows.previous[kH] + row * rows.ld[kH];
    const T* d_rh = rows.gradient[kInner] + row * rows.ld[kInner];
    const T* d_gates = rows.gradient[kGates] + row * rows.ld[kGates];
    T* dh = rows.gradient[kH] + row * rows.ld[kH];  // already that of h'
    T* da = rows.d_pre + row * rows.ld[kGates];
    for (int j = 0; j < H; j += vector_lanes<T>()) {
      const int n = H - j;
      const auto r = load_first(d, gates + j, n), q = load_first(d, d_rh + j, n);
      const auto dr = hn::Mul(q, load_first(d, h_prev + j, n));
      store_first(d, hn::MulAdd(q, r, load_first(d, dh + j, n)), n, dh + j);
      store_first(d, hn::Mul(dr, hn::Mul(r, hn::Sub(one, r))), n, da + j);
      store_first(d, load_first(d, d_gates + H + j, n), n, da + H + j);
    }
  }
}

template <class T>
void blend_forward(int H, const Rows<T>& rows) {
  const hn::ScalableTag<T> d;
  const auto one = hn::Set(d, 1);
  for (int row = 0; row < rows.count; ++row) {
    const T* gates = rows.current[kGates] + row * rows.ld[kGates];
    const T* h_prev = rows.previous[kH] + row * rows.ld[kH];
    T* candidate = rows.current[kN] + row * rows.ld[kN];
    T* h = rows.current[kH] + row * rows.ld[kH];
    for (int j = 0; j < H; j += vector_lanes<T>()) {
      const int n = H - j;
      const auto z = load_first(d, gates + H + j, n), h0 = load_first(d, h_prev + j, n);
      const auto c = tanh(d, load_first(d, candidate + j, n));
      store_first(d, c, n, candidate + j);
      store_first(d, hn::MulAdd(z, h0, hn::Mul(hn::Sub(one, z), c)), n, h + j);
    }
  }
}

template <class T>
void blend_backward(int H, const Rows<T>& rows) {
  const hn::ScalableTag<T> d;
  const auto one = hn::Set(d, 1);
  for (int row = 0; row < rows.count; ++row) {
    const T* gates = rows.current[kGates] + row * rows.ld[kGates];
    const T* h_prev = rows.previous[kH] + row * rows.ld[kH];
    const T* candidate = rows.current[kN] + row * rows.ld[kN];
    T* d_gates = rows.gradient[kGates] + row * rows.ld[kGates];
    T* dh_inout = rows.gradient[kH] + row * rows.ld[kH];
    T* da = rows.d_pre + row * rows.ld[kN];
    for (int j = 0; j < H; j += vector_lanes<T>()) {
      const int n = H - j;
      const auto z = load_first(d, gates + H + j, n), h0 = load_first(d, h_prev + j, n);
      const auto c = load_first(d, candidate + j, n), dh = load_first(d, dh_inout + j, n);
      const auto closed = hn::Sub(one, z), dz = hn::Mul(dh, hn::Sub(h0, c));
      store_first(d, hn::Mul(hn::Mul(dh, closed), hn::NegMulAdd(c, c, one)), n, da + j);
      store_first(d, hn::Mul(dz, hn::Mul(z, closed)), n, d_gates + H + j);
      store_first(d, hn::Mul(dh, z), n, dh_inout + j);
    }
  }
}

// ---- reset after the product ----

template <class T>
void after_forward(int H, const Rows<T>& rows) {
  const hn::ScalableTag<T> d;
  const auto one = hn::Set(d, 1);
  for (int row = 0; row < rows.count; ++row) {
    T* gates = rows.current[kGates] + row * rows.ld[kGates];
    const T* inner = rows.current[kInner] + row * rows.ld[kInner];
    const T* h_prev = rows.previous[kH] + row * rows.ld[kH];
    T* candidate = rows.current[kN] + row * rows.ld[kN];
    T* h = rows.current[kH] + row * rows.ld[kH];
    for (int j = 0; j < H; j += vector_lanes<T>()) {
      const int n = H - j;
      const auto r = sigmoid(d, load_first(d, gates + j, n));
      const auto z = sigmoid(d, load_first(d, gates + H + j, n));
      const auto a = load_first(d, candidate + j, n), h0 = load_first(d, h_prev + j, n);
      const auto c = tanh(d, hn::MulAdd(r, load_first(d, inner + j, n), a));
      store_first(d, r, n, gates + j);
      store_first(d, z, n, gates + H + j);
      store_first(d, c, n, candidate + j);
      store_first(d, hn::MulAdd(z, h0, hn::Mul(hn::Sub(one, z), c)), n, h + j);
    }
  }
}

template <class T>
void after_backward(int H, const Rows<T>& rows) {
  const hn::ScalableTag<T> d;
  const auto one = hn::Set(d, 1);
  for (int row = 0; row < rows.count; ++row) {
    const T* gates = rows.current[kGates] + row * rows.ld[kGates];
    const T* inner = rows.current[kInner] + row * rows.ld[kInner];
    const T* h_prev = rows.previous[kH] + row * rows.ld[kH];
    const T* candidate = rows.current[kN] + row * rows.ld[kN];
    T* d_gates = rows.gradient[kGates] + row * rows.ld[kGates];
    T* d_inner = rows.gradient[kInner] + row * rows.ld[kInner];
    T* dh_inout = rows.gradient[kH] + row * rows.ld[kH];
    T* da = rows.d_pre + row * rows.ld[kN];
    for (int j = 0; j < H; j += vector_lanes<T>()) {
      const int n = H - j;
      const auto r = load_first(d, gates + j, n), z = load_first(d, gates + H + j, n);
      const auto h0 = load_first(d, h_prev + j, n), c = load_first(d, candidate + j, n);
      const auto dh = load_first(d, dh_inout + j, n);
      const auto closed = hn::Sub(one, z), dz = hn::Mul(dh, hn::Sub(h0, c));
      const auto da_n = hn::Mul(hn::Mul(dh, closed), hn::NegMulAdd(c, c, one));
      const auto dr = hn::Mul(da_n, load_first(d, inner + j, n));
      store_first(d, da_n, n, da + j);
      store_first(d, hn::Mul(da_n, r), n, d_inner + j);
      store_first(d, hn::Mul(dr, hn::Mul(r, hn::Sub(one, r))), n, d_gates + j);
      store_first(d, hn::Mul(dz, hn::Mul(z, closed)), n, d_gates + H + j);
      store_first(d, hn::Mul(dh, z), n, dh_inout + j);
    }
  }
}

// For a phase whose result the last one has used up, and whose d_pre it has left in the gradient.
template <class T>
void leave_forward(const Rows<T>&) {}

template <class T>
void leave_backward(int part, const Rows<T>& rows) {
  std::copy_n(rows.gradient[part], static_cast<std::size_t>(rows.count) * rows.ld[part],
              rows.d_pre);
}

// ---- programs ----

template <class T>
Program<T> program(const GruShape& shape) {
  const int I = shape.input, H = shape.hidden;
  Program<T> p;
  p.cell = "gru";
  p.shape = shape;
  p.parts = {{"x", I, PartKind::input},
             {"h", H, PartKind::state, /*carries=*/true},
             {"rz", 2 * H},
             {shape.reset_after ? "hn" : "rh", H},
             {"n", H}};
  p.parameters = {{"weight_ih", 3 * H, I}, {"weight_hh", 3 * H, H}, {"bias_ih", 3 * H}};
  Phase<T> gates, candidate;
  gates.part = kGates;
  gates.segments = {{kInput, false, kWeightInput, 0}, {kH, true, kWeightHidden, 0}};
  gates.bias = kBias;
  candidate.part = kN;
  candidate.segments = {{kInput, false, kWeightInput, 0, 2 * H}};
  candidate.bias = kBias;
  candidate.bias_row = 2 * H;
  if (!shape.reset_after) {
    gates.forward = [H](const Rows<T>& rows) { gates_forward<T>(H, rows); };
    gates.backward = [H](const Rows<T>& rows) { gates_backward<T>(H, rows); };
    candidate.segments.push_back({kInner, false, kWeightHidden, 0, 2 * H});
    candidate.forward = [H](const Rows<T>& rows) { blend_forward<T>(H, rows); };
    candidate.backward = [H](const Rows<T>& rows) { blend_backward<T>(H, rows); };
    p.phases = {gates, candidate};
  } else {
    p.parameters.push_back({"bias_hn", H});
    gates.forward = leave_forward<T>;
    gates.backward = [](const Rows<T>& rows) { leave_backward<T>(kGates, rows); };
    Phase<T> inner;
    inner.part = kInner;
    inner.segments = {{kH, true, kWeightHidden, 0, 2 * H}};
    inner.bias = kBiasInner;
    inner.forward = leave_forward<T>;
    inner.backward = [](const Rows<T>& rows) { leave_backward<T>(kInner, rows); };
    candidate.forward = [H](const Rows<T>& rows) { after_forward<T>(H, rows); };
    candidate.backward = [H](const Rows<T>& rows) { after_backward<T>(H, rows); };
    p.phases = {gates, inner, candidate};
  }
  p.output = kH;
  return p;
}

}  // namespace gru

Program<float> gru_float(const GruShape& shape) { return gru::program<float>(shape); }
Program<double> gru_double(const GruShape& shape) { return gru::program<double>(shape); }

}  // namespace HWY_NAMESPACE
}  // namespace nru::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nru::kernels {
NRU_EXPORT_PROGRAM(gru, GruShape);
}  // namespace nru::kernels
#endif
