// The butterfly y = Q x on a few rows at a time, forward and backward. Wiring and names: butterfly.h.
//
// A pair (a, b = a + d) of a layer: w = e^{i phi} x_b (complex only), y_a = c x_a - s w, y_b = s x_a
// + c w, with c, s = cos, sin of theta; after the last layer, complex only, y_j <- e^{i omega_j} y_j.
// Backward, with g = dy and <g, y> = Re g Re y + Im g Im y: every layer turns g back (it is unitary)
// and d theta = <g_b, y_a> - <g_a, y_b>, d phi = <dx_b, i x_b>, d omega = <g, i y>.
//
// Layout. R rows lie interleaved, [vector of coordinates][row][Re, Im][lane], so that one load of the
// coefficients serves R rows. A layer whose stride is at least a vector long ("wide") pairs vectors;
// for the others ("narrow": strides lanes/2 .. 1) the partner is in the same vector, and all of them
// are done on it in registers: y_j = C_j x_j + S_j x_{j xor d}, with S = -s at a and s at b. Padding
// and coordinates without a partner have the coefficients of the identity.
//
// Memory. Nothing is kept for the backward pass but the input x: it repeats the wide layers, does
// the narrow ones forward and backward in registers, and then walks the wide ones back, turning y and
// g together. Bound by the loads and stores of the wide layers: a layer moves 2n values per row
// forward for 3n multiplications and additions, out of L1 or L2; the coefficients (2 or 4 values per
// pair) come from L2 and are shared by R rows.
#if defined(NRU_KERNELS_CPU_BUTTERFLY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NRU_KERNELS_CPU_BUTTERFLY_INL_H_
#undef NRU_KERNELS_CPU_BUTTERFLY_INL_H_
#else
#define NRU_KERNELS_CPU_BUTTERFLY_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "kernels/butterfly.h"
#include "kernels/cpu/math-inl.h"
#include "kernels/cpu/modrelu-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nru::kernels {
namespace HWY_NAMESPACE {

constexpr int kButterflyRows = 4;  // at a time, at most

// Calls work(std::integral_constant<int, R>, first row) for blocks of R <= kButterflyRows rows, as
// even as can be.
template <class F>
HWY_INLINE void for_row_blocks(int count, const F& work) {
  const int blocks = (count + kButterflyRows - 1) / kButterflyRows;
  for (int i = 0; i < blocks; ++i) {
    const int first = count * i / blocks;
    switch (count * (i + 1) / blocks - first) {
      case 1:
        work(std::integral_constant<int, 1>(), first);
        break;
      case 2:
        work(std::integral_constant<int, 2>(), first);
        break;
      case 3:
        work(std::integral_constant<int, 3>(), first);
        break;
      default:
        work(std::integral_constant<int, 4>(), first);
    }
  }
}

// (a, b) <- (c a - s b, s a + c b), and back.
template <class V>
HWY_INLINE void turn(V c, V s, V& a, V& b) {
  const V first = hn::NegMulAdd(s, b, hn::Mul(c, a));
  b = hn::MulAdd(s, a, hn::Mul(c, b));
  a = first;
}
template <class V>
HWY_INLINE void turn_back(V c, V s, V& a, V& b) {
  const V first = hn::MulAdd(s, b, hn::Mul(c, a));
  b = hn::NegMulAdd(s, a, hn::Mul(c, b));
  a = first;
}

// P = 1: real, P = 2: complex.
template <class T, int P>
class ButterflyKernel {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  static constexpr int kLanes = vector_lanes<T>();
  static constexpr int kNarrow = std::bit_width(static_cast<unsigned>(kLanes)) - 1;
  // In vectors: coefficients and sums of a pair of vectors in a wide layer, and of a vector in all
  // narrow layers (and the diagonal).
  static constexpr int kPairTable = 2 * P, kPairSums = P;
  static constexpr int kVectorTable = kNarrow * 2 * P + (P == 2 ? 2 : 0);
  static constexpr int kVectorSums = kNarrow * P + (P == 2 ? 1 : 0);

 public:
  using Value = Planes<V, P>;

  explicit ButterflyKernel(int n);

  std::size_t table_size() const { return table_size_; }
  std::size_t sums_size() const { return sums_size_; }
  std::size_t values(int rows) const { return std::size_t(vectors_) * rows * P * kLanes; }
  static constexpr std::size_t kSlots = 2;  // of values(kButterflyRows): x and g

