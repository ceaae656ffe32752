// A group of CTAs on the CPU (see emulated_cluster.h): flags in global memory, and the tensor
// cores.
#pragma once

#include "emulated_cluster.h"

namespace nru::kernels::cuda {

// ---- groups_exchange.cuh ----

inline void raise(unsigned* flag, unsigned value) { *flag = value; }
inline void await_flags(const unsigned* flags, int count, unsigned value) {
  emulated::Cluster::running().wait_until(
      [&] { return std::all_of(flags, flags + count, [&](unsigned f) { return f >= value; }); });
}
inline float load_new(const float* from) { return *from; }
inline float4 load_new4(const float* from) { return {from[0], from[1], from[2], from[3]}; }

// ---- tensor.cuh ----

struct TensorOperands {
  unsigned a[4], b[2];
};

inline float as_tf32(unsigned bits) { return __uint_as_float(bits & 0xffffe000u); }

// The operands of a lane must outlive its call, because others may come to read them later: but not
// later than its next call but one.
inline void multiply_add(float (&c)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3,
                         unsigned b0, unsigned b1) {
  static std::map<const emulated::Fiber*, std::array<TensorOperands, 2>> shown;
  static std::map<const emulated::Fiber*, unsigned> calls;
  const emulated::Fiber* fiber = &emulated::Cluster::running().fiber();
  TensorOperands& mine = shown[fiber][calls[fiber]++ % 2];
  mine = {{a0, a1, a2, a3}, {b0, b1}};
  const int g = fiber->lane() / 4, t = fiber->lane() % 4;
  emulated::Cluster::running().exchange(
      reinterpret_cast<std::uint64_t>(&mine), [&](const std::uint64_t* all) {
        const auto lane = [&](int row, int column) -> const TensorOperands& {
          return *reinterpret_cast<const TensorOperands*>(all[4 * row + column]);
        };
        for (int e = 0; e < 4; ++e) {
          const int column = 2 * t + e % 2;
          double sum = c[e];
          for (int k = 0; k < 8; ++k)
            sum += double(as_tf32(lane(g, k % 4).a[e / 2 + k / 4 * 2])) *
                   as_tf32(lane(column, k % 4).b[k / 4]);
          c[e] = static_cast<float>(sum);
        }
        return 0;
      });
}

}  // namespace nru::kernels::cuda
