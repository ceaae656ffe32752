// Statistical recurrent unit, pointwise part. Two phases a step, and one for many steps at once:
//
//   [mu']    -> r:    r = ReLU(a)
//   [x, r]   -> phi:  phi = ReLU(a);  mu_j = alpha_j mu_j' + (1 - alpha_j) phi  for every scale j
//   [mu]     -> h:    h = ReLU(a)     no step reads it: off the recurrent path
//
// Kept for the backward pass: r, phi and h, in place of their pre-activations (their signs are all
// that ReLU' needs), and mu.
#include "kernels/sru.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/sru.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
// After foreach_target.h:
#include <hwy/highway.h>

#include "kernels/cpu/activation-inl.h"
#include "kernels/cpu/export.h"
#include "kernels/cpu/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nru::kernels {
namespace HWY_NAMESPACE {
namespace sru {

constexpr int kMu = 1, kR = 2, kPhi = 3, kH = 4;           // parts
constexpr int kWeightR = 0, kWeightPhi = 2, kWeightO = 4;  // parameters, each before its bias

// 1 - alpha is taken in T, so that the weights of an average sum to one.
template <class T>
void averages_forward(int P, const std::vector<T>& alpha, const Rows<T>& rows) {
  const hn::ScalableTag<T> d;
  const int K = static_cast<int>(alpha.size());
  relu_forward(rows.current[kPhi], static_cast<std::ptrdiff_t>(rows.count) * rows.ld[kPhi]);
  for (int row = 0; row < rows.count; ++row) {
    const T* phi_row = rows.current[kPhi] + row * rows.ld[kPhi];
    const T* mu_prev = rows.previous[kMu] + row * rows.ld[kMu];
    T* mu = rows.current[kMu] + row * rows.ld[kMu];
    for (int k = 0; k < K; ++k, mu_prev += P, mu += P) {
      const auto keep = hn::Set(d, alpha[k]), take = hn::Set(d, T(1) - alpha[k]);
      for (int j = 0; j < P; j += vector_lanes<T>()) {
        const int n = P - j;
        const auto fresh = hn::Mul(take, load_first(d, phi_row + j, n));
        store_first(d, hn::MulAdd(keep, load_first(d, mu_prev + j, n), fresh), n, mu + j);
      }
    }
  }
}

template <class T>
void averages_backward(int P, const std::vector<T>& alpha, const Rows<T>& rows) {
  const hn::ScalableTag<T> d;
  const int K = static_cast<int>(alpha.size());
  for (int row = 0; row < rows.count; ++row) {
    const T* phi_row = rows.current[kPhi] + row * rows.ld[kPhi];
    T* d_mu = rows.gradient[kMu] + row * rows.ld[kMu];
    T* da = rows.d_pre + row * rows.ld[kPhi];
    for (int j = 0; j < P; j += vector_lanes<T>()) {
      const int n = P - j;
      auto d_phi = hn::Zero(d);
      for (int k = 0; k < K; ++k) {
        const auto g = load_first(d, d_mu + k * P + j, n);
        d_phi = hn::MulAdd(hn::Set(d, T(1) - alpha[k]), g, d_phi);
        store_first(d, hn::Mul(hn::Set(d, alpha[k]), g), n, d_mu + k * P + j);
      }
      const auto open = hn::Gt(load_first(d, phi_row + j, n), hn::Zero(d));
      store_first(d, hn::IfThenElseZero(open, d_phi), n, da + j);
    }
  }
}

template <class T>
Program<T> program(const SruShape& shape) {
  const int I = shape.input, H = shape.hidden, P = shape.statistics, R = shape.recurrent;
  const std::vector<T> alpha(shape.scales.begin(), shape.scales.end());
  const int M = P * static_cast<int>(alpha.size());
  Program<T> p;
  p.cell = "sru";
  p.shape = shape;
  p.parts = {{"x", I, PartKind::input},
             {"mu", M, PartKind::state, /*carries=*/true},
             {"r", R},
             {"phi", P},
             {"h", H}};
  p.parameters = {{"weight_r", R, M}, {"bias_r", R},      {"weight_phi", P, I + R},
                  {"bias_phi", P},    {"weight_o", H, M}, {"bias_o", H}};
  Phase<T> averages;
  averages.part = kPhi;
  averages.segments = {{kInput, false, kWeightPhi, 0}, {kR, false, kWeightPhi, I}};
  averages.bias = kWeightPhi + 1;
  averages.forward = [P, alpha](const Rows<T>& rows) { averages_forward<T>(P, alpha, rows); };
  averages.backward = [P, alpha](const Rows<T>& rows) { averages_backward<T>(P, alpha, rows); };
  p.phases = {
      activation_phase<T>({.part = kR, .width = R}, {{kMu, true, kWeightR, 0}}, kWeightR + 1),
      averages,
      activation_phase<T>({.part = kH, .width = H}, {{kMu, false, kWeightO, 0}}, kWeightO + 1,
                          /*recurrent=*/false)};
  p.output = kH;
  return p;
}

}  // namespace sru

Program<float> sru_float(const SruShape& shape) { return sru::program<float>(shape); }
Program<double> sru_double(const SruShape& shape) { return sru::program<double>(shape); }

}  // namespace HWY_NAMESPACE
}  // namespace nru::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nru::kernels {
NRU_EXPORT_PROGRAM(sru, SruShape);
}  // namespace nru::kernels
#endif