  // Angles -> the table that forward() and backward() read.
  void prepare(const T* theta, const T* phi, const T* omega, T* table) const;
  // Adds what backward() has summed up to the gradients of the angles.
  void finish(const T* sums, T* d_theta, T* d_phi, T* d_omega) const;

  // Rows [R, ld] of n (complex: n + n) values <-> the interleaved form.
  template <int R>
  void load(const T* from, std::ptrdiff_t ld, T* x) const;
  template <int R, bool kAdd>
  void store(const T* x, T* to, std::ptrdiff_t ld) const;  // kAdd: adds to what is there

  // Hands Q x to sink(vector, row, value). Overwrites x.
  template <int R, class Sink>
  void forward(const T* table, T* x, const Sink& sink) const;

  // For each vector of y = Q x, gradient(vector, row, y) gives dy. Leaves dx in g; overwrites x; adds
  // to sums.
  template <int R, class Gradient>
  void backward(const T* table, T* x, T* g, T* sums, const Gradient& gradient) const;

 private:
  struct Wide {
    ButterflyLayer wires;
    int distance;             // stride in vectors
    std::size_t table, sums;  // where its part begins
  };
  struct Angle {  // of a vector of pairs or coordinates
    explicit Angle(const T* cosines)
        : c(hn::Load(D(), cosines)), s(hn::Load(D(), cosines + kLanes)) {}
    V c, s;
  };
  struct Partners;  // lane j <- lane j xor d, for the narrow layers

  template <int R>
  void wide_forward(const Wide& layer, const T* table, T* x) const;
  template <int R>
  void wide_backward(const Wide& layer, const T* table, T* x, T* g, T* sums) const;
  template <int R, class Gradient>
  void narrow_backward(const T* table, const T* x, T* g, T* sums, const Gradient& gradient) const;

  static Value load_value(const T* from) {
    Value value;
    for (int p = 0; p < P; ++p) value.part[p] = hn::Load(D(), from + p * kLanes);
    return value;
  }
  static void store_value(const Value& value, T* to) {
    for (int p = 0; p < P; ++p) hn::Store(value.part[p], D(), to + p * kLanes);
  }
  // The sum at `to` grows by v.
  static void add_to(T* to, V v) { hn::Store(hn::Add(hn::Load(D(), to), v), D(), to); }
  // <g, i x>
  static V phase_product(const Value& g, const Value& x) {
    return hn::NegMulAdd(g.part[0], x.part[1], hn::Mul(g.part[1], x.part[0]));
  }

