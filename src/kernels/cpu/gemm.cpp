// The register-tiled kernels behind gemm.h, compiled once per SIMD level by Highway.
//
// A tile keeps R rows x V vectors of the result in registers; per k it loads V vectors of the
// packed panel and broadcasts R values of the left operand, so R*V fused multiply-adds cost R+V
// loads. With 32 registers (AVX-512, NEON) 14 x 2 fits, with 16 registers 6 x 2: both leave the FMA
// units as the only limit, even when the panel streams from L2.
#include "kernels/cpu/gemm.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gemm.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
// After foreach_target.h:
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace nru::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_ARCH_X86
constexpr int kMaxRows = HWY_TARGET <= HWY_AVX3 ? 14 : 6;
#else
constexpr int kMaxRows = 12;
#endif
constexpr int kPanelVectors = 2;

template <class T>
constexpr int lanes() {
  return static_cast<int>(hn::MaxLanes(hn::ScalableTag<T>()));
}

// Vectors of the panel that starts at column j: two, or one at the end when one is enough.
template <class T>
int panel_vectors(int columns, int j) {
  return columns - j > lanes<T>() ? kPanelVectors : 1;
}

template <class T>
std::size_t packed_size(int depth, int columns) {
  const int vectors = (columns + lanes<T>() - 1) / lanes<T>();
  return static_cast<std::size_t>(depth) * vectors * lanes<T>();
}

template <class T>
void pack(const T* source, int depth, int columns, std::ptrdiff_t stride_k, std::ptrdiff_t stride_n,
          T* packed, int offset, int total_depth) {
  for (int j = 0; j < columns; j += kPanelVectors * lanes<T>()) {
    const int width = panel_vectors<T>(columns, j) * lanes<T>();
    const int used = std::min(width, columns - j);
    T* panel = packed + static_cast<std::size_t>(j) * total_depth +
               static_cast<std::size_t>(offset) * width;
    const T* from = source + j * stride_n;
    if (stride_n == 1) {
      for (int k = 0; k < depth; ++k) {
        std::copy_n(from + k * stride_k, used, panel + k * width);
        std::fill(panel + k * width + used, panel + (k + 1) * width, T(0));
      }
    } else {  // a transpose; read along k in blocks so that each source line is used up while it is
              // in cache
      constexpr int kBlock = 64 / sizeof(T);
      for (int k0 = 0; k0 < depth; k0 += kBlock) {
        const int k1 = std::min(depth, k0 + kBlock);
        for (int n = 0; n < width; ++n) {
          for (int k = k0; k < k1; ++k) {
            panel[k * width + n] = n < used ? from[k * stride_k + n * stride_n] : T(0);
          }
        }
      }
    }
  }
}

template <int R, int V, class T>
HWY_INLINE void multiply_tile(const Operand<T>* segments, int count, int row,
                              const T* HWY_RESTRICT panel, const T* bias, bool accumulate,
                              T* HWY_RESTRICT out, int ld_out) {
  const hn::ScalableTag<T> d;
  using Vec = hn::Vec<decltype(d)>;
  constexpr int N = lanes<T>();
  Vec sum[R][V];
  HWY_UNROLL(16)
  for (int r = 0; r < R; ++r) {
    HWY_UNROLL(2)
    for (int v = 0; v < V; ++v) {
      sum[r][v] = hn::Zero(d);
    }
  }
  for (int s = 0; s < count; ++s) {
    const std::ptrdiff_t ld = segments[s].ld;
    const T* HWY_RESTRICT a = segments[s].data + row * ld;
    const int width = segments[s].width;
    for (int k = 0; k < width; ++k) {
      Vec b[V];
      HWY_UNROLL(2)
      for (int v = 0; v < V; ++v) b[v] = hn::LoadU(d, panel + v * N);
      HWY_UNROLL(16)
      for (int r = 0; r < R; ++r) {
        const Vec value = hn::Set(d, a[r * ld]);
        HWY_UNROLL(2)
        for (int v = 0; v < V; ++v) sum[r][v] = hn::MulAdd(value, b[v], sum[r][v]);
      }
      ++a;
      panel += V * N;
    }
  }
  HWY_UNROLL(16)
  for (int r = 0; r < R; ++r) {
    HWY_UNROLL(2)
    for (int v = 0; v < V; ++v) {
      T* to = out + r * ld_out + v * N;
      // Last, not first: a large start (the gradient carried through a memory) would make every
      // product round at its size.
      const Vec start = accumulate ? hn::LoadU(d, to)
                        : bias     ? hn::LoadU(d, bias + v * N)
                                   : hn::Zero(d);
      hn::StoreU(hn::Add(start, sum[r][v]), d, to);
    }
  }
}

