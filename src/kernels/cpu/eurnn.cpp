// EURNN, pointwise part. One phase: [x] -> z.
//
//   z = Q h' + U x   h = modReLU(z; b)
//
// The butterfly Q (butterfly-inl.h) is part of the pointwise function: its pairs lie within a row.
// Kept for the backward pass: z, in place of U x, and h; Q h' is computed again. At the size of
// psMNIST that is half a gigabyte, of which every step reads rows that no cache holds any more; so
// the backward pass asks for those of the step before while it is busy with the angles.
#include "kernels/eurnn.h"

#include <hwy/cache_control.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/eurnn.cpp"
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
namespace eurnn {

constexpr int kH = 1, kZ = 2, kRe = 3;  // parts

template <int P>  // parameters; 1: real, 2: complex
struct Index {
  static constexpr int kTheta = 0, kPhi = 1, kOmega = 2;  // phi and omega: complex only
  static constexpr int kWeight = P == 1 ? 1 : 3, kBias = kWeight + 1;
};

template <class T, int P>
struct Cell {
  EurnnShape shape;
  ButterflyKernel<T, P> butterfly;
  using Value = typename ButterflyKernel<T, P>::Value;

  template <int R>
  void forward(const Rows<T>& rows, int first) const {
    const hn::ScalableTag<T> d;
    const int n = shape.hidden;
    const T* b = rows.parameters[Index<P>::kBias];
    T* z_rows = rows.current[kZ] + first * rows.ld[kZ];
    T* h_rows = rows.current[kH] + first * rows.ld[kH];
    T* re_rows = P == 2 ? rows.current[kRe] + first * rows.ld[kRe] : nullptr;
    const auto eps = hn::Set(d, static_cast<T>(shape.epsilon));
    butterfly.template load<R>(rows.previous[kH] + first * rows.ld[kH], rows.ld[kH], rows.scratch);
    butterfly.template forward<R>(
        rows.derived, rows.scratch, [&](int v, int r, const Value& y) HWY_ATTR {
          const int j = v * vector_lanes<T>(), left = n - j;
          Value z;
          for (int p = 0; p < P; ++p) {
            T* at = z_rows + r * rows.ld[kZ] + p * n + j;
            z.part[p] = hn::Add(load_first(d, at, left), y.part[p]);
            store_first(d, z.part[p], left, at);
          }
          const Value h = modrelu(d, shape.modrelu, eps, load_first(d, b + j, left), z);
          for (int p = 0; p < P; ++p)
            store_first(d, h.part[p], left, h_rows + r * rows.ld[kH] + p * n + j);
          if constexpr (P == 2) store_first(d, h.part[0], left, re_rows + r * rows.ld[kRe] + j);
        });
  }

  // The cache line of row r that holds coordinate j, one step before `current` (a part's rows at a
  // step): there may be no such step, which a prefetch does not mind.
  HWY_INLINE void prefetch(const Rows<T>& rows, const T* const* current, int part, int r,
                           int j) const {
    const std::ptrdiff_t step = rows.current[part] - rows.previous[part];
    const auto at = reinterpret_cast<std::uintptr_t>(current[part] + r * rows.ld[part] + j);
    hwy::Prefetch(reinterpret_cast<const T*>(at - step * sizeof(T)));
  }