  Butterfly wiring_;
  int vectors_ = 0;         // of coordinates
  std::vector<Wide> wide_;  // in order
  std::vector<ButterflyLayer> narrow_;
  std::size_t narrow_table_ = 0, narrow_sums_ = 0, table_size_ = 0, sums_size_ = 0;
};

template <class T, int P>
ButterflyKernel<T, P>::ButterflyKernel(int n) : wiring_(n), vectors_((n + kLanes - 1) / kLanes) {
  for (const ButterflyLayer& layer : wiring_.layers()) {
    if (layer.stride < kLanes) {
      narrow_.push_back(layer);
      continue;
    }
    wide_.push_back({layer, layer.stride / kLanes, table_size_, sums_size_});
    const std::size_t pairs = (layer.pairs + kLanes - 1) / kLanes;
    table_size_ += pairs * kPairTable * kLanes;
    sums_size_ += pairs * kPairSums * kLanes;
  }
  narrow_table_ = table_size_;
  narrow_sums_ = sums_size_;
  table_size_ += std::size_t(vectors_) * kVectorTable * kLanes;
  sums_size_ += std::size_t(vectors_) * kVectorSums * kLanes;
}

// The table is a list of (cosines, sines), a vector each.
template <class T, int P>
void ButterflyKernel<T, P>::prepare(const T* theta, const T* phi, const T* omega, T* table) const {
  const auto set = [](T angle, T* cosine) {
    cosine[0] = std::cos(angle);
    cosine[kLanes] = std::sin(angle);
  };
  for (std::size_t i = 0; i < table_size_; ++i) table[i] = i / kLanes % 2 == 0 ? T(1) : T(0);
  for (const Wide& layer : wide_) {
    for (int p = 0; p < layer.wires.pairs; ++p) {
      T* to = table + layer.table + p / kLanes * kPairTable * kLanes + p % kLanes;
      set(theta[layer.wires.first + p], to);
      if (P == 2) set(phi[layer.wires.first + p], to + 2 * kLanes);
    }
  }
  for (const ButterflyLayer& layer : narrow_) {
    const int k = kNarrow - std::bit_width(static_cast<unsigned>(layer.stride));
    for (int p = 0; p < layer.pairs; ++p) {
      const int a = layer.lower(p), lane = a % kLanes;
      T* to = table + narrow_table_ + (a / kLanes * kVectorTable + k * 2 * P) * kLanes + lane;
      set(-theta[layer.first + p], to);
      set(theta[layer.first + p], to + layer.stride);
      if (P == 2) set(phi[layer.first + p], to + 2 * kLanes + layer.stride);
    }
  }
  for (int j = 0; P == 2 && j < wiring_.size(); ++j) {
    set(omega[j], table + narrow_table_ +
                      (j / kLanes * kVectorTable + kNarrow * 2 * P) * kLanes + j % kLanes);
  }
}

template <class T, int P>
void ButterflyKernel<T, P>::finish(const T* sums, T* d_theta, T* d_phi, T* d_omega) const {
  for (const Wide& layer : wide_) {
    for (int p = 0; p < layer.wires.pairs; ++p) {
      const T* from = sums + layer.sums + p / kLanes * kPairSums * kLanes + p % kLanes;
      d_theta[layer.wires.first + p] += from[0];
      if (P == 2) d_phi[layer.wires.first + p] += from[kLanes];
    }
  }
  for (const ButterflyLayer& layer : narrow_) {
    const int k = kNarrow - std::bit_width(static_cast<unsigned>(layer.stride));
    for (int p = 0; p < layer.pairs; ++p) {
      const int a = layer.lower(p), lane = a % kLanes;
      const T* from = sums + narrow_sums_ + (a / kLanes * kVectorSums + k * P) * kLanes + lane;
      d_theta[layer.first + p] += from[layer.stride] - from[0];
      if (P == 2) d_phi[layer.first + p] += from[kLanes + layer.stride];
    }
  }
  for (int j = 0; P == 2 && j < wiring_.size(); ++j) {
    d_omega[j] += sums[narrow_sums_ + (j / kLanes * kVectorSums + kNarrow * P) * kLanes +
                       j % kLanes];
  }
}

template <class T, int P>
template <int R>
void ButterflyKernel<T, P>::load(const T* from, std::ptrdiff_t ld, T* x) const {
  const int n = wiring_.size();
  for (int j = 0; j < n; j += kLanes) {
    for (int r = 0; r < R; ++r) {
      for (int p = 0; p < P; ++p, x += kLanes)
        hn::Store(load_first(D(), from + r * ld + p * n + j, n - j), D(), x);
    }
  }
}

template <class T, int P>
template <int R, bool kAdd>
void ButterflyKernel<T, P>::store(const T* x, T* to, std::ptrdiff_t ld) const {
  const int n = wiring_.size();
  for (int j = 0; j < n; j += kLanes) {
    for (int r = 0; r < R; ++r) {
      for (int p = 0; p < P; ++p, x += kLanes) {
        T* at = to + r * ld + p * n + j;
        V value = hn::Load(D(), x);
        if (kAdd) value = hn::Add(value, load_first(D(), at, n - j));
        store_first(D(), value, n - j, at);
      }
    }
  }
}

template <class T, int P>
template <int R>
void ButterflyKernel<T, P>::wide_forward(const Wide& layer, const T* table, T* x) const {
  constexpr int kBlock = R * P * kLanes;
  const T* angles = table + layer.table;
  for (int start = 0; start + layer.distance < vectors_; start += 2 * layer.distance) {
    const int end = std::min(start + layer.distance, vectors_ - layer.distance);
    for (int v = start; v < end; ++v, angles += kPairTable * kLanes) {
      const Angle theta(angles), phi(angles + (P - 1) * 2 * kLanes);
      T* HWY_RESTRICT a = x + std::size_t(v) * kBlock;
      T* HWY_RESTRICT b = a + std::size_t(layer.distance) * kBlock;
      HWY_UNROLL(4)
      for (int r = 0; r < R; ++r) {
        Value xa = load_value(a + r * P * kLanes), xb = load_value(b + r * P * kLanes);
        if constexpr (P == 2) turn(phi.c, phi.s, xb.part[0], xb.part[1]);
        for (int p = 0; p < P; ++p) turn(theta.c, theta.s, xa.part[p], xb.part[p]);
        store_value(xa, a + r * P * kLanes);
        store_value(xb, b + r * P * kLanes);
      }
    }
  }
}

// From y and dy to x and dx.
template <class T, int P>
template <int R>
void ButterflyKernel<T, P>::wide_backward(const Wide& layer, const T* table, T* x, T* g,
                                          T* sums) const {
  constexpr int kBlock = R * P * kLanes;
  const T* angles = table + layer.table;
  T* HWY_RESTRICT sum = sums + layer.sums;
  for (int start = 0; start + layer.distance < vectors_; start += 2 * layer.distance) {
    const int end = std::min(start + layer.distance, vectors_ - layer.distance);
    for (int v = start; v < end;
         ++v, angles += kPairTable * kLanes, sum += kPairSums * kLanes) {
      const Angle theta(angles), phi(angles + (P - 1) * 2 * kLanes);
      const std::size_t at_a = std::size_t(v) * kBlock;
      const std::size_t at_b = at_a + std::size_t(layer.distance) * kBlock;
      V d_theta = hn::Zero(D()), d_phi = hn::Zero(D());
      HWY_UNROLL(4)
      for (int r = 0; r < R; ++r) {
        T *xa_at = x + at_a + r * P * kLanes, *xb_at = x + at_b + r * P * kLanes;
        T *ga_at = g + at_a + r * P * kLanes, *gb_at = g + at_b + r * P * kLanes;
        Value xa = load_value(xa_at), xb = load_value(xb_at);
        Value ga = load_value(ga_at), gb = load_value(gb_at);
        for (int p = 0; p < P; ++p) {
          d_theta = hn::MulAdd(gb.part[p], xa.part[p], d_theta);
          d_theta = hn::NegMulAdd(ga.part[p], xb.part[p], d_theta);
          turn_back(theta.c, theta.s, xa.part[p], xb.part[p]);
          turn_back(theta.c, theta.s, ga.part[p], gb.part[p]);
        }
        if constexpr (P == 2) {
          turn_back(phi.c, phi.s, xb.part[0], xb.part[1]);
          turn_back(phi.c, phi.s, gb.part[0], gb.part[1]);
          d_phi = hn::Add(d_phi, phase_product(gb, xb));
        }
        store_value(xa, xa_at);
        store_value(xb, xb_at);
        store_value(ga, ga_at);
        store_value(gb, gb_at);
      }
      add_to(sum, d_theta);
      if constexpr (P == 2) add_to(sum + kLanes, d_phi);
    }
  }
}

template <class T, int P>
struct ButterflyKernel<T, P>::Partners {
  using Index = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  static auto make(int stride) {
    HWY_ALIGN Index index[kLanes];
    for (int j = 0; j < kLanes; ++j) index[j] = j ^ stride;
    return hn::SetTableIndices(D(), index);
  }
  decltype(make(0)) of[kNarrow + 1];

