// GORU, pointwise part. Two phases: [x, h'] -> gates r g, and [x] -> u.
//
//   r = s(a_r)   g = s(a_g)
//   u = r (Q h') + U_c x   c = modReLU(u; b)   h = g h' + (1 - g) c
//
// The butterfly Q (butterfly-inl.h) is part of the pointwise function: its pairs lie within a row.
// Kept for the backward pass: the activated gates and u, in place of the pre-activations, and h; c
// and Q h' are computed again.
#include "kernels/goru.h"

#include <memory>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/goru.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
// After foreach_target.h:
#include <hwy/highway.h>

#include "kernels/cpu/butterfly-inl.h"
#include "kernels/cpu/export.h"
#include "kernels/cpu/math-inl.h"
#include "kernels/cpu/modrelu-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nru::kernels {
namespace HWY_NAMESPACE {
namespace goru {

constexpr int kH = 1, kGates = 2, kU = 3;  // parts
constexpr int kTheta = 0, kWeightCandidate = 1, kWeightInput = 2, kWeightHidden = 3, kBiasGates = 4,
              kBiasCandidate = 5;  // parameters

template <class T>
void gates_forward(const GoruShape& shape, const Rows<T>& rows) {
  const hn::ScalableTag<T> d;
  const int width = 2 * shape.hidden;
  for (int i = 0; i < rows.count; ++i) {
    T* gates = rows.current[kGates] + i * rows.ld[kGates];
    for (int j = 0; j < width; j += vector_lanes<T>())
      store_first(d, sigmoid(d, load_first(d, gates + j, width - j)), width - j, gates + j);
  }
}

template <class T>
void gates_backward(const GoruShape& shape, const Rows<T>& rows) {
  const hn::ScalableTag<T> d;
  const int width = 2 * shape.hidden;
  const auto one = hn::Set(d, 1);
  for (int i = 0; i < rows.count; ++i) {
    const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(i) * rows.ld[kGates];
    const T* gates = rows.current[kGates] + at;
    const T* d_gates = rows.gradient[kGates] + at;
    T* da = rows.d_pre + at;
    for (int j = 0; j < width; j += vector_lanes<T>()) {
      const auto s = load_first(d, gates + j, width - j);
      const auto ds = load_first(d, d_gates + j, width - j);
      store_first(d, hn::Mul(ds, hn::Mul(s, hn::Sub(one, s))), width - j, da + j);
    }
  }
}

template <class T>
struct Candidate {
  GoruShape shape;
  ButterflyKernel<T, 1> butterfly;
  using Value = typename ButterflyKernel<T, 1>::Value;

  template <int R>
  void forward(const Rows<T>& rows, int first) const {
    const hn::ScalableTag<T> d;
    const int n = shape.hidden;
    const T* b = rows.parameters[kBiasCandidate];
    const T* gate_rows = rows.current[kGates] + first * rows.ld[kGates];
    const T* h_prev_rows = rows.previous[kH] + first * rows.ld[kH];
    T* u_rows = rows.current[kU] + first * rows.ld[kU];
    T* h_rows = rows.current[kH] + first * rows.ld[kH];
    const auto eps = hn::Set(d, static_cast<T>(shape.epsilon));
    butterfly.template load<R>(h_prev_rows, rows.ld[kH], rows.scratch);
    butterfly.template forward<R>(
        rows.derived, rows.scratch, [&](int v, int i, const Value& y) HWY_ATTR {
          const int j = v * vector_lanes<T>(), left = n - j;
          const T* gates = gate_rows + i * rows.ld[kGates] + j;
          T* u_at = u_rows + i * rows.ld[kU] + j;
          const auto r = load_first(d, gates, left), g = load_first(d, gates + n, left);
          const Value u{{hn::MulAdd(r, y.part[0], load_first(d, u_at, left))}};
          store_first(d, u.part[0], left, u_at);
          const auto c = modrelu(d, shape.modrelu, eps, load_first(d, b + j, left), u).part[0];
          const auto h_prev = load_first(d, h_prev_rows + i * rows.ld[kH] + j, left);
          // Not c + g (h' - c), which would not hold h' exactly at g = 1.
          const auto h = hn::MulAdd(g, h_prev, hn::NegMulAdd(g, c, c));
          store_first(d, h, left, h_rows + i * rows.ld[kH] + j);
        });
  }