  template <int R>
  void backward(const Rows<T>& rows, int first) const {
    const hn::ScalableTag<T> d;
    const int n = shape.hidden;
    const T* b = rows.parameters[Index<P>::kBias];
    T* d_b = rows.parameter_gradients[Index<P>::kBias];
    const T* z_rows = rows.current[kZ] + first * rows.ld[kZ];
    T* dz_rows = rows.d_pre + first * rows.ld[kZ];
    T* dh_rows = rows.gradient[kH] + first * rows.ld[kH];
    const T* dre_rows = P == 2 ? rows.gradient[kRe] + first * rows.ld[kRe] : nullptr;
    const auto eps = hn::Set(d, static_cast<T>(shape.epsilon));
    T* x = rows.scratch;
    T* g = x + butterfly.scratch();
    butterfly.template load<R>(rows.previous[kH] + first * rows.ld[kH], rows.ld[kH], x);
    butterfly.template backward<R>(
        rows.derived, x, g, rows.accumulators, [&](int v, int r, const Value&) HWY_ATTR {
          const int j = v * vector_lanes<T>(), left = n - j;
          Value z, dz;
          for (int p = 0; p < P; ++p) {
            prefetch(rows, rows.current, kZ, first + r, p * n + j);
            prefetch(rows, rows.previous, kH, first + r, p * n + j);
            z.part[p] = load_first(d, z_rows + r * rows.ld[kZ] + p * n + j, left);
            dz.part[p] = load_first(d, dh_rows + r * rows.ld[kH] + p * n + j, left);
          }
          if constexpr (P == 2)
            dz.part[0] = hn::Add(dz.part[0], load_first(d, dre_rows + r * rows.ld[kRe] + j, left));
          const auto db =
              modrelu_backward(d, shape.modrelu, eps, load_first(d, b + j, left), z, dz);
          store_first(d, hn::Add(load_first(d, d_b + j, left), db), left, d_b + j);
          for (int p = 0; p < P; ++p)
            store_first(d, dz.part[p], left, dz_rows + r * rows.ld[kZ] + p * n + j);
          return dz;
        });
    butterfly.template store<R, false>(g, dh_rows, rows.ld[kH]);
  }
};

template <class T, int P>
Program<T> program(const EurnnShape& shape) {
  using Index = eurnn::Index<P>;
  const int I = shape.input, n = shape.hidden, angles = Butterfly(n).angles();
  Program<T> p;
  p.cell = "eurnn";
  p.shape = shape;
  p.parts = {
      {"x", I, PartKind::input}, {"h", P * n, PartKind::state, /*carries=*/true}, {"z", P * n}};
  if (P == 2) p.parts.push_back({"re", n});
  p.output = P == 2 ? kRe : kH;
  p.parameters = {{"theta", angles, 0, P}};
  if (P == 2) p.parameters.insert(p.parameters.end(), {{"phi", angles, 0, 1}, {"omega", n, 0, 1}});
  p.parameters.insert(p.parameters.end(), {{"weight_ih", P * n, I}, {"bias", n}});
  const auto cell = std::make_shared<const Cell<T, P>>(Cell<T, P>{shape, ButterflyKernel<T, P>(n)});
  p.phases = {{kZ,
               {{kInput, false, Index::kWeight, 0}},
               -1,
               [cell](const Rows<T>& rows) {
                 for_row_blocks(rows.count, [&](auto size, int first) HWY_ATTR {
                   cell->template forward<size.value>(rows, first);
                 });
               },
               [cell](const Rows<T>& rows) {
                 for_row_blocks(rows.count, [&](auto size, int first) HWY_ATTR {
                   cell->template backward<size.value>(rows, first);
                 });
               }}};
  p.scratch = 2 * cell->butterfly.scratch();
  p.derived = cell->butterfly.angles.table_size();
  p.prepare = [cell](const T* const* parameters, T* derived) {
    cell->butterfly.angles.prepare(parameters[Index::kTheta],
                                   P == 2 ? parameters[Index::kPhi] : nullptr,
                                   P == 2 ? parameters[Index::kOmega] : nullptr, derived);
  };
  p.accumulators = cell->butterfly.angles.sums_size();
  p.finish = [cell](const T* sums, T* const* gradients) {
    cell->butterfly.angles.finish(sums, gradients[Index::kTheta],
                                  P == 2 ? gradients[Index::kPhi] : nullptr,
                                  P == 2 ? gradients[Index::kOmega] : nullptr);
  };
  return p;
}

}  // namespace eurnn

Program<float> eurnn_float(const EurnnShape& shape) {
  return shape.complex ? eurnn::program<float, 2>(shape) : eurnn::program<float, 1>(shape);
}
Program<double> eurnn_double(const EurnnShape& shape) {
  return shape.complex ? eurnn::program<double, 2>(shape) : eurnn::program<double, 1>(shape);
}

}  // namespace HWY_NAMESPACE
}  // namespace nru::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nru::kernels {
NRU_EXPORT_PROGRAM(eurnn, EurnnShape);
}  // namespace nru::kernels
#endif
