#include "kernels/cpu/readout.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/readout.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
// After foreach_target.h:
#include <hwy/highway.h>

#include "kernels/cpu/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nru::kernels {
namespace HWY_NAMESPACE {
template <class T>
double cross_entropy(T* logits, int ld, int classes, int rows, const std::int32_t* targets,
                     const T* weights, T scale, std::int32_t* predictions) {
  const hn::ScalableTag<T> d;
  constexpr int N = vector_lanes<T>();
  const auto lowest = hn::Set(d, std::numeric_limits<T>::lowest());
  double total = 0;
  for (int row = 0; row < rows; ++row) {
    T* z = logits + static_cast<std::ptrdiff_t>(row) * ld;
    auto largest = lowest;
    for (int j = 0; j < classes; j += N) {
      largest =
          hn::Max(largest, hn::IfThenElse(hn::FirstN(d, classes - j), hn::LoadU(d, z + j), lowest));
    }
    const T top = hn::GetLane(hn::MaxOfLanes(d, largest));
    if (predictions) {
      int best = 0;
      while (best + 1 < classes && z[best] != top) ++best;
      predictions[row] = best;
    }
    const T weight = weights[row];
    if (weight == T(0)) {  // its logits may be infinite, its target anything
      std::fill_n(z, classes, T(0));
      continue;
    }
    const T target_logit = z[targets[row]];
    auto sums = hn::Zero(d);
    for (int j = 0; j < classes; j += N) {
      const auto e = hn::IfThenElseZero(hn::FirstN(d, classes - j),
                                        exp(d, hn::Sub(hn::LoadU(d, z + j), hn::Set(d, top))));
      sums = hn::Add(sums, e);
      hn::StoreU(e, d, z + j);
    }
    const T sum = hn::GetLane(hn::SumOfLanes(d, sums));
    total += double(weight) * (std::log(double(sum)) + double(top) - double(target_logit));
    const T factor = weight * scale;
    const auto norm = hn::Set(d, factor / sum);
    for (int j = 0; j < classes; j += N) hn::StoreU(hn::Mul(hn::LoadU(d, z + j), norm), d, z + j);
    z[targets[row]] -= factor;
  }
  return total;
}

double cross_entropy_float(float* logits, int ld, int classes, int rows,
                           const std::int32_t* targets, const float* weights, float scale,
                           std::int32_t* predictions) {
  return cross_entropy(logits, ld, classes, rows, targets, weights, scale, predictions);
}
double cross_entropy_double(double* logits, int ld, int classes, int rows,
                            const std::int32_t* targets, const double* weights, double scale,
                            std::int32_t* predictions) {
  return cross_entropy(logits, ld, classes, rows, targets, weights, scale, predictions);
}

}  // namespace HWY_NAMESPACE
}  // namespace nru::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nru::kernels {
HWY_EXPORT(cross_entropy_float);
HWY_EXPORT(cross_entropy_double);

template <>
double softmax_cross_entropy(float* logits, int ld, int classes, int rows,
                             const std::int32_t* targets, const float* weights, float scale,
                             std::int32_t* predictions) {
  return HWY_DYNAMIC_DISPATCH(cross_entropy_float)(logits, ld, classes, rows, targets, weights,
                                                   scale, predictions);
}
template <>
double softmax_cross_entropy(double* logits, int ld, int classes, int rows,
                             const std::int32_t* targets, const double* weights, double scale,
                             std::int32_t* predictions) {
  return HWY_DYNAMIC_DISPATCH(cross_entropy_double)(logits, ld, classes, rows, targets, weights,
                                                    scale, predictions);
}
}  // namespace nru::kernels
#endif
