// Backward pass of a cluster over all steps.
//
// The mirror image of cluster_forward.cuh, again with two exchanges a step: the gradient of h's
// pre-activation, and that of the memory, which each CTA holds whole. Every CTA does the backward
// write of all its rows. On the critical path are the write, W_uh^T d_u and W_hm^T d_pre;
// W_um^T d_u is formed while d_pre is under way, and W_hh^T d_pre (for the step before) and what
// the next write needs of u while the gradient of m is.
#pragma once

#include "kernels/cuda/cluster_kernel.cuh"

namespace nru::kernels::cuda {

template <class T>
struct BackwardShared {
  using HiddenFromHidden = SharedWeights<T::NH, T::NH>;
  using MemoryFromHeads = typename T::template Spilled<T::NM, T::NU>;
  float4 d_m[32 * T::NM], d_u[32 * T::NU], d_pre[2][32 * T::NH];
  float4 hidden_from_hidden[HiddenFromHidden::kSharedVectors];
  float4 memory_from_heads[MemoryFromHeads::kSharedVectors + 1];
  alignas(16) std::uint64_t pre_arrived, m_arrived;
};

#if __CUDA_ARCH__ >= 900

template <class T>
class BackwardCta {
 public:
  __device__ __forceinline__ BackwardCta(const ClusterBackward& b, BackwardShared<T>& shared)
      : b_(b),
        s_(shared),
        at_(b.of.batch),
        to_(&shared, at_),
        pre_arrived_(&shared.pre_arrived),
        m_arrived_(&shared.m_arrived),
        lanes_(b.of.sizes),
        own_h_(at_.rank, b.of.hidden),
        own_m_(at_.rank, b.of.sizes.m) {
    clear_shared(s_);
    load_weights();
    load_state();
    if (threadIdx.x == 0) {
      pre_arrived_.initialise();
      m_arrived_.initialise();
      expect_pre();
      expect_m();
    }
    __syncthreads();
    cluster_barrier();
  }

  __device__ __forceinline__ void run() {
    std::uint32_t phase = 0;
    for (int t = b_.of.steps - 1; t >= 0; --t, phase ^= 1) {
      write_step(t);
      hidden_step(t, s_.d_pre[phase]);
      memory_step(t, s_.d_pre[phase], phase);
    }
    store_initial_state();
    cluster_barrier();  // no CTA may end while others still send to it
  }

 private:
  static constexpr int kH = kFolded<T::NH>, kM = kFolded<T::NM>;

  __device__ __forceinline__ void expect_pre() const {
    pre_arrived_.expect(b_.of.hidden * sizeof(float4));
  }
  __device__ __forceinline__ void expect_m() const {
    m_arrived_.expect(b_.of.sizes.m * sizeof(float4));
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
    if (b_.final_m) load_rows(at_, b_.final_m, of.sizes.m, of.sizes.m, s_.d_m);
    used_ = at_.used(at_.quad_lane);
    const int last = of.steps - 1;
    const std::size_t quad_row = at_.row(at_.quad_lane);
    h_at_ = (static_cast<std::size_t>(last) * of.batch + quad_row) * of.ld_h + own_h_.first;
#pragma unroll
    for (int i = 0; i < kH; ++i) {
      h_[i] = d_output_[i] = d_next_[i] = 0;
      if (used_ && i < own_h_.count && b_.final_h)
        d_next_[i] = b_.final_h[quad_row * of.hidden + own_h_.first + i];
    }
    load_hidden(last);
    values_ = {};
    load_heads(last);
    write_.prepare(of.sizes, lanes_.side, values_);
    load_heads(last - 1);
  }

  // What step t's pointwise functions read, from global memory.
  __device__ __forceinline__ void load_hidden(int t) {
    const std::size_t stride = static_cast<std::size_t>(b_.of.batch) * b_.of.ld_h;
#pragma unroll
    for (int i = 0; i < kH; ++i) {
      if (t < 0 || !used_ || i >= own_h_.count) continue;
      h_[i] = b_.h[h_at_ + stride + i];
      d_output_[i] = t >= b_.first_output ? b_.d_output[h_at_ + i] : 0.f;
    }
  }
  __device__ __forceinline__ void load_heads(int t) {
    if (t < 0 || !at_.used(lanes_.row)) return;
    const std::size_t row = static_cast<std::size_t>(t + 1) * b_.of.batch + at_.row(lanes_.row);
    values_.load(b_.of.sizes, lanes_, b_.heads + row * b_.of.ld_heads, b_.aux + row * b_.of.ld_aux);
  }