  template <int R>
  void backward(const Rows<T>& rows, int first) const {
    const hn::ScalableTag<T> d;
    const int n = shape.hidden;
    const T* b = rows.parameters[kBiasCandidate];
    T* d_b = rows.parameter_gradients[kBiasCandidate];
    const T* gate_rows = rows.current[kGates] + first * rows.ld[kGates];
    T* d_gate_rows = rows.gradient[kGates] + first * rows.ld[kGates];
    const T* h_prev_rows = rows.previous[kH] + first * rows.ld[kH];
    const T* u_rows = rows.current[kU] + first * rows.ld[kU];
    T* du_rows = rows.d_pre + first * rows.ld[kU];
    T* dh_rows = rows.gradient[kH] + first * rows.ld[kH];
    const auto eps = hn::Set(d, static_cast<T>(shape.epsilon));
    T* x = rows.scratch;
    T* dx = x + butterfly.scratch();
    butterfly.template load<R>(h_prev_rows, rows.ld[kH], x);
    butterfly.template backward<R>(
        rows.derived, x, dx, rows.accumulators, [&](int v, int i, const Value& y) HWY_ATTR {
          const int j = v * vector_lanes<T>(), left = n - j;
          const T* gates = gate_rows + i * rows.ld[kGates] + j;
          T* d_gates = d_gate_rows + i * rows.ld[kGates] + j;
          T* dh_at = dh_rows + i * rows.ld[kH] + j;
          const auto r = load_first(d, gates, left), g = load_first(d, gates + n, left);
          const auto h_prev = load_first(d, h_prev_rows + i * rows.ld[kH] + j, left);
          const auto dh = load_first(d, dh_at, left), bias = load_first(d, b + j, left);
          const Value u{{load_first(d, u_rows + i * rows.ld[kU] + j, left)}};
          const auto c = modrelu(d, shape.modrelu, eps, bias, u).part[0];
          Value du{{hn::NegMulAdd(g, dh, dh)}};  // dc
          const auto db = modrelu_backward(d, shape.modrelu, eps, bias, u, du);
          store_first(d, hn::Add(load_first(d, d_b + j, left), db), left, d_b + j);
          store_first(d, du.part[0], left, du_rows + i * rows.ld[kU] + j);
          store_first(d, hn::Mul(du.part[0], y.part[0]), left, d_gates);
          store_first(d, hn::Mul(dh, hn::Sub(h_prev, c)), left, d_gates + n);
          store_first(d, hn::Mul(dh, g), left, dh_at);
          return Value{{hn::Mul(du.part[0], r)}};
        });
    butterfly.template store<R, true>(dx, dh_rows, rows.ld[kH]);
  }
};

template <class T>
Program<T> program(const GoruShape& shape) {
  const int I = shape.input, n = shape.hidden;
  Program<T> p;
  p.cell = "goru";
  p.shape = shape;
  p.parts = {{"x", I, PartKind::input},
             {"h", n, PartKind::state, /*carries=*/true},
             {"gates", 2 * n},
             {"u", n}};
  p.parameters = {{"theta", Butterfly(n).angles(), 0, /*rotations=*/1},
                  {"weight_candidate", n, I},
                  {"weight_ih", 2 * n, I},
                  {"weight_hh", 2 * n, n},
                  {"bias_ih", 2 * n},
                  {"bias_candidate", n}};
  const auto candidate =
      std::make_shared<const Candidate<T>>(Candidate<T>{shape, ButterflyKernel<T, 1>(n)});
  p.phases = {{kGates,
               {{kInput, false, kWeightInput, 0}, {kH, true, kWeightHidden, 0}},
               kBiasGates,
               [shape](const Rows<T>& rows) { gates_forward<T>(shape, rows); },
               [shape](const Rows<T>& rows) { gates_backward<T>(shape, rows); }},
              {kU,
               {{kInput, false, kWeightCandidate, 0}},
               -1,
               [candidate](const Rows<T>& rows) {
                 for_row_blocks(rows.count, [&](auto size, int first) HWY_ATTR {
                   candidate->template forward<size.value>(rows, first);
                 });
               },
               [candidate](const Rows<T>& rows) {
                 for_row_blocks(rows.count, [&](auto size, int first) HWY_ATTR {
                   candidate->template backward<size.value>(rows, first);
                 });
               }}};
  p.output = kH;
  const auto& butterfly = candidate->butterfly;
  p.scratch = 2 * butterfly.scratch();
  p.derived = butterfly.angles.table_size();
  p.prepare = [candidate](const T* const* parameters, T* derived) {
    candidate->butterfly.angles.prepare(parameters[kTheta], nullptr, nullptr, derived);
  };
  p.accumulators = butterfly.angles.sums_size();
  p.finish = [candidate](const T* sums, T* const* gradients) {
    candidate->butterfly.angles.finish(sums, gradients[kTheta], nullptr, nullptr);
  };
  return p;
}

}  // namespace goru

Program<float> goru_float(const GoruShape& shape) { return goru::program<float>(shape); }
Program<double> goru_double(const GoruShape& shape) { return goru::program<double>(shape); }

}  // namespace HWY_NAMESPACE
}  // namespace nru::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nru::kernels {
NRU_EXPORT_PROGRAM(goru, GoruShape);
}  // namespace nru::kernels
#endif
