// Backward pass of a cluster over all steps.
//
// The mirror image of cluster_forward.cuh, again with two exchanges a step: the gradient of h's
// pre-activation, and that of the memory, which each CTA holds whole. Every CTA does the backward
// write of all its rows. On the critical path are the write, W_uh^T d_u and W_hm^T d_pre;
// W_um^T d_u is formed while d_pre is under way, and W_hh^T d_pre (for the step before) and what
// the next write needs of u while the gradient of m is.
//
// A CTA's threads meet once a step, after the write. Who has all of a step's d_pre knows that all
// threads of all CTAs have come there, and so are done with the step after it and with the gradient
// of m that this step's takes the place of. Who has all of the gradient of m knows the same, which
// allows d_pre of the next step but one to take its place. d_u has two places, too: threads of its
// own CTA may still read it when others are a step ahead.
#pragma once

#include "kernels/cuda/cluster_kernel.cuh"

namespace nru::kernels::cuda {

template <class T>
struct BackwardShared {
  using HiddenFromHidden = SharedWeights<T::NH, T::NH>;
  using MemoryFromHeads = typename T::template Spilled<T::NM, T::NU>;
  float4 d_m[32 * T::NS * T::RP];  // number (a, b) at a * 32 NS + b
  float4 d_u[2][T::kNothing + 1], d_pre[2][32 * T::NH];
  float4 hidden_from_hidden[HiddenFromHidden::kSharedVectors];
  float4 memory_from_heads[MemoryFromHeads::kSharedVectors + 1];
  alignas(16) std::uint64_t pre_arrived, m_arrived;
};

#if NRU_CLUSTER_CODE

template <class T>
class BackwardCta {
 public:
  __device__ __forceinline__ BackwardCta(const ClusterBackward& b, BackwardShared<T>& shared)
      : b_(b),
        s_(shared),
        at_(b.of.batch),
        pre_arrived_(&shared.pre_arrived),
        m_arrived_(&shared.m_arrived),
        lanes_(b.of.sizes),
        own_h_(at_.rank, b.of.hidden),
        own_m_(at_.rank, b.of.sizes.m),
        to_(destination(at_, &shared)),
        used_(at_.used(at_.quad_lane)) {
    clear_shared(s_);
    load_weights();
    load_state();
    if (threadIdx.x == 0) {
      pre_arrived_.initialise();
      m_arrived_.initialise();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      expect_pre();
      expect_m();
    }
    cluster_barrier();
  }

  __device__ __forceinline__ void run() {
    std::uint32_t phase = 0;
    for (int t = b_.of.steps - 1; t >= 0; --t, phase ^= 1) {
      write_step(t, s_.d_u[phase]);
      hidden_step(t, s_.d_u[phase], s_.d_pre[phase]);
      memory_step(t, s_.d_u[phase], s_.d_pre[phase], phase);
    }
    store_initial_state();
    cluster_barrier();  // no CTA may end while others still send to it
  }

 private:
  static constexpr int kH = Fold<T::NH>::kCount, kM = Fold<T::NM>::kCount;

  __device__ __forceinline__ void expect_pre() const {
    pre_arrived_.expect(b_.of.hidden * sizeof(float4));
  }
  __device__ __forceinline__ void expect_m() const {
    m_arrived_.expect(b_.of.sizes.m * sizeof(float4));
  }

  // Where something of this CTA's shared memory lies in the one that this lane sends to.
  __device__ __forceinline__ std::uint32_t there(const void* p) const {
    return to_ + static_cast<std::uint32_t>(static_cast<const char*>(p) -
                                            reinterpret_cast<const char*>(&s_));
  }
  __device__ __forceinline__ int memory_place(int e) const {
    return e / b_.of.sizes.r * 32 * T::NS + e % b_.of.sizes.r;
  }

  __device__ __forceinline__ void load_weights() {
    const ClusterWeights& w = b_.of.weights;
    const int h = b_.of.hidden, m = b_.of.sizes.m, u = b_.of.sizes.outputs, rank = at_.rank;
    const WeightBlock hh{w.h_from_h, h, h, 1, w.h_ld}, mh{w.h_from_m, m, h, 1, w.h_ld};
    const WeightBlock hu{w.heads_from_h, h, u, 1, w.heads_ld};
    const WeightBlock mu{w.heads_from_m, m, u, 1, w.heads_ld};
    hidden_from_hidden_.load(s_.hidden_from_hidden, WarpBlock<T::NH>(hh, rank));
    memory_from_hidden_.load(nullptr, WarpBlock<T::NM>(mh, rank));
    hidden_from_heads_.load(nullptr, WarpBlock<T::NH>(hu, rank));
    memory_from_heads_.load(s_.memory_from_heads, WarpBlock<T::NM>(mu, rank));
  }