// Turns a run-time row count 1..kMaxRows into a compile-time one.
template <int R, class F>
HWY_INLINE void with_rows(int rows, const F& f) {
  if constexpr (R > 1) {
    if (rows < R) return with_rows<R - 1>(rows, f);
  }
  f.template operator()<R>();
}

template <int V, class T>
struct MultiplyTile {
  const Operand<T>* segments;
  int count, row;
  const T* panel;
  const T* bias;
  bool accumulate;
  T* out;
  int ld_out;
  template <int R>
  HWY_NOINLINE void operator()() const {
    multiply_tile<R, V>(segments, count, row, panel, bias, accumulate, out, ld_out);
  }
};

template <class T>
void multiply(const Operand<T>* segments, int count, int rows, const T* packed, int columns,
              const T* bias, bool accumulate, T* out, int ld_out) {
  int depth = 0;
  for (int s = 0; s < count; ++s) depth += segments[s].width;
  const std::int64_t tiles = (rows + kMaxRows - 1) / kMaxRows;
  for (int j = 0; j < columns; j += kPanelVectors * lanes<T>()) {
    const bool two = panel_vectors<T>(columns, j) == 2;
    const T* panel = packed + static_cast<std::size_t>(j) * depth;
    int row = 0;
    for (std::int64_t i = 0; i < tiles; ++i) {
      const int end = static_cast<int>((i + 1) * rows / tiles);
      T* o = out + static_cast<std::size_t>(row) * ld_out + j;
      const T* b = bias ? bias + j : nullptr;
      if (two) {
        with_rows<kMaxRows>(
            end - row, MultiplyTile<2, T>{segments, count, row, panel, b, accumulate, o, ld_out});
      } else {
        with_rows<kMaxRows>(
            end - row, MultiplyTile<1, T>{segments, count, row, panel, b, accumulate, o, ld_out});
      }
      row = end;
    }
  }
}

template <int R, int V, class T>
HWY_INLINE void outer_tile(const T* HWY_RESTRICT d_values, int ld_d, const T* HWY_RESTRICT x,
                           int ld_x, int depth, T* HWY_RESTRICT gradient, int ld_gradient) {
  const hn::ScalableTag<T> d;
  using Vec = hn::Vec<decltype(d)>;
  constexpr int N = lanes<T>();
  Vec sum[R][V];
  HWY_UNROLL(16)
  for (int r = 0; r < R; ++r) {
    HWY_UNROLL(2)
    for (int v = 0; v < V; ++v) sum[r][v] = hn::Zero(d);
  }
  for (int k = 0; k < depth; ++k) {
    Vec b[V];
    HWY_UNROLL(2)
    for (int v = 0; v < V; ++v) b[v] = hn::LoadU(d, x + v * N);
    HWY_UNROLL(16)
    for (int r = 0; r < R; ++r) {
      const Vec value = hn::Set(d, d_values[r]);
      HWY_UNROLL(2)
      for (int v = 0; v < V; ++v) sum[r][v] = hn::MulAdd(value, b[v], sum[r][v]);
    }
    d_values += ld_d;
    x += ld_x;
  }
  // One row at a time: the padding behind a row is the start of the next (it receives +0), so order
  // matters.
  HWY_UNROLL(16)
  for (int r = 0; r < R; ++r) {
    HWY_UNROLL(2)
    for (int v = 0; v < V; ++v) {
      T* g = gradient + static_cast<std::ptrdiff_t>(r) * ld_gradient + v * N;
      hn::StoreU(hn::Add(hn::LoadU(d, g), sum[r][v]), d, g);
    }
  }
}

