// Phases that end in an activation of all their outputs: h = f(a), or h = f(LN(a)), f = ReLU or
// tanh. Shared by the NRU, the RNN and the SRU.
//
// Kept for the backward pass: h, whose value says what f' is. Without layer norm h takes the place
// of a; with it a part of its own keeps a.
#if defined(NRU_KERNELS_CPU_ACTIVATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NRU_KERNELS_CPU_ACTIVATION_INL_H_
#undef NRU_KERNELS_CPU_ACTIVATION_INL_H_
#else
#define NRU_KERNELS_CPU_ACTIVATION_INL_H_
#endif

#include <cstddef>
#include <utility>
#include <vector>

#include "kernels/cpu/layer_norm-inl.h"
#include "kernels/cpu/math-inl.h"
#include "kernels/program.h"

HWY_BEFORE_NAMESPACE();
namespace nru::kernels {
namespace HWY_NAMESPACE {

// In place, whole vectors: padding is zero and stays so; NaN stays NaN.
template <class T>
HWY_INLINE void relu_forward(T* h, std::ptrdiff_t count) {
  const hn::ScalableTag<T> d;
  for (std::ptrdiff_t j = 0; j < count; j += vector_lanes<T>()) {
    const auto a = hn::LoadU(d, h + j);
    hn::StoreU(hn::IfThenElse(hn::Lt(a, hn::Zero(d)), hn::Zero(d), a), d, h + j);
  }
}

template <class T>
HWY_INLINE void relu_backward(const T* h, const T* dh, std::ptrdiff_t count, T* da) {
  const hn::ScalableTag<T> d;
  for (std::ptrdiff_t j = 0; j < count; j += vector_lanes<T>()) {
    const auto open = hn::Gt(hn::LoadU(d, h + j), hn::Zero(d));
    hn::StoreU(hn::IfThenElseZero(open, hn::LoadU(d, dh + j)), d, da + j);
  }
}

// One row of n values, in place.
template <class T>
HWY_INLINE void tanh_forward(T* h, int n) {
  const hn::ScalableTag<T> d;
  for (int j = 0; j < n; j += vector_lanes<T>())
    store_first(d, tanh(d, load_first(d, h + j, n - j)), n - j, h + j);
}

template <class T>
HWY_INLINE void tanh_backward(const T* h, const T* dh, int n, T* da) {
  const hn::ScalableTag<T> d;
  for (int j = 0; j < n; j += vector_lanes<T>()) {
    const auto y = load_first(d, h + j, n - j);
    const auto slope = hn::NegMulAdd(y, y, hn::Set(d, 1));
    store_first(d, hn::Mul(load_first(d, dh + j, n - j), slope), n - j, da + j);
  }
}

struct Activation {
  int part = 0;  // h
  int width = 0;
  bool tanh = false;          // else ReLU
  int pre = -1;               // with layer norm: the part that keeps a
  int gamma = -1, beta = -1;  // and the parameters
};

template <class T>
void activation_forward(const Activation& f, const Rows<T>& rows) {
  const std::ptrdiff_t ld = rows.ld[f.part];
  T* h = rows.current[f.part];
  for (int r = 0; f.pre >= 0 && r < rows.count; ++r) {
    layer_norm_forward(rows.current[f.pre] + r * rows.ld[f.pre], rows.parameters[f.gamma],
                       rows.parameters[f.beta], f.width, h + r * ld);
  }
  if (f.tanh) {
    for (int r = 0; r < rows.count; ++r) tanh_forward(h + r * ld, f.width);
  } else {
    relu_forward(h, rows.count * ld);
  }
}

template <class T>
void activation_backward(const Activation& f, const Rows<T>& rows) {
  const std::ptrdiff_t ld = rows.ld[f.part];  // that of `pre`, too: the widths are the same
  const T *h = rows.current[f.part], *dh = rows.gradient[f.part];
  if (f.tanh) {
    for (int r = 0; r < rows.count; ++r)
      tanh_backward(h + r * ld, dh + r * ld, f.width, rows.d_pre + r * ld);
  } else {
    relu_backward(h, dh, rows.count * ld, rows.d_pre);
  }
  for (int r = 0; f.pre >= 0 && r < rows.count; ++r) {
    T* da = rows.d_pre + r * ld;
    layer_norm_backward(rows.current[f.pre] + r * ld, rows.parameters[f.gamma], da, f.width, da,
                        rows.parameter_gradients[f.gamma], rows.parameter_gradients[f.beta]);
  }
}

// The phase [segments] -> f.
template <class T>
Phase<T> activation_phase(const Activation& f, std::vector<Segment> segments, int bias,
                          bool recurrent = true) {
  Phase<T> phase;
  phase.part = f.pre >= 0 ? f.pre : f.part;
  phase.segments = std::move(segments);
  phase.bias = bias;
  phase.forward = [f](const Rows<T>& rows) { activation_forward<T>(f, rows); };
  phase.backward = [f](const Rows<T>& rows) { activation_backward<T>(f, rows); };
  phase.recurrent = recurrent;
  return phase;
}

}  // namespace HWY_NAMESPACE
}  // namespace nru::kernels
HWY_AFTER_NAMESPACE();
#endif