  Partners() {
    for (int k = 0; k <= kNarrow; ++k) of[k] = make(kLanes >> (k + 1));
  }
  // x <- layer k of x; the coefficients of a vector start at `angles`.
  HWY_INLINE void forward(int k, const T* angles, Value& x) const {
    if constexpr (P == 2) {
      const Angle phi(angles + (k * 2 * P + 2) * kLanes);
      turn(phi.c, phi.s, x.part[0], x.part[1]);
    }
    const Angle theta(angles + k * 2 * P * kLanes);
    for (int p = 0; p < P; ++p) {
      const V partner = hn::TableLookupLanes(x.part[p], of[k]);
      x.part[p] = hn::MulAdd(theta.s, partner, hn::Mul(theta.c, x.part[p]));
    }
  }
  // g <- dx of layer k from dy; adds to the sums of theta (g_j y_{j xor d}) and phi. x, y: the
  // layer's input and output.
  HWY_INLINE void backward(int k, const T* angles, const Value& x, const Value& y, Value& g,
                           V& d_theta, V& d_phi) const {
    const Angle theta(angles + k * 2 * P * kLanes);
    for (int p = 0; p < P; ++p) {
      d_theta = hn::MulAdd(g.part[p], hn::TableLookupLanes(y.part[p], of[k]), d_theta);
      const V partner = hn::TableLookupLanes(g.part[p], of[k]);
      g.part[p] = hn::NegMulAdd(theta.s, partner, hn::Mul(theta.c, g.part[p]));
    }
    if constexpr (P == 2) {
      const Angle phi(angles + (k * 2 * P + 2) * kLanes);
      turn_back(phi.c, phi.s, g.part[0], g.part[1]);
      d_phi = hn::Add(d_phi, phase_product(g, x));
    }
  }
};

template <class T, int P>
template <int R, class Sink>
void ButterflyKernel<T, P>::forward(const T* table, T* x, const Sink& sink) const {
  for (const Wide& layer : wide_) wide_forward<R>(layer, table, x);
  const Partners partners;
  const T* angles = table + narrow_table_;
  for (int v = 0; v < vectors_; ++v, angles += kVectorTable * kLanes) {
    for (int r = 0; r < R; ++r, x += P * kLanes) {
      Value y = load_value(x);
      for (int k = 0; k < kNarrow; ++k) partners.forward(k, angles, y);
      if constexpr (P == 2) {
        const Angle omega(angles + kNarrow * 2 * P * kLanes);
        turn(omega.c, omega.s, y.part[0], y.part[1]);
      }
      sink(v, r, y);
    }
  }
}

template <class T, int P>
template <int R, class Gradient>
void ButterflyKernel<T, P>::backward(const T* table, T* x, T* g, T* sums,
                                     const Gradient& gradient) const {
  for (const Wide& layer : wide_) wide_forward<R>(layer, table, x);
  narrow_backward<R>(table, x, g, sums, gradient);
  for (std::size_t l = wide_.size(); l-- > 0;) wide_backward<R>(wide_[l], table, x, g, sums);
}

// The narrow layers and the diagonal: forward from x, then back to the gradient g of x.
template <class T, int P>
template <int R, class Gradient>
void ButterflyKernel<T, P>::narrow_backward(const T* table, const T* x, T* g, T* sums,
                                            const Gradient& gradient) const {
  const Partners partners;
  const T* angles = table + narrow_table_;
  T* sum = sums + narrow_sums_;
  for (int v = 0; v < vectors_; ++v, angles += kVectorTable * kLanes, sum += kVectorSums * kLanes) {
    V d_theta[kNarrow + 1], d_phi[kNarrow + 1], d_omega = hn::Zero(D());
    for (int k = 0; k < kNarrow; ++k) d_theta[k] = d_phi[k] = hn::Zero(D());
    const Angle omega(angles + (P - 1) * kNarrow * 2 * P * kLanes);
    for (int r = 0; r < R; ++r, x += P * kLanes, g += P * kLanes) {
      Value y[kNarrow + 1];  // the input of each layer, and the last one's output
      y[0] = load_value(x);
      for (int k = 0; k < kNarrow; ++k) {
        y[k + 1] = y[k];
        partners.forward(k, angles, y[k + 1]);
      }
      Value last = y[kNarrow];
      if constexpr (P == 2) turn(omega.c, omega.s, last.part[0], last.part[1]);
      Value d = gradient(v, r, last);
      if constexpr (P == 2) {
        d_omega = hn::Add(d_omega, phase_product(d, last));
        turn_back(omega.c, omega.s, d.part[0], d.part[1]);
      }
      for (int k = kNarrow - 1; k >= 0; --k)
        partners.backward(k, angles, y[k], y[k + 1], d, d_theta[k], d_phi[k]);
      store_value(d, g);
    }
    for (int k = 0; k < kNarrow; ++k) {
      add_to(sum + k * P * kLanes, d_theta[k]);
      if constexpr (P == 2) add_to(sum + (k * P + 1) * kLanes, d_phi[k]);
    }
    if constexpr (P == 2) add_to(sum + kNarrow * P * kLanes, d_omega);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace nru::kernels
HWY_AFTER_NAMESPACE();
#endif
