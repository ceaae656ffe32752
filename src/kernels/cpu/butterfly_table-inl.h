// The angles of a butterfly as its kernel reads them, and the sums that become their gradients.
//
// A layer whose stride is at least a vector long ("wide") pairs vectors of coordinates: per pair of
// vectors it has the cosines and sines of theta (complex: and of phi), and a vector of sums for
// each angle. In the other layers ("narrow": strides lanes/2 .. 1) the partner of a coordinate is
// in the same vector: y_j = C_j x_j + S_j x_{j xor d}, so each vector has cosines and sines per
// coordinate (S = -sin theta at a, sin theta at b of a pair; phi at b, 0 at a) for all narrow
// layers, then those of omega; and sums of g_j y_{j xor d}, whose difference at b and a is d theta.
// Padding and coordinates without a partner have the coefficients of the identity.
#if defined(NRU_KERNELS_CPU_BUTTERFLY_TABLE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NRU_KERNELS_CPU_BUTTERFLY_TABLE_INL_H_
#undef NRU_KERNELS_CPU_BUTTERFLY_TABLE_INL_H_
#else
#define NRU_KERNELS_CPU_BUTTERFLY_TABLE_INL_H_
#endif

#include <bit>
#include <cmath>
#include <cstddef>
#include <vector>

#include "kernels/butterfly.h"
#include "kernels/cpu/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nru::kernels {
namespace HWY_NAMESPACE {

// P = 1: real, P = 2: complex.
template <class T, int P>
class ButterflyTable {
 public:
  static constexpr int kLanes = vector_lanes<T>();
  static constexpr int kNarrow = std::bit_width(static_cast<unsigned>(kLanes)) - 1;  // layers
  // Values of a pair of vectors in a wide layer, and of a vector in all narrow ones.
  static constexpr int kPairTable = 2 * P * kLanes, kPairSums = P * kLanes;
  static constexpr int kVectorTable = (kNarrow * 2 * P + (P == 2 ? 2 : 0)) * kLanes;
  static constexpr int kVectorSums = (kNarrow * P + (P == 2 ? 1 : 0)) * kLanes;

  struct Wide {
    ButterflyLayer wires;
    int distance;             // stride in vectors
    std::size_t table, sums;  // where its part begins
  };

  explicit ButterflyTable(int n);

  int size() const { return wiring_.size(); }
  int vectors() const { return vectors_; }                 // of coordinates
  const std::vector<Wide>& wide() const { return wide_; }  // largest stride first
  std::size_t narrow_table() const { return narrow_table_; }
  std::size_t narrow_sums() const { return narrow_sums_; }
  std::size_t table_size() const { return table_size_; }
  std::size_t sums_size() const { return sums_size_; }

  // phi, omega: complex only.
  void prepare(const T* theta, const T* phi, const T* omega, T* table) const;
  // Adds what the sums amount to to the gradients of the angles.
  void finish(const T* sums, T* d_theta, T* d_phi, T* d_omega) const;

 private:
  // Layer number among the narrow ones; strides lanes/2, lanes/4, .. 1.
  static int narrow_index(const ButterflyLayer& layer) {
    return kNarrow - std::bit_width(static_cast<unsigned>(layer.stride));
  }

  Butterfly wiring_;
  int vectors_ = 0;
  std::vector<Wide> wide_;
  std::vector<ButterflyLayer> narrow_;
  std::size_t narrow_table_ = 0, narrow_sums_ = 0, table_size_ = 0, sums_size_ = 0;
};

template <class T, int P>
ButterflyTable<T, P>::ButterflyTable(int n) : wiring_(n), vectors_((n + kLanes - 1) / kLanes) {
  for (const ButterflyLayer& layer : wiring_.layers()) {
    if (layer.stride < kLanes) {
      narrow_.push_back(layer);
      continue;
    }
    wide_.push_back({layer, layer.stride / kLanes, table_size_, sums_size_});
    const std::size_t pairs = (layer.pairs + kLanes - 1) / kLanes;
    table_size_ += pairs * kPairTable;
    sums_size_ += pairs * kPairSums;
  }
  narrow_table_ = table_size_;
  narrow_sums_ = sums_size_;
  table_size_ += std::size_t(vectors_) * kVectorTable;
  sums_size_ += std::size_t(vectors_) * kVectorSums;
}

// The table is a list of (cosines, sines), a vector each.
template <class T, int P>
void ButterflyTable<T, P>::prepare(const T* theta, const T* phi, const T* omega, T* table) const {
  const auto set = [](T angle, T* cosine) {
    cosine[0] = std::cos(angle);
    cosine[kLanes] = std::sin(angle);
  };
  for (std::size_t i = 0; i < table_size_; ++i) table[i] = i / kLanes % 2 == 0 ? T(1) : T(0);
  for (const Wide& layer : wide_) {
    for (int p = 0; p < layer.wires.pairs; ++p) {
      T* to = table + layer.table + p / kLanes * kPairTable + p % kLanes;
      set(theta[layer.wires.first + p], to);
      if (P == 2) set(phi[layer.wires.first + p], to + 2 * kLanes);
    }
  }
  for (const ButterflyLayer& layer : narrow_) {
    const int k = narrow_index(layer);
    for (int p = 0; p < layer.pairs; ++p) {
      const int a = layer.lower(p), lane = a % kLanes;
      T* to = table + narrow_table_ + a / kLanes * kVectorTable + k * 2 * P * kLanes + lane;
      set(-theta[layer.first + p], to);
      set(theta[layer.first + p], to + layer.stride);
      if (P == 2) set(phi[layer.first + p], to + 2 * kLanes + layer.stride);
    }
  }
  for (int j = 0; P == 2 && j < wiring_.size(); ++j) {
    set(omega[j],
        table + narrow_table_ + j / kLanes * kVectorTable + kNarrow * 2 * P * kLanes + j % kLanes);
  }
}

template <class T, int P>
void ButterflyTable<T, P>::finish(const T* sums, T* d_theta, T* d_phi, T* d_omega) const {
  for (const Wide& layer : wide_) {
    for (int p = 0; p < layer.wires.pairs; ++p) {
      const T* from = sums + layer.sums + p / kLanes * kPairSums + p % kLanes;
      d_theta[layer.wires.first + p] += from[0];
      if (P == 2) d_phi[layer.wires.first + p] += from[kLanes];
    }
  }
  for (const ButterflyLayer& layer : narrow_) {
    const int k = narrow_index(layer);
    for (int p = 0; p < layer.pairs; ++p) {
      const int a = layer.lower(p), lane = a % kLanes;
      const T* from = sums + narrow_sums_ + a / kLanes * kVectorSums + k * P * kLanes + lane;
      d_theta[layer.first + p] += from[layer.stride] - from[0];
      if (P == 2) d_phi[layer.first + p] += from[kLanes + layer.stride];
    }
  }
  for (int j = 0; P == 2 && j < wiring_.size(); ++j) {
    d_omega[j] += sums[narrow_sums_ + j / kLanes * kVectorSums + kNarrow * P * kLanes + j % kLanes];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace nru::kernels
HWY_AFTER_NAMESPACE();
#endif