  // From the gradient of m to those of the head outputs; row r is stored by the CTA of that rank.
  __device__ __forceinline__ void write_step(int t) {
    float d_p[T::NS], d_q[T::NS], d_alpha[T::NS];
    write_.run(b_.of.sizes, lanes_, s_.d_m, d_p, d_q, d_alpha);
    const bool stores = lanes_.row == at_.rank && at_.used(lanes_.row);
    float* global = b_.d_heads + (static_cast<std::size_t>(t) * b_.of.batch + at_.row(at_.rank)) *
                                     b_.of.ld_heads;
    const auto store = [&](bool exists, int place, float value) {
      if (!exists) return;
      reinterpret_cast<float*>(s_.d_u + place)[lanes_.row] = value;
      if (stores) global[place] = value;
    };
#pragma unroll
    for (int i = 0; i < T::NS; ++i) {
      store(lanes_.p[i] >= 0, lanes_.p[i], d_p[i]);
      store(lanes_.q[i] >= 0, lanes_.q[i], d_q[i]);
      store(lanes_.leads(i), lanes_.head[i], d_alpha[i]);
    }
    __syncthreads();
  }

  __device__ __forceinline__ void hidden_step(int t, float4* d_pre) {
    float4 sums[T::NH];
    clear(sums);
    hidden_from_heads_.multiply(nullptr, s_.d_u, sums);
    fold<T::NH>(sums);
#pragma unroll
    for (int i = 0; i < kH; ++i) {
      add_to_row(sums[i], at_.quad_lane, d_output_[i] + d_next_[i]);
      float4 value = quad_sum(sums[i]);
      // Lane d of the quad knows h of row d.
      const unsigned alive = __ballot_sync(kAllLanes, h_[i] > 0.f) >> (at_.lane & ~3);
      value = make_float4(alive & 1 ? value.x : 0.f, alive & 2 ? value.y : 0.f,
                          alive & 4 ? value.z : 0.f, alive & 8 ? value.w : 0.f);
      if (i >= own_h_.count) continue;
      send(to_.of(d_pre + own_h_.first + i), value, to_.of(pre_arrived_.address()));
      if (used_) b_.d_pre[h_at_ + i] = row_of(value, at_.quad_lane);
    }
    h_at_ -= static_cast<std::size_t>(b_.of.batch) * b_.of.ld_h;
    load_hidden(t - 1);
  }

  __device__ __forceinline__ void memory_step(int t, const float4* d_pre, std::uint32_t phase) {
    float4 sums[T::NM];
    clear(sums);
    memory_from_heads_.multiply(s_.memory_from_heads, s_.d_u, sums);
    pre_arrived_.wait(phase);
    if (threadIdx.x == 0) expect_pre();
    memory_from_hidden_.multiply(nullptr, d_pre, sums);
    fold<T::NM>(sums);
#pragma unroll
    for (int i = 0; i < kM; ++i) {
      float4 value = quad_sum(sums[i]);
      float4* at = s_.d_m + own_m_.first + i;
      if (i < own_m_.count) value = sum_of(value, *at);
      __syncwarp();  // all lanes of a quad have read what one of them is about to replace
      if (i < own_m_.count) send(to_.of(at), value, to_.of(m_arrived_.address()));
    }
    float4 next[T::NH];
    clear(next);
    hidden_from_hidden_.multiply(s_.hidden_from_hidden, d_pre, next);
    fold<T::NH>(next);
#pragma unroll
    for (int i = 0; i < kH; ++i) d_next_[i] = row_of(quad_sum(next[i]), at_.quad_lane);
    write_.prepare(b_.of.sizes, lanes_.side, values_);
    load_heads(t - 2);
    m_arrived_.wait(phase);
    if (threadIdx.x == 0) expect_m();
  }

  __device__ __forceinline__ void store_initial_state() const {
    const std::size_t row = at_.row(at_.quad_lane) * b_.of.ld_h;
#pragma unroll
    for (int i = 0; i < kH; ++i)
      if (used_ && i < own_h_.count) b_.d_h[row + own_h_.first + i] = d_next_[i];
    if (!at_.used(at_.rank)) return;
    for (int e = threadIdx.x; e < b_.of.sizes.m; e += kClusterThreads)
      b_.d_m[at_.row(at_.rank) * b_.of.ld_m + e] = row_of(s_.d_m[e], at_.rank);
  }

  const ClusterBackward& b_;
  BackwardShared<T>& s_;
  const Place at_;
  const Destination to_;
  const ByteBarrier pre_arrived_, m_arrived_;
  const HeadLanes<T::RP, T::NS> lanes_;
  const OwnedOutputs<T::NH> own_h_;
  const OwnedOutputs<T::NM> own_m_;
  bool used_;                                // there is a row behind the quad lane's
  std::size_t h_at_;                         // this lane's first output at the step to come
  float h_[kH], d_output_[kH], d_next_[kH];  // h and its gradients, of the quad lane's row
  HeadValues<T::NS> values_;
  WriteBackward<T::RP, T::NS> write_;

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
#endif
}

template <class T>
void cluster_backward(const ClusterBackward& call, cudaStream_t stream) {
  launch_cluster("nru_cluster_backward", cluster_backward_kernel<T>, sizeof(BackwardShared<T>),
                 call, stream);
}

}  // namespace nru::kernels::cuda