  __device__ __forceinline__ void load_state() {
    const ClusterSequence& of = b_.of;
    const int last = of.steps - 1;
    const std::size_t row = at_.row(at_.quad_lane);
    for (int e = threadIdx.x; b_.final_m && e < of.sizes.m; e += kClusterThreads) {
      for (int r = 0; r < kClusterRows; ++r)
        if (at_.used(r))
          number_at(s_.d_m, memory_place(e), r) = b_.final_m[at_.row(r) * of.sizes.m + e];
    }
#pragma unroll
    for (int i = 0; i < kM; ++i) {
      m_place_[i] = own_m_.number[i] >= 0 ? memory_place(own_m_.number[i]) : -1;
      hold(m_place_[i]);
    }
    h_at_ = (static_cast<std::size_t>(last) * of.batch + row) * of.ld_h;
#pragma unroll
    for (int i = 0; i < kH; ++i) {
      h_[i] = d_output_[i] = d_next_[i] = 0;
      if (used_ && own_h_.number[i] >= 0 && b_.final_h)
        d_next_[i] = b_.final_h[row * of.hidden + own_h_.number[i]];
    }
    load_hidden(last);
    values_ = {};
    load_write(last);
    write_.prepare(of.sizes, lanes_.side, values_);
    load_write(last - 1);
  }

  // What step t's pointwise functions read, from global memory.
  __device__ __forceinline__ void load_hidden(int t) {
    const std::size_t stride = static_cast<std::size_t>(b_.of.batch) * b_.of.ld_h;
#pragma unroll
    for (int i = 0; i < kH; ++i) {
      const int o = own_h_.number[i];
      const bool exists = t >= 0 && used_ && o >= 0;
      if (exists) h_[i] = b_.h[h_at_ + stride + o];
      d_output_[i] = 0;
      if (exists && t >= b_.first_output) d_output_[i] = b_.d_output[h_at_ + o];
    }
  }
  __device__ __forceinline__ void load_write(int t) {
    if (t < 0 || !at_.used(lanes_.row)) return;
    const std::size_t row = static_cast<std::size_t>(t + 1) * b_.of.batch + at_.row(lanes_.row);
    load_heads(b_.of.sizes, lanes_, b_.heads + row * b_.of.ld_heads, b_.aux + row * b_.of.ld_aux,
               values_);
  }

  // From the gradient of m to those of the head outputs; row r is stored by the CTA of that rank,
  // when nobody waits for it any more.
  __device__ __forceinline__ void write_step(int t, float4* d_u) {
    const HeadGradients<T> d = write_.run(b_.of.sizes, lanes_, s_.d_m);
#pragma unroll
    for (int i = 0; i < T::NS; ++i) {
      if (lanes_.p[i] != T::kNothing) number_at(d_u, lanes_.p[i], lanes_.row) = d.p[i];
      if (lanes_.q[i] != T::kNothing) number_at(d_u, lanes_.q[i], lanes_.row) = d.q[i];
      if (lanes_.leads[i]) number_at(d_u, lanes_.head[i], lanes_.row) = d.alpha[i];
    }
    __syncthreads();
    if (lanes_.row != at_.rank || !at_.used(lanes_.row)) return;
    float* to = b_.d_heads +
                (static_cast<std::size_t>(t) * b_.of.batch + at_.row(at_.rank)) * b_.of.ld_heads;
#pragma unroll
    for (int i = 0; i < T::NS; ++i) {
      if (lanes_.p[i] != T::kNothing) to[lanes_.p[i]] = d.p[i];
      if (lanes_.q[i] != T::kNothing) to[lanes_.q[i]] = d.q[i];
      if (lanes_.leads[i]) to[lanes_.head[i]] = d.alpha[i];
    }
  }

