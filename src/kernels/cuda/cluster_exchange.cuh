// Distributed shared memory of a cluster: stores into the shared memory of its CTAs that announce
// themselves to a barrier there. Hopper and later; PTX ISA, "st.async" and "mbarrier".
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

// Device code for clusters is compiled where there are some, and for the emulation of a cluster by
// tests (tests/kernels/emulated_cluster.h), which brings its own exchange.
#if __CUDA_ARCH__ >= 900 || defined(NRU_EMULATED_CLUSTER)
#define NRU_CLUSTER_CODE 1
#endif

namespace nru::kernels::cuda {

#if __CUDA_ARCH__ >= 900

__device__ inline std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

__device__ inline int cluster_rank() {
  std::uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
}

// The address that `address` of this CTA has in the CTA of that rank.
__device__ inline std::uint32_t address_in(std::uint32_t address, int rank) {
  std::uint32_t there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}

// All threads of the cluster: also makes what each wrote visible to the others.
__device__ inline void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// A barrier in shared memory that a number of bytes passes: one thread says how many are to come in
// a phase, the stores of send() count them down.
class ByteBarrier {
 public:
  __device__ explicit ByteBarrier(std::uint64_t* memory) : address_(shared_address(memory)) {}

  __device__ std::uint32_t address() const { return address_; }
  __device__ void initialise() const {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address_) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  // Bytes that arrive before their phase is announced count, too.
  __device__ void expect(std::uint32_t bytes) const {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address_),
                 "r"(bytes)
                 : "memory");
  }
  // `phase`: 0, 1, 0, 1...
  __device__ void wait(std::uint32_t phase) const {
    std::uint32_t done;
    do {
      asm volatile(
          "{ .reg .pred p;\n"
          "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
          "selp.u32 %0, 1, 0, p; }"
          : "=r"(done)
          : "r"(address_), "r"(phase)
          : "memory");
    } while (!done);
  }

 private:
  std::uint32_t address_;
};

// 16 bytes to an address of a CTA of the cluster, counted by a barrier of that CTA, if `does`.
// Narrower stores cost as much each: four rows of a batch travel together. A predicate instead of a
// branch, because others wait for what is sent.
__device__ inline void send(bool does, std::uint32_t to, float4 value, std::uint32_t barrier) {
  asm volatile(
      "{ .reg .pred p;\n"
      "setp.ne.s32 p, %6, 0;\n"
      "@p st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, "
      "[%5]; }" ::"r"(to),
      "r"(__float_as_uint(value.x)), "r"(__float_as_uint(value.y)), "r"(__float_as_uint(value.z)),
      "r"(__float_as_uint(value.w)), "r"(barrier), "r"(static_cast<int>(does))
      : "memory");
}

#endif

}  // namespace nru::kernels::cuda
