// NRU, pointwise part. Two phases a step:
//
//   [x, h', m'] -> a:       h = ReLU(a)  (or ReLU(LN(a)))
//   [(x,) h, m'] -> heads:  m = m' + c0 sum_i (alpha_i v_i^w - beta_i v_i^e)  (or m' times the sum)
//
// Kept for the backward pass: h and m (states), the head outputs u, and for the factored write a
// few norms per row (aux). The pre-activation a is kept only with layer norm: without it, h > 0
// says all there is to know. The directions v are never stored; the write is formed again from u.
#include "kernels/nru.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/nru.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
// After foreach_target.h:
#include <hwy/highway.h>

#include "kernels/cpu/activation-inl.h"
#include "kernels/cpu/export.h"
#include "kernels/cpu/math-inl.h"
#include "kernels/cpu/nru_general-inl.h"
#include "kernels/cpu/nru_write_linear-inl.h"
#include "kernels/cpu/nru_write_relu-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nru::kernels {
namespace HWY_NAMESPACE {
namespace nru_cell {

constexpr int kH = 1, kM = 2, kHeads = 3, kAux = 4, kPre = 5;  // parts; kPre with layer norm only
constexpr int kWeight = 0, kBias = 1, kGamma = 2,
              kBeta = 3;  // parameters; head weight and bias come last

// Calls f<R>() with R = r/k as a constant for the sizes in use (copy 4, psMNIST 8), 0 = take it
// from the sizes.
template <class F>
HWY_INLINE void with_rows_per_head(int R, const F& f) {
  switch (R) {
    case 4:
      return f.template operator()<4>();
    case 8:
      return f.template operator()<8>();
    default:
      return f.template operator()<0>();
  }
}

template <class T>
struct LinearForward {
  const WriteSizes& s;
  const Rows<T>& rows;
  template <int kR>
  void operator()() const {
    for (int r = 0; r < rows.count; ++r) {
      write_linear<T, kR>(s, rows.current[kHeads] + r * rows.ld[kHeads],
                          rows.current[kAux] + r * rows.ld[kAux],
                          rows.previous[kM] + r * rows.ld[kM], rows.current[kM] + r * rows.ld[kM],
                          rows.scratch, rows.events_of(r));
    }
  }
};

template <class T>
struct LinearBackward {
  const WriteSizes& s;
  const Rows<T>& rows;
  template <int kR>
  void operator()() const {
    for (int r = 0; r < rows.count; ++r) {
      write_linear_backward<T, kR>(
          s, rows.current[kHeads] + r * rows.ld[kHeads], rows.current[kAux] + r * rows.ld[kAux],
          rows.gradient[kM] + r * rows.ld[kM], rows.d_pre + r * rows.ld[kHeads], rows.scratch);
    }
  }
};

template <class T>
void relu_forward(const WriteSizes& s, const Rows<T>& rows) {
  for (int r = 0; r < rows.count; ++r) {
    write_relu(s, rows.current[kHeads] + r * rows.ld[kHeads],
               rows.current[kAux] + r * rows.ld[kAux], rows.previous[kM] + r * rows.ld[kM],
               rows.current[kM] + r * rows.ld[kM], rows.scratch, rows.events_of(r));
  }
}

template <class T>
void relu_backward(const WriteSizes& s, const Rows<T>& rows) {
  for (int r = 0; r < rows.count; ++r) {
    write_relu_backward<T>(
        s, rows.current[kHeads] + r * rows.ld[kHeads], rows.current[kAux] + r * rows.ld[kAux],
        rows.gradient[kM] + r * rows.ld[kM], rows.d_pre + r * rows.ld[kHeads], rows.scratch);
  }
}

template <class T>
void general_forward(const GeneralSizes& s, const Rows<T>& rows) {
  for (int r = 0; r < rows.count; ++r) {
    write_general(s, rows.current[kHeads] + r * rows.ld[kHeads],
                  rows.previous[kM] + r * rows.ld[kM], rows.current[kM] + r * rows.ld[kM],
                  rows.scratch, rows.events_of(r));
  }
}

template <class T>
void general_backward(const GeneralSizes& s, const Rows<T>& rows) {
  for (int r = 0; r < rows.count; ++r) {
    write_general_backward<T>(
        s, rows.current[kHeads] + r * rows.ld[kHeads], rows.previous[kM] + r * rows.ld[kM],
        rows.gradient[kM] + r * rows.ld[kM], rows.d_pre + r * rows.ld[kHeads], rows.scratch);
  }
}

// Cuts alpha and beta off at the limit, where they lie: whoever writes or goes back reads them
// there.
template <class T>
void limit_strengths(const NruShape& shape, const Rows<T>& rows) {
  const T limit = static_cast<T>(shape.write_limit);
  for (int r = 0; r < rows.count; ++r) {
    T* strength = rows.current[kHeads] + r * rows.ld[kHeads];
    for (int i = 0; i < 2 * shape.heads; ++i)
      strength[i] = std::min(std::max(strength[i], -limit), limit);
  }
}

// What was cut off does not move, and gets no gradient.
template <class T>
void limit_strengths_backward(const NruShape& shape, const Rows<T>& rows) {
  const T limit = static_cast<T>(shape.write_limit);
  for (int r = 0; r < rows.count; ++r) {
    const T* strength = rows.current[kHeads] + r * rows.ld[kHeads];
    T* d_strength = rows.d_pre + r * rows.ld[kHeads];
    for (int i = 0; i < 2 * shape.heads; ++i)
      if (!(std::abs(strength[i]) < limit)) d_strength[i] = 0;
  }
}

// Puts the limit of the strengths around the heads' phase.
template <class T>
void limit_write(const NruShape& shape, Phase<T>& phase) {
  phase.forward = [shape, write = phase.forward](const Rows<T>& rows) {
    limit_strengths(shape, rows);
    write(rows);
  };
  phase.backward = [shape, write = phase.backward](const Rows<T>& rows) {
    write(rows);
    limit_strengths_backward(shape, rows);
  };
}

// Gives the heads' phase its pointwise functions and the sizes they need.
template <class T>
void choose_write(const NruShape& shape, Program<T>& p, Phase<T>& phase) {
  if (!shape.factored_write()) {
    const GeneralSizes s(shape);
    p.scratch = s.scratch();
    phase.forward = [s](const Rows<T>& rows) { general_forward<T>(s, rows); };
    phase.backward = [s](const Rows<T>& rows) { general_backward<T>(s, rows); };
    return;
  }
  const WriteSizes s(shape);
  p.scratch = s.scratch();
  p.parts[kAux].width = s.aux();
  if (shape.relu_heads) {
    phase.forward = [s](const Rows<T>& rows) { relu_forward<T>(s, rows); };
    phase.backward = [s](const Rows<T>& rows) { relu_backward<T>(s, rows); };
  } else {
    phase.forward = [s](const Rows<T>& rows) {
      with_rows_per_head(s.R, LinearForward<T>{s, rows});
    };
    phase.backward = [s](const Rows<T>& rows) {
      with_rows_per_head(s.R, LinearBackward<T>{s, rows});
    };
  }
}

template <class T>
Program<T> program(const NruShape& shape) {
  const int I = shape.input, H = shape.hidden, M = shape.memory, U = shape.head_outputs();
  const int seen = shape.heads_see_input ? I : 0;
  Program<T> p;
  p.cell = "nru";
  p.shape = shape;
  p.parts = {
      {"x", I, PartKind::input},
      {"h", H, PartKind::state},
      {"m", M, PartKind::state, /*carries=*/true, /*initial=*/shape.multiply_memory ? 1.0 : 0},
      {"heads", U},
      {"aux", 1}};
  p.parameters = {{"weight", H, I + H + M}, {"bias", H}};
  if (shape.layer_norm) {
    p.parts.push_back({"a", H});
    p.parameters.push_back({"norm_weight", H});
    p.parameters.push_back({"norm_bias", H});
  }
  const int head_weight = static_cast<int>(p.parameters.size());
  p.parameters.push_back({"head_weight", U, seen + H + M});
  p.parameters.push_back({"head_bias", U});

  Activation relu{.part = kH, .width = H};
  if (shape.layer_norm) {
    relu.pre = kPre;
    relu.gamma = kGamma;
    relu.beta = kBeta;
  }
  const Phase<T> hidden = activation_phase<T>(
      relu, {{kInput, false, kWeight, 0}, {kH, true, kWeight, I}, {kM, true, kWeight, I + H}},
      kBias);
  Phase<T> heads;
  heads.part = kHeads;
  if (shape.heads_see_input) heads.segments.push_back({kInput, false, head_weight, 0});
  heads.segments.push_back({kH, false, head_weight, seen});
  heads.segments.push_back({kM, true, head_weight, seen + H});
  heads.bias = head_weight + 1;
  choose_write(shape, p, heads);
  if (shape.write_limit > 0) limit_write(shape, heads);
  p.phases = {hidden, heads};
  p.output = kH;
  return p;
}

}  // namespace nru_cell

Program<float> nru_float(const NruShape& shape) { return nru_cell::program<float>(shape); }
Program<double> nru_double(const NruShape& shape) { return nru_cell::program<double>(shape); }

}  // namespace HWY_NAMESPACE
}  // namespace nru::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nru::kernels {
NRU_EXPORT_PROGRAM(nru, NruShape);
}  // namespace nru::kernels
#endif
