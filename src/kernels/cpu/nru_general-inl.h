// The memory write of the NRU in its general form: all k*m direction numbers are formed, for any
// number of heads and any way to make them (shared, per head, full). O(k m) work: this is the form
// that follows the equations, the one that heads straddling rows of p q^T need, and what the
// factored form is tested against.
//
//   V = direction(u) [k*m];  v_i = f(V_i) / max(|f(V_i)|_5, 1e-12)
//   s = c0 sum_i (alpha_i v_i^w - beta_i v_i^e);  m = m' + s, or m = m' s
//
// Backward, D = dm: ds = D and dm' = D where s is added; ds = D m' and dm' = D s where it
// multiplies.
#if defined(NRU_KERNELS_CPU_NRU_GENERAL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NRU_KERNELS_CPU_NRU_GENERAL_INL_H_
#undef NRU_KERNELS_CPU_NRU_GENERAL_INL_H_
#else
#define NRU_KERNELS_CPU_NRU_GENERAL_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/cpu/nru_write-inl.h"
#include "kernels/nru.h"

HWY_BEFORE_NAMESPACE();
namespace nru::kernels {
namespace HWY_NAMESPACE {
namespace nru_cell {

struct GeneralSizes {
  int k, m, direction_size;
  NruDirection direction;
  int root;  // of k*m (shared) or m (per head)
  double combine;
  bool relu, authors_overflow, multiply;
  explicit GeneralSizes(const NruShape& s)
      : k(s.heads),
        m(s.memory),
        direction_size(s.direction_size()),
        direction(s.direction),
        root(s.direction == NruDirection::per_head ? direction_size / (2 * k) : direction_size / 2),
        combine(s.sum_heads ? 1.0 : 1.0 / s.heads),
        relu(s.relu_heads),
        authors_overflow(s.authors_overflow),
        multiply(s.multiply_memory) {}
  std::size_t scratch() const { return (2 * static_cast<std::size_t>(k) + 2) * m + 64; }
  int blocks() const {
    return direction == NruDirection::per_head ? k : 1;
  }  // outer products p q^T of root x root
};

template <class T>
void form_directions(const GeneralSizes& s, const T* from, T* V) {
  const hn::ScalableTag<T> d;
  constexpr int N = vector_lanes<T>();
  if (s.direction == NruDirection::full) {
    std::copy_n(from, s.k * s.m, V);
    return;
  }
  const T *p = from, *q = from + s.blocks() * s.root;
  for (int b = 0; b < s.blocks(); ++b, p += s.root, q += s.root) {
    for (int a = 0; a < s.root; ++a, V += s.root) {
      const auto p_a = hn::Set(d, p[a]);
      for (int j = 0; j < s.root; j += N) {
        const int n = s.root - j;
        store_first(d, hn::Mul(p_a, load_first(d, q + j, n)), n, V + j);
      }
    }
  }
}

// An infinite p or q belongs to heads that write nothing: it gets and passes on gradient zero.
template <class D, class V>
HWY_INLINE V finite_or_zero(D d, V x) {
  const auto largest = hn::Set(d, std::numeric_limits<hn::TFromD<D>>::max());
  return hn::IfThenElseZero(hn::Le(hn::Abs(x), largest), x);
}

template <class T>
void form_directions_backward(const GeneralSizes& s, const T* from, const T* d_V, T* d_from) {
  const hn::ScalableTag<T> d;
  constexpr int N = vector_lanes<T>();
  if (s.direction == NruDirection::full) {
    std::copy_n(d_V, s.k * s.m, d_from);
    return;
  }
  const T *p = from, *q = from + s.blocks() * s.root;
  T *d_p = d_from, *d_q = d_from + s.blocks() * s.root;
  for (int b = 0; b < s.blocks(); ++b, p += s.root, q += s.root, d_p += s.root, d_q += s.root) {
    std::fill_n(d_q, s.root, T(0));
    for (int a = 0; a < s.root; ++a, d_V += s.root) {
      const auto p_a = finite_or_zero(d, hn::Set(d, p[a]));
      auto sums = hn::Zero(d);
      for (int j = 0; j < s.root; j += N) {
        const int n = s.root - j;
        const auto g = load_first(d, d_V + j, n);
        sums = hn::MulAdd(g, finite_or_zero(d, load_first(d, q + j, n)), sums);
        store_first(d, hn::MulAdd(g, p_a, load_first(d, d_q + j, n)), n, d_q + j);
      }
      d_p[a] = sum_lanes(d, sums);
    }
  }
}

// Applies f to head i's numbers, in place, and returns their |.|_5 by way of the largest magnitude;
// infinity if they have no usable one.
template <class T>
T activate_head(const GeneralSizes& s, T* v) {
  const hn::ScalableTag<T> d;
  constexpr int N = vector_lanes<T>();
  auto tops = hn::Zero(d), poison = hn::Zero(d);  // x - x is NaN for what is not finite, even -inf
  for (int j = 0; j < s.m; j += N) {
    auto x = load_first(d, v + j, s.m - j);
    poison = hn::Add(poison, hn::Sub(x, x));
    if (s.relu) x = hn::Max(x, hn::Zero(d));
    store_first(d, x, s.m - j, v + j);
    tops = hn::Max(tops, hn::Abs(x));
  }
  const T top = hn::GetLane(hn::MaxOfLanes(d, tops));
  if (sum_lanes(d, poison) != T(0) || top > kLargestNorm<T>)
    return std::numeric_limits<T>::infinity();
  if (top < std::numeric_limits<T>::min()) return 0;
  const auto scale = hn::Set(d, T(1) / top);
  auto sums = hn::Zero(d);
  for (int j = 0; j < s.m; j += N)
    sums = hn::Add(sums, abs_pow5(hn::Mul(load_first(d, v + j, s.m - j), scale)));
  return top * std::pow(sum_lanes(d, sums), T(0.2));
}

// Turns head i's numbers into v_i in place. Returns 1/norm where the direction gets a gradient, 0
// where it gets none (clamped norm, or a head that writes nothing).
template <class T>
T normalise_head(const GeneralSizes& s, T* v, std::int64_t* events) {
  const T norm = activate_head(s, v);
  if (!(norm <= (s.authors_overflow ? T(kAuthorsLargestNorm) : kLargestNorm<T>))) {
    std::fill_n(v, s.m, T(0));
    ++events[kOverflow];
    return 0;
  }
  const bool clamped = norm <= T(kNormClamp);
  if (clamped) ++events[kClamped];
  const T inverse = T(1) / (clamped ? T(kNormClamp) : norm);
  for (int j = 0; j < s.m; ++j) v[j] *= inverse;
  return clamped ? T(0) : inverse;
}

template <class T>
void write_general(const GeneralSizes& s, const T* u, const T* m_prev, T* m_out, T* scratch,
                   std::int64_t* events) {
  // The change is summed on its own: adding head after head to m would round at m's size each time.
  std::fill_n(m_out, s.m, T(0));
  for (int side = 0; side < 2; ++side) {
    form_directions(s, u + 2 * s.k + side * s.direction_size, scratch);
    for (int i = 0; i < s.k; ++i) {
      T* v = scratch + i * s.m;
      normalise_head(s, v, events);
      const T alpha = s.relu ? std::max(u[side * s.k + i], T(0)) : u[side * s.k + i];
      const T c = T(side ? -s.combine : s.combine) * alpha;
      for (int j = 0; j < s.m; ++j) m_out[j] += c * v[j];
    }
  }
  for (int j = 0; j < s.m; ++j) m_out[j] = s.multiply ? m_out[j] * m_prev[j] : m_out[j] + m_prev[j];
}

// d_m: of m in, of m' out, as far as m' reaches m directly.
template <class T>
void write_general_backward(const GeneralSizes& s, const T* u, const T* m_prev, T* d_m, T* d_u,
                            T* scratch) {
  const hn::ScalableTag<T> d;
  constexpr int N = vector_lanes<T>();
  T *V = scratch, *d_V = V + s.k * s.m, *sum = d_V + s.k * s.m, *d_sum = sum + s.m;
  std::int64_t ignored[kEvents] = {};  // the forward pass has counted
  std::fill_n(sum, s.m, T(0));
  for (int j = 0; j < s.m; ++j) d_sum[j] = s.multiply ? d_m[j] * m_prev[j] : d_m[j];
  for (int side = 0; side < 2; ++side) {
    const T* from = u + 2 * s.k + side * s.direction_size;
    const T c0 = T(side ? -s.combine : s.combine);
    form_directions(s, from, V);
    for (int i = 0; i < s.k; ++i) {
      T *v = V + i * s.m, *d_v = d_V + i * s.m;
      const T inverse = normalise_head(s, v, ignored), alpha = u[side * s.k + i];
      const bool open = !s.relu || alpha > T(0);
      auto dots = hn::Zero(d);
      for (int j = 0; j < s.m; j += N) {
        const int n = s.m - j;
        dots = hn::MulAdd(load_first(d, d_sum + j, n), load_first(d, v + j, n), dots);
      }
      const T dot = sum_lanes(d, dots);
      for (int j = 0; s.multiply && open && j < s.m; ++j) sum[j] += c0 * alpha * v[j];
      d_u[side * s.k + i] = open ? c0 * dot : T(0);
      const auto c = hn::Set(d, open ? c0 * alpha * inverse : T(0));
      for (int j = 0; j < s.m; j += N) {
        const int n = s.m - j;
        const auto x = load_first(d, v + j, n);
        auto g = hn::NegMulAdd(hn::Set(d, dot), signed_pow4(x), load_first(d, d_sum + j, n));
        if (s.relu) g = hn::IfThenElseZero(hn::Gt(x, hn::Zero(d)), g);
        store_first(d, hn::Mul(c, g), n, d_v + j);
      }
    }
    form_directions_backward(s, from, d_V, d_u + 2 * s.k + side * s.direction_size);
  }
  for (int j = 0; s.multiply && j < s.m; ++j) d_m[j] *= sum[j];
}

}  // namespace nru_cell
}  // namespace HWY_NAMESPACE
}  // namespace nru::kernels
HWY_AFTER_NAMESPACE();
#endif
