// What the forward and the backward kernel of groups share: the tile, where a CTA stands, shared
// memory, and the launch.
#pragma once

#include <algorithm>

#include "kernels/cuda/barriers.cuh"
#include "kernels/cuda/groups_product.cuh"

namespace nru::kernels::cuda {

inline constexpr int kWriteThreads = 64;  // the first two warps, one for each side: HeadLanes
inline constexpr int kWritersMeet = 1, kOthersMeet = 2;  // barriers

// For each CTA, up to 8 NH hidden units, 8 NM numbers of memory, 8 NU head outputs; RP and NS: see
// cluster_write.cuh. Blocks of weights that a warp keeps in registers: KF forward, KB backward.
template <int NH_, int NM_, int NU_, int RP_, int NS_, int KF_, int KB_, bool kRelu_>
struct GroupTile {
  static constexpr int NH = NH_, NM = NM_, NU = NU_, RP = RP_, NS = NS_, KF = KF_, KB = KB_;
  static constexpr bool kRelu = kRelu_;
  static constexpr int kNothing = 1 << 30;  // no place among the head outputs
  static constexpr int kMemoryEach = 8 * NM * kGroupCtas / kWriteThreads;  // of a thread's write
  using Write = std::conditional_t<kRelu, ReluWrite<GroupTile>, LinearWrite<GroupTile>>;
  using WriteBackward =
      std::conditional_t<kRelu, ReluWriteBackward<GroupTile>, LinearWriteBackward<GroupTile>>;
};

// Shared memory of a CTA: the weights first, then the rest of fixed size.
struct GroupWidths {
  int hidden, memory, outputs, ctas;
  __host__ __device__ GroupShare h(int cta) const { return {hidden, ctas, cta}; }
  __host__ __device__ GroupShare m(int cta) const { return {memory, ctas, cta}; }
  __host__ __device__ GroupShare u(int cta) const { return {outputs, ctas, cta}; }
};

#if NRU_CLUSTER_CODE

// Where a thread stands. Row r of a group is row first_row + r of the batch; this CTA's write is
// that of row `cta`.
struct GroupPlace {
  int cta, first_row, rows;
  bool writes;                            // the thread has to do with the write
  unsigned *h_flags, *m_flags, *u_flags;  // by CTA
  __device__ __forceinline__ GroupPlace(int batch, int ctas, unsigned* flags) {
    const int group = static_cast<int>(blockIdx.x) / ctas;
    cta = static_cast<int>(blockIdx.x) % ctas;
    first_row = group * kGroupRows;
    rows = min(kGroupRows, batch - first_row);
    writes = cta < rows && threadIdx.x < kWriteThreads;
    h_flags = flags + group * kGroupFlags;
    m_flags = h_flags + 32;
    u_flags = m_flags + 32;
  }
  // Row 0 of the group in slot `slot` of [.., batch, ld].
  __device__ std::size_t at(int slot, int batch, int ld) const {
    return (static_cast<std::size_t>(slot) * batch + first_row) * ld;
  }
  // What all threads of the CTA, or the first of them, have written is complete.
  __device__ void announce(unsigned* flags, unsigned value) const {
    __syncthreads();
    if (threadIdx.x == 0) raise(flags + cta, value);
  }
  __device__ void announce_write(unsigned* flags, unsigned value) const {
    meet_writers();
    if (threadIdx.x == 0) raise(flags + cta, value);
  }
  __device__ void meet_writers() const { await<kWritersMeet, kWriteThreads>(); }
  // The CTA's other threads wait as often as those who write, twice a write: barriers.cuh.
  __device__ void beside_write() const {
    if (writes || cta >= rows) return;
    for (int i = 0; i < 2; ++i) await<kOthersMeet, kGroupThreads - kWriteThreads>();
  }
  // Until columns `first` to `end` - 1 of a vector that CTAs share out are there.
  __device__ void await_columns(const unsigned* flags, const GroupShare& share, int first, int end,
                                int width, unsigned value) const {
    if (first >= end || first >= width) return;
    const int maker = first / share.each;
    await_flags(flags + maker, share.makers(min(end, width)) - maker, value);
  }
};

// Row and column of number e of a memory with rows of r: exact up to 2^20, and short.
struct MemoryPlace {
  int a, b;
  __device__ MemoryPlace(int e, int r, float inverse_r)
      : a(static_cast<int>((e + 0.5f) * inverse_r)), b(e - a * r) {}
};

__device__ inline void store_largest(unsigned bits, unsigned* to) {
  bits = __reduce_max_sync(kAllLanes, bits);
  if (to && threadIdx.x % 32 == 0) atomicMax(to, bits);
}

#endif

// How many CTAs of a kernel, each with so much shared memory, the current device holds at once.
template <class Call>
int resident_ctas(void (*kernel)(Call), std::size_t shared_bytes) {
  std::size_t most = 0;
  int each = 0;
  const auto ok = [](cudaError_t error) {
    if (error != cudaSuccess) cudaGetLastError();  // is not the next call's
    return error == cudaSuccess;
  };
  return ok(allow_all_shared_memory(reinterpret_cast<const void*>(kernel), &most)) &&
                 shared_bytes <= most &&
                 ok(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, kGroupThreads,
                                                                  shared_bytes))
             ? device_limits().multiprocessors * each
             : 0;
}

template <class Call>
void launch_groups(const char* name, void (*kernel)(Call), std::size_t shared_bytes,
                   const Call& call, cudaStream_t stream) {
  allow_shared_memory(name, reinterpret_cast<const void*>(kernel), shared_bytes);
  const int groups = groups_of(call.of.batch);
  check(cudaMemsetAsync(call.flags, 0, sizeof(unsigned) * kGroupFlags * groups, stream),
        "clearing flags");
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(groups * call.ctas);
  config.blockDim = dim3(kGroupThreads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  cudaLaunchKernelEx(&config, kernel, call);
  check_launch(name, call.of.batch, call.of.hidden);
}

}  // namespace nru::kernels::cuda
