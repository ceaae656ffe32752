// The butterfly y = Q x on a few rows at a time, forward and backward. Wiring: butterfly.h; angles
// and the two kinds of layers, wide and narrow: butterfly_table-inl.h.
//
// For a pair (a, b = a + d) of a layer, with c, s = cos, sin of theta:
//   w = e^{i phi} x_b (complex only), y_a = c x_a - s w, y_b = s x_a + c w;
// after the last layer, complex only, y_j <- e^{i omega_j} y_j. Backward, with g = dy and
// <g, y> = Re g Re y + Im g Im y: every layer turns g back (it is unitary), and
//   d theta = <g_b, y_a> - <g_a, y_b>,  d phi = <dx_b, i x_b>,  d omega = <g, i y>.
//
// Nothing is kept for the backward pass but the input x: it repeats the wide layers, does the
// narrow ones forward and backward in registers, and walks the wide ones back, turning y and g
// together.
//
// Speed. R rows lie interleaved, [vector of coordinates][row][Re, Im][lane], so that one load of
// the coefficients serves R rows; all narrow layers are done on a vector in one visit; and from the
// layer on whose pairs stay within a block that fits the L1 cache, a block goes through all
// remaining layers before the next begins. A pair of vectors in a wide layer then costs 4
// multiplications or fused multiply-adds against 2 loads and 2 stores (backward: 10 against 4 and
// 4), which keeps both kinds of ports about equally busy: the arithmetic is the bound, at half of
// the FMA peak, as half of the operations are plain multiplications. The modReLU's divisions and
// square roots come on top.
#if defined(NRU_KERNELS_CPU_BUTTERFLY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NRU_KERNELS_CPU_BUTTERFLY_INL_H_
#undef NRU_KERNELS_CPU_BUTTERFLY_INL_H_
#else
#define NRU_KERNELS_CPU_BUTTERFLY_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/cpu/butterfly_table-inl.h"
#include "kernels/cpu/math-inl.h"
#include "kernels/cpu/planes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nru::kernels {
namespace HWY_NAMESPACE {

constexpr int kButterflyRows = 4;          // at a time, at most
constexpr int kButterflyBlock = 8 * 1024;  // bytes of x; the backward pass has as many of g

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

// P = 1: real, P = 2: complex.
template <class T, int P>
class ButterflyKernel {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  using Table = ButterflyTable<T, P>;
  using Wide = typename Table::Wide;
  static constexpr int kLanes = Table::kLanes, kNarrow = Table::kNarrow;
  static constexpr int kValue = P * kLanes;  // numbers in a Value

 public:
  using Value = Planes<V, P>;

  explicit ButterflyKernel(int n) : angles(n) {}

  const Table angles;

  // Numbers in the interleaved form of kButterflyRows rows, of which forward() needs one and
  // backward() two.
  std::size_t scratch() const {
    return static_cast<std::size_t>(angles.vectors()) * kButterflyRows * kValue;
  }

  // Rows [R, ld] of n (complex: n + n) numbers <-> the interleaved form.
  template <int R>
  void load(const T* from, std::ptrdiff_t ld, T* x) const;
  template <int R, bool kAdd>
  void store(const T* x, T* to, std::ptrdiff_t ld) const;  // kAdd: adds to what is there

  // Hands Q x to sink(vector, row, value). Overwrites x.
  template <int R, class Sink>
  void forward(const T* table, T* x, const Sink& sink) const;

  // For each vector of y = Q x, gradient(vector, row, y) gives dy. Leaves dx in g; overwrites x;
  // adds to the sums.
  template <int R, class Gradient>
  void backward(const T* table, T* x, T* g, T* sums, const Gradient& gradient) const;

 private:
  struct Angle {  // of a vector of pairs or coordinates
    explicit Angle(const T* cosines)
        : c(hn::Load(D(), cosines)), s(hn::Load(D(), cosines + kLanes)) {}
    V c, s;
  };
  struct Partners;  // lane j <- lane j xor d, for the narrow layers
  struct Span {     // of vectors
    int begin, end;
  };

  // Calls work(span, number of the first wide layer within it) for the blocks, in order.
  template <int R, class Work>
  void for_blocks(const Work& work) const;

  // One layer on the vectors of a span, which whole runs of its pairs begin and end.
  template <int R>
  void wide_forward(const Wide& layer, Span span, const T* table, T* x) const;
  template <int R>
  void wide_backward(const Wide& layer, Span span, const T* table, T* x, T* g, T* sums) const;
  // The narrow layers and the diagonal.
  template <int R, class Sink>
  void narrow_forward(Span span, const T* table, const T* x, const Sink& sink) const;
  template <int R, class Gradient>
  void narrow_backward(Span span, const T* table, const T* x, T* g, T* sums,
                       const Gradient& gradient) const;