template <int V, class T>
struct OuterTile {
  const T* d_values;
  int ld_d;
  const T* x;
  int ld_x, depth;
  T* gradient;
  int ld_gradient;
  template <int R>
  HWY_NOINLINE void operator()() const {
    outer_tile<R, V>(d_values, ld_d, x, ld_x, depth, gradient, ld_gradient);
  }
};

template <class T>
void accumulate_outer(const T* d, int ld_d, int rows, const T* x, int ld_x, int width, int depth,
                      T* gradient, int ld_gradient) {
  const std::int64_t tiles = (rows + kMaxRows - 1) / kMaxRows;
  for (int j = 0; j < width; j += kPanelVectors * lanes<T>()) {
    const bool two = panel_vectors<T>(width, j) == 2;
    int row = 0;
    for (std::int64_t i = 0; i < tiles; ++i) {
      const int end = static_cast<int>((i + 1) * rows / tiles);
      T* g = gradient + static_cast<std::ptrdiff_t>(row) * ld_gradient + j;
      if (two) {
        with_rows<kMaxRows>(end - row,
                            OuterTile<2, T>{d + row, ld_d, x + j, ld_x, depth, g, ld_gradient});
      } else {
        with_rows<kMaxRows>(end - row,
                            OuterTile<1, T>{d + row, ld_d, x + j, ld_x, depth, g, ld_gradient});
      }
      row = end;
    }
  }
}

template <class T>
void add(const T* source, std::size_t count, T* destination) {
  const hn::ScalableTag<T> d;
  std::size_t i = 0;
  for (; i + lanes<T>() <= count; i += lanes<T>()) {
    hn::StoreU(hn::Add(hn::LoadU(d, destination + i), hn::LoadU(d, source + i)), d,
               destination + i);
  }
  for (; i < count; ++i) destination[i] += source[i];
}

template <class T>
void accumulate_columns(const T* d, int ld_d, int columns, int depth, T* sums) {
  for (int k = 0; k < depth; ++k) add<T>(d + static_cast<std::size_t>(k) * ld_d, columns, sums);
}

// NaN-propagating, so that a poisoned state shows up in the log.
template <class T>
T max_abs(const T* values, std::size_t count) {
  const hn::ScalableTag<T> d;
  auto largest = hn::Zero(d);
  auto poison = hn::Zero(d);  // x - x is NaN for infinities and NaN, else 0
  std::size_t i = 0;
  for (; i + lanes<T>() <= count; i += lanes<T>()) {
    const auto v = hn::LoadU(d, values + i);
    largest = hn::Max(largest, hn::Abs(v));
    poison = hn::Add(poison, hn::Sub(v, v));
  }
  T result = hn::GetLane(hn::MaxOfLanes(d, largest));
  T bad = hn::GetLane(hn::SumOfLanes(d, poison));
  for (; i < count; ++i) {
    result = std::max(result, std::abs(values[i]));
    bad += values[i] - values[i];
  }
  return bad == T(0) ? result : std::abs(bad);
}

template <class T>
LinearOps<T> make_ops() {
  return {hwy::TargetName(HWY_TARGET),
          lanes<T>(),
          kMaxRows,
          packed_size<T>,
          pack<T>,
          multiply<T>,
          accumulate_outer<T>,
          accumulate_columns<T>,
          add<T>,
          max_abs<T>};
}

LinearOps<float> make_float_ops() { return make_ops<float>(); }
LinearOps<double> make_double_ops() { return make_ops<double>(); }

}  // namespace HWY_NAMESPACE
}  // namespace nru::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nru::kernels {
HWY_EXPORT(make_float_ops);
HWY_EXPORT(make_double_ops);

template <>
const LinearOps<float>& linear_ops<float>() {
  static const LinearOps<float> ops = HWY_DYNAMIC_DISPATCH(make_float_ops)();
  return ops;
}

template <>
const LinearOps<double>& linear_ops<double>() {
  static const LinearOps<double> ops = HWY_DYNAMIC_DISPATCH(make_double_ops)();
  return ops;
}
}  // namespace nru::kernels
#endif