  __device__ __forceinline__ void hidden_step(int t, const float4* d_u, float4* d_pre) {
    float4 sums[T::NH];
    clear(sums);
    hidden_from_heads_.multiply(nullptr, d_u, sums);
    Fold<T::NH>::run(sums);
#pragma unroll
    for (int i = 0; i < kH; ++i) {
      const int o = own_h_.number[i];
      add_to_row(sums[i], at_.quad_lane, d_output_[i] + d_next_[i]);
      float4 value = quad_sum(sums[i]);
      // Lane d of the quad knows h of row d.
      const unsigned alive = __ballot_sync(kAllLanes, h_[i] > 0.f) >> (at_.lane & ~3);
      value = make_float4(alive & 1 ? value.x : 0.f, alive & 2 ? value.y : 0.f,
                          alive & 4 ? value.z : 0.f, alive & 8 ? value.w : 0.f);
      send(o >= 0, there(d_pre + o), value, there(&s_.pre_arrived));
      if (used_ && o >= 0) b_.d_pre[h_at_ + o] = row_of(value, at_.quad_lane);
    }
    h_at_ -= static_cast<std::size_t>(b_.of.batch) * b_.of.ld_h;
    load_hidden(t - 1);
  }

  __device__ __forceinline__ void memory_step(int t, const float4* d_u, const float4* d_pre,
                                              std::uint32_t phase) {
    float4 sums[T::NM];
    clear(sums);
    memory_from_heads_.multiply(s_.memory_from_heads, d_u, sums);
    pre_arrived_.wait(phase);
    if (threadIdx.x == 0) expect_pre();
    memory_from_hidden_.multiply(nullptr, d_pre, sums);
    Fold<T::NM>::run(sums);
#pragma unroll
    for (int i = 0; i < kM; ++i) {
      float4 value = quad_sum(sums[i]);
      float4* at = s_.d_m + m_place_[i];
      if (m_place_[i] >= 0) value = sum_of(value, *at);
      __syncwarp();  // all lanes of a quad have read what one of them is about to replace
      send(m_place_[i] >= 0, there(at), value, there(&s_.m_arrived));
    }
    float4 next[T::NH];
    clear(next);
    hidden_from_hidden_.multiply(s_.hidden_from_hidden, d_pre, next);
    Fold<T::NH>::run(next);
#pragma unroll
    for (int i = 0; i < kH; ++i) d_next_[i] = row_of(quad_sum(next[i]), at_.quad_lane);
    write_.prepare(b_.of.sizes, lanes_.side, values_);
    load_write(t - 2);
    m_arrived_.wait(phase);
    if (threadIdx.x == 0) expect_m();
  }

  __device__ __forceinline__ void store_initial_state() {
    const std::size_t row = at_.row(at_.quad_lane) * b_.of.ld_h;
#pragma unroll
    for (int i = 0; i < kH; ++i)
      if (used_ && own_h_.number[i] >= 0) b_.d_h[row + own_h_.number[i]] = d_next_[i];
    if (!at_.used(at_.rank)) return;
    for (int e = threadIdx.x; e < b_.of.sizes.m; e += kClusterThreads)
      b_.d_m[at_.row(at_.rank) * b_.of.ld_m + e] = number_at(s_.d_m, memory_place(e), at_.rank);
  }

  const ClusterBackward& b_;
  BackwardShared<T>& s_;
  const Place at_;
  const ByteBarrier pre_arrived_, m_arrived_;
  const HeadLanes<T> lanes_;
  const OwnedOutputs<T::NH> own_h_;
  const OwnedOutputs<T::NM> own_m_;
  const std::uint32_t to_;                   // the shared memory that this lane sends to
  const bool used_;                          // there is a row behind the quad lane's
  std::size_t h_at_;                         // its h at the step to come
  int m_place_[kM];                          // this lane's numbers of the memory
  float h_[kH], d_output_[kH], d_next_[kH];  // h and its gradients, of the quad lane's row
  HeadValues<T> values_;
  typename T::WriteBackward write_;

  typename BackwardShared<T>::HiddenFromHidden hidden_from_hidden_;
  RegisterWeights<T::NM, T::NH> memory_from_hidden_;
  RegisterWeights<T::NH, T::NU> hidden_from_heads_;
  typename BackwardShared<T>::MemoryFromHeads memory_from_heads_;
};

#endif

template <class T>
__global__ void __launch_bounds__(kClusterThreads, 1)
    cluster_backward_kernel(const __grid_constant__ ClusterBackward b) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(16) unsigned char memory[];
  after_previous();
  BackwardCta<T>(b, *reinterpret_cast<BackwardShared<T>*>(memory)).run();
#elif defined(__CUDA_ARCH__)
  __trap();  // no code for this GPU, and garbage if chosen nevertheless: stop instead
#endif
}

template <class T>
void cluster_backward(const ClusterBackward& call, cudaStream_t stream) {
  launch_cluster("nru_cluster_backward", cluster_backward_kernel<T>, sizeof(BackwardShared<T>),
                 call, stream);
}

}  // namespace nru::kernels::cuda