  static Value load_value(const T* from) {
    Value value;
    for (int p = 0; p < P; ++p) value.part[p] = hn::Load(D(), from + p * kLanes);
    return value;
  }
  static void store_value(const Value& value, T* to) {
    for (int p = 0; p < P; ++p) hn::Store(value.part[p], D(), to + p * kLanes);
  }
  static void add_to(T* sum, V v) { hn::Store(hn::Add(hn::Load(D(), sum), v), D(), sum); }
  // <g, i x>
  static V phase_product(const Value& g, const Value& x) {
    return hn::NegMulAdd(g.part[0], x.part[1], hn::Mul(g.part[1], x.part[0]));
  }
};

template <class T, int P>
template <int R>
void ButterflyKernel<T, P>::load(const T* from, std::ptrdiff_t ld, T* x) const {
  const int n = angles.size();
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
  const int n = angles.size();
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
template <int R, class Work>
HWY_INLINE void ButterflyKernel<T, P>::for_blocks(const Work& work) const {
  constexpr int kFit = std::max<int>(1, kButterflyBlock / (R * kValue * sizeof(T)));
  constexpr int kBlock = static_cast<int>(std::bit_floor(static_cast<unsigned>(kFit)));
  std::size_t inner = 0;
  while (inner < angles.wide().size() && 2 * angles.wide()[inner].distance > kBlock) ++inner;
  for (int begin = 0; begin < angles.vectors(); begin += kBlock)
    work(Span{begin, std::min(angles.vectors(), begin + kBlock)}, inner);
}

template <class T, int P>
template <int R, class Sink>
void ButterflyKernel<T, P>::forward(const T* table, T* x, const Sink& sink) const {
  const auto& wide = angles.wide();
  for_blocks<R>([&](Span span, std::size_t inner) HWY_ATTR {
    for (std::size_t l = 0; span.begin == 0 && l < inner; ++l)
      wide_forward<R>(wide[l], {0, angles.vectors()}, table, x);
    for (std::size_t l = inner; l < wide.size(); ++l) wide_forward<R>(wide[l], span, table, x);
    narrow_forward<R>(span, table, x, sink);
  });
}

template <class T, int P>
template <int R, class Gradient>
void ButterflyKernel<T, P>::backward(const T* table, T* x, T* g, T* sums,
                                     const Gradient& gradient) const {
  const auto& wide = angles.wide();
  for_blocks<R>([&](Span span, std::size_t inner) HWY_ATTR {
    const Span all{0, angles.vectors()};
    for (std::size_t l = 0; span.begin == 0 && l < inner; ++l)
      wide_forward<R>(wide[l], all, table, x);
    for (std::size_t l = inner; l < wide.size(); ++l) wide_forward<R>(wide[l], span, table, x);
    narrow_backward<R>(span, table, x, g, sums, gradient);
    for (std::size_t l = wide.size(); l-- > inner;)
      wide_backward<R>(wide[l], span, table, x, g, sums);
    for (std::size_t l = inner; span.end == all.end && l-- > 0;)
      wide_backward<R>(wide[l], all, table, x, g, sums);
  });
}

template <class T, int P>
template <int R>
void ButterflyKernel<T, P>::wide_forward(const Wide& layer, Span span, const T* table, T* x) const {
  const int distance = layer.distance;
  // The pairs before the span are half of its vectors.
  const T* at = table + layer.table + static_cast<std::size_t>(span.begin / 2) * Table::kPairTable;
  for (int start = span.begin; start + distance < span.end; start += 2 * distance) {
    const int end = std::min(start + distance, span.end - distance);
    for (int v = start; v < end; ++v, at += Table::kPairTable) {
      const Angle theta(at), phi(at + (P - 1) * 2 * kLanes);
      T* HWY_RESTRICT a = x + static_cast<std::size_t>(v) * R * kValue;
      T* HWY_RESTRICT b = a + static_cast<std::size_t>(distance) * R * kValue;
      HWY_UNROLL(4)
      for (int r = 0; r < R * kValue; r += kValue) {
        Value xa = load_value(a + r), xb = load_value(b + r);
        if constexpr (P == 2) turn(phi.c, phi.s, xb.part[0], xb.part[1]);
        for (int p = 0; p < P; ++p) turn(theta.c, theta.s, xa.part[p], xb.part[p]);
        store_value(xa, a + r);
        store_value(xb, b + r);
      }
    }
  }
}

// From y and dy to x and dx.
template <class T, int P>
template <int R>
void ButterflyKernel<T, P>::wide_backward(const Wide& layer, Span span, const T* table, T* x, T* g,
                                          T* sums) const {
  const int distance = layer.distance;
  const std::size_t pairs_before = span.begin / 2;
  const T* at = table + layer.table + pairs_before * Table::kPairTable;
  T* HWY_RESTRICT sum = sums + layer.sums + pairs_before * Table::kPairSums;
  for (int start = span.begin; start + distance < span.end; start += 2 * distance) {
    const int end = std::min(start + distance, span.end - distance);
    for (int v = start; v < end; ++v, at += Table::kPairTable, sum += Table::kPairSums) {
      const Angle theta(at), phi(at + (P - 1) * 2 * kLanes);
      const std::size_t a = static_cast<std::size_t>(v) * R * kValue;
      const std::size_t b = a + static_cast<std::size_t>(distance) * R * kValue;
      V d_theta = hn::Zero(D()), d_phi = hn::Zero(D());
      HWY_UNROLL(4)
      for (int r = 0; r < R * kValue; r += kValue) {
        Value xa = load_value(x + a + r), xb = load_value(x + b + r);
        Value ga = load_value(g + a + r), gb = load_value(g + b + r);
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
        store_value(xa, x + a + r);
        store_value(xb, x + b + r);
        store_value(ga, g + a + r);
        store_value(gb, g + b + r);
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
  // x <- layer k of x. `at`: the vector's part of the table.
  HWY_INLINE void forward(int k, const T* at, Value& x) const {
    if constexpr (P == 2) {
      const Angle phi(at + (k * P + 1) * 2 * kLanes);
      turn(phi.c, phi.s, x.part[0], x.part[1]);
    }
    const Angle theta(at + k * P * 2 * kLanes);
    for (int p = 0; p < P; ++p) {
      const V partner = hn::TableLookupLanes(x.part[p], of[k]);
      x.part[p] = hn::MulAdd(theta.s, partner, hn::Mul(theta.c, x.part[p]));
    }
  }
  // g <- dx of layer k from dy; adds to the sums. x, y: the layer's input and output.
  HWY_INLINE void backward(int k, const T* at, const Value& x, const Value& y, Value& g, V& d_theta,
                           V& d_phi) const {
    const Angle theta(at + k * P * 2 * kLanes);
    for (int p = 0; p < P; ++p) {
      d_theta = hn::MulAdd(g.part[p], hn::TableLookupLanes(y.part[p], of[k]), d_theta);
      const V partner = hn::TableLookupLanes(g.part[p], of[k]);
      g.part[p] = hn::NegMulAdd(theta.s, partner, hn::Mul(theta.c, g.part[p]));
    }
    if constexpr (P == 2) {
      const Angle phi(at + (k * P + 1) * 2 * kLanes);
      turn_back(phi.c, phi.s, g.part[0], g.part[1]);
      d_phi = hn::Add(d_phi, phase_product(g, x));
    }
  }
};

template <class T, int P>
template <int R, class Sink>
HWY_INLINE void ButterflyKernel<T, P>::narrow_forward(Span span, const T* table, const T* x,
                                                      const Sink& sink) const {
  const Partners partners;
  const T* at = table + angles.narrow_table() + std::size_t(span.begin) * Table::kVectorTable;
  x += static_cast<std::size_t>(span.begin) * R * kValue;
  for (int v = span.begin; v < span.end; ++v, at += Table::kVectorTable) {
    for (int r = 0; r < R; ++r, x += kValue) {
      Value y = load_value(x);
      for (int k = 0; k < kNarrow; ++k) partners.forward(k, at, y);
      if constexpr (P == 2) {
        const Angle omega(at + kNarrow * P * 2 * kLanes);
        turn(omega.c, omega.s, y.part[0], y.part[1]);
      }
      sink(v, r, y);
    }
  }
}

template <class T, int P>
template <int R, class Gradient>
HWY_INLINE void ButterflyKernel<T, P>::narrow_backward(Span span, const T* table, const T* x, T* g,
                                                       T* sums, const Gradient& gradient) const {
  const Partners partners;
  const T* at = table + angles.narrow_table() + std::size_t(span.begin) * Table::kVectorTable;
  T* sum = sums + angles.narrow_sums() + std::size_t(span.begin) * Table::kVectorSums;
  x += static_cast<std::size_t>(span.begin) * R * kValue;
  g += static_cast<std::size_t>(span.begin) * R * kValue;
  for (int v = span.begin; v < span.end;
       ++v, at += Table::kVectorTable, sum += Table::kVectorSums) {
    V d_theta[kNarrow + 1], d_phi[kNarrow + 1], d_omega = hn::Zero(D());
    for (int k = 0; k < kNarrow; ++k) d_theta[k] = d_phi[k] = hn::Zero(D());
    const Angle omega(at + (P - 1) * kNarrow * P * 2 * kLanes);
    for (int r = 0; r < R; ++r, x += kValue, g += kValue) {
      Value y[kNarrow + 1];  // the input of each layer, and the last one's output
      y[0] = load_value(x);
      for (int k = 0; k < kNarrow; ++k) {
        y[k + 1] = y[k];
        partners.forward(k, at, y[k + 1]);
      }
      Value last = y[kNarrow];
      if constexpr (P == 2) turn(omega.c, omega.s, last.part[0], last.part[1]);
      Value d = gradient(v, r, last);
      if constexpr (P == 2) {
        d_omega = hn::Add(d_omega, phase_product(d, last));
        turn_back(omega.c, omega.s, d.part[0], d.part[1]);
      }
      for (int k = kNarrow - 1; k >= 0; --k)
        partners.backward(k, at, y[k], y[k + 1], d, d_theta[k], d_phi[k]);
      store_value(d, g);
    }
    for (int k = 0; k < kNarrow; ++k) {
      add_to(sum + k * kValue, d_theta[k]);
      if constexpr (P == 2) add_to(sum + k * kValue + kLanes, d_phi[k]);
    }
    if constexpr (P == 2) add_to(sum + kNarrow * kValue, d_omega);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace nru::kernels
HWY_AFTER_NAMESPACE();
#endif
