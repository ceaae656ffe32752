// Forward pass of a cluster over all steps.
//
// A step has two exchanges. h_t = ReLU(W_hh h' + W_hm m' + ..) and the head outputs
// u_t = W_uh h_t + W_um m' + .. are made by all CTAs together, each a quarter of the outputs, and
// sent to all of them; the memory is kept whole by each CTA, which saves a third exchange. On the
// critical path are W_hm m', W_uh h_t and the write alone: W_um m' is formed while h_t is under
// way, and W_hh h_t for the next step while u_t is.
//
// No barrier of the cluster is needed in the loop, as long as every CTA has its share of h: who has
// all of h_t knows that all threads of all CTAs are done with step t - 1, because a CTA's threads
// meet in that step's write before any of them sends h_t. So h_{t+1} finds h_{t-1} read, whose
// place it takes, u_t finds the write of u_{t-1} done, and no barrier is passed twice before a
// thread looks at it.
#pragma once

#include "kernels/cuda/cluster_kernel.cuh"

namespace nru::kernels::cuda {

template <class T>
struct ForwardShared {
  using HiddenFromHidden = SharedWeights<T::NH, T::NH>;
  using HeadsFromMemory = typename T::template Spilled<T::NU, T::NM>;
  float4 h[2][32 * T::NH], m[32 * T::NM], u[T::kNothing + 1];
  float4 rows[2][T::Write::kRows][32], Q[2][32 * T::NS];  // the write, by side
  float4 hidden_from_hidden[HiddenFromHidden::kSharedVectors];
  float4 heads_from_memory[HeadsFromMemory::kSharedVectors + 1];
  alignas(16) std::uint64_t h_arrived, u_arrived;
};

#if NRU_CLUSTER_CODE

template <class T>
class ForwardCta {
 public:
  __device__ __forceinline__ ForwardCta(const ClusterForward& f, ForwardShared<T>& shared)
      : f_(f),
        s_(shared),
        at_(f.of.batch),
        h_arrived_(&shared.h_arrived),
        u_arrived_(&shared.u_arrived),
        lanes_(f.of.sizes),
        own_h_(at_.rank, f.of.hidden),
        own_u_(at_.rank, f.of.sizes.outputs),
        to_(destination(at_, &shared)),
        used_(at_.used(at_.quad_lane)) {
    clear_shared(s_);
    load_weights();
    load_state();
    if (threadIdx.x == 0) {
      h_arrived_.initialise();
      u_arrived_.initialise();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      expect_h();
      expect_u();
    }
    clear(h_sums_);
    hidden_from_hidden_.multiply(s_.hidden_from_hidden, s_.h[1], h_sums_);
    cluster_barrier();
  }

  __device__ __forceinline__ void run() {
    for (int t = 0; t < f_.of.steps; ++t) {
      const bool more = t + 1 < f_.of.steps;
      hidden_step(t, more);
      heads_step(t, more);
      memory_step(t);
    }
    store_largest(largest_h_, f_.largest_h);
    store_largest(largest_m_, f_.largest_m);
    cluster_barrier();  // no CTA may end while others still send to it
  }

 private:
  static constexpr int kH = Fold<T::NH>::kCount, kU = Fold<T::NU>::kCount;
  static constexpr int kM = (32 * T::NM + kClusterThreads - 1) / kClusterThreads;

  __device__ __forceinline__ void expect_h() const {
    h_arrived_.expect(f_.of.hidden * sizeof(float4));
  }
  __device__ __forceinline__ void expect_u() const {
    u_arrived_.expect(f_.of.sizes.outputs * sizeof(float4));
  }
  // Where something of this CTA's shared memory lies in the one that this lane sends to.
  __device__ __forceinline__ std::uint32_t there(const void* p) const {
    return to_ + static_cast<std::uint32_t>(static_cast<const char*>(p) -
                                            reinterpret_cast<const char*>(&s_));
  }

  __device__ __forceinline__ void load_weights() {
    const ClusterWeights& w = f_.of.weights;
    const int h = f_.of.hidden, m = f_.of.sizes.m, u = f_.of.sizes.outputs, rank = at_.rank;
    const WeightBlock hh{w.h_from_h, h, h, w.h_ld, 1}, hm{w.h_from_m, h, m, w.h_ld, 1};
    const WeightBlock uh{w.heads_from_h, u, h, w.heads_ld, 1};
    const WeightBlock um{w.heads_from_m, u, m, w.heads_ld, 1};
    hidden_from_hidden_.load(s_.hidden_from_hidden, WarpBlock<T::NH>(hh, rank));
    hidden_from_memory_.load(nullptr, WarpBlock<T::NH>(hm, rank));
    heads_from_hidden_.load(nullptr, WarpBlock<T::NU>(uh, rank));
    heads_from_memory_.load(s_.heads_from_memory, WarpBlock<T::NU>(um, rank));
  }

  // The initial state, and the input's share in the first step.
  __device__ __forceinline__ void load_state() {
    const ClusterSequence& of = f_.of;
    load_rows(at_, f_.h, of.ld_h, of.hidden, s_.h[1]);
    load_rows(at_, f_.m, of.ld_m, of.sizes.m, s_.m);
    const std::size_t row = of.batch + at_.row(at_.quad_lane);
    h_at_ = f_.h + row * of.ld_h;
    u_at_ = f_.heads + row * of.ld_heads;
    m_at_ = f_.m + (of.batch + at_.row(at_.rank)) * of.ld_m + threadIdx.x;
#pragma unroll
    for (int i = 0; i < kH; ++i)
      h_input_[i] = used_ && own_h_.number[i] >= 0 ? h_at_[own_h_.number[i]] : 0.f;
#pragma unroll
    for (int i = 0; i < kU; ++i)
      u_input_[i] = used_ && own_u_.number[i] >= 0 ? u_at_[own_u_.number[i]] : 0.f;
#pragma unroll
    for (int i = 0; i < kM; ++i) {
      const int e = threadIdx.x + kClusterThreads * i;
      m_row_[i] = e < of.sizes.m ? e / of.sizes.r : 0;
      m_column_[i] = e % of.sizes.r;
      hold(m_row_[i]);
      hold(m_column_[i]);
    }
  }

  __device__ __forceinline__ void hidden_step(int t, bool more) {
    const std::size_t stride = static_cast<std::size_t>(f_.of.batch) * f_.of.ld_h;
    hidden_from_memory_.multiply(nullptr, s_.m, h_sums_);
    Fold<T::NH>::run(h_sums_);
#pragma unroll
    for (int i = 0; i < kH; ++i) {
      const int o = own_h_.number[i];
      add_to_row(h_sums_[i], at_.quad_lane, h_input_[i]);
      const float4 value = relu_max(quad_sum(h_sums_[i]));
      send(o >= 0, there(s_.h[t & 1] + o), value, there(&s_.h_arrived));
      const float mine = row_of(value, at_.quad_lane);
      const bool exists = used_ && o >= 0;
      if (exists) h_at_[o] = mine;
      if (exists) largest_h_ = max(largest_h_, __float_as_uint(fabsf(mine)));
      if (exists && more) h_input_[i] = h_at_[stride + o];
    }
    h_at_ += stride;
  }

  __device__ __forceinline__ void heads_step(int t, bool more) {
    const float4* h = s_.h[t & 1];
    const std::size_t stride = static_cast<std::size_t>(f_.of.batch) * f_.of.ld_heads;
    float4 sums[T::NU];
    clear(sums);
    heads_from_memory_.multiply(s_.heads_from_memory, s_.m, sums);
    h_arrived_.wait(t & 1);
    if (threadIdx.x == 0) expect_h();
    heads_from_hidden_.multiply(nullptr, h, sums);
    Fold<T::NU>::run(sums);
#pragma unroll
    for (int i = 0; i < kU; ++i) {
      const int o = own_u_.number[i];
      add_to_row(sums[i], at_.quad_lane, u_input_[i]);
      const float4 value = quad_sum(sums[i]);
      send(o >= 0, there(s_.u + o), value, there(&s_.u_arrived));
      if (used_ && o >= 0 && more) u_input_[i] = u_at_[stride + o];
    }
    u_at_ += stride;
    clear(h_sums_);
    hidden_from_hidden_.multiply(s_.hidden_from_hidden, h, h_sums_);
  }

  // Every CTA does the write for all its rows; row r is stored by the CTA of that rank, when
  // nobody waits for it any more.
  __device__ __forceinline__ void memory_step(int t) {
    HeadValues<T> values;
    HeadEvents<T> events;
    u_arrived_.wait(t & 1);
    if (threadIdx.x == 0) expect_u();
    if (at_.used(lanes_.row)) {
      read_heads(lanes_, s_.u, values);
      T::Write::prepare(f_.of.sizes, lanes_, s_.rows[lanes_.side], s_.Q[lanes_.side], values,
                        events);
    }
    __syncthreads();
    float4 m[kM];
#pragma unroll
    for (int i = 0; i < kM; ++i) {
      const int e = threadIdx.x + kClusterThreads * i;
      if (e >= 32 * T::NM) continue;
      m[i] = s_.m[e];
      T::Write::add(s_.rows[0], m_row_[i], s_.Q[0][m_column_[i]], m[i]);
      T::Write::add(s_.rows[1], m_row_[i], s_.Q[1][m_column_[i]], m[i]);
      if (e < f_.of.sizes.m) s_.m[e] = m[i];
    }
    __syncthreads();
    store_memory(m);
    if (lanes_.row != at_.rank || !at_.used(lanes_.row)) return;
    const std::size_t own_row = at_.row(at_.rank),
                      row = static_cast<std::size_t>(t + 1) * f_.of.batch + own_row;
    store_heads(f_.of.sizes, lanes_, values, events, f_.heads + row * f_.of.ld_heads,
                f_.aux + row * f_.of.ld_aux, f_.events + own_row * kEvents);
  }
  __device__ __forceinline__ void store_memory(const float4 (&m)[kM]) {
#pragma unroll
    for (int i = 0; i < kM; ++i) {
      if (!at_.used(at_.rank) || threadIdx.x + kClusterThreads * i >= f_.of.sizes.m) continue;
      const float mine = row_of(m[i], at_.rank);
      m_at_[kClusterThreads * i] = mine;
      largest_m_ = max(largest_m_, __float_as_uint(fabsf(mine)));
    }
    m_at_ += static_cast<std::size_t>(f_.of.batch) * f_.of.ld_m;
  }

  __device__ __forceinline__ void store_largest(unsigned bits, unsigned* to) const {
    bits = __reduce_max_sync(kAllLanes, bits);
    if (to && at_.lane == 0) atomicMax(to, bits);
  }

  const ClusterForward& f_;
  ForwardShared<T>& s_;
  const Place at_;
  const ByteBarrier h_arrived_, u_arrived_;
  const HeadLanes<T> lanes_;
  const OwnedOutputs<T::NH> own_h_;
  const OwnedOutputs<T::NU> own_u_;
  const std::uint32_t to_;        // the shared memory that this lane sends to
  const bool used_;               // there is a row behind the quad lane's
  float *h_at_, *u_at_;           // its values at the step to come
  float* m_at_;                   // this thread's number of the memory of the row of the CTA's rank
  int m_row_[kM], m_column_[kM];  // the numbers of the memory that this thread updates
  float h_input_[kH], u_input_[kU];
  float4 h_sums_[T::NH];  // W_hh h', before the step
  unsigned largest_h_ = 0, largest_m_ = 0;

  typename ForwardShared<T>::HiddenFromHidden hidden_from_hidden_;
  RegisterWeights<T::NH, T::NM> hidden_from_memory_;
  RegisterWeights<T::NU, T::NH> heads_from_hidden_;
  typename ForwardShared<T>::HeadsFromMemory heads_from_memory_;
};

#endif

template <class T>
__global__ void __launch_bounds__(kClusterThreads, 1)
    cluster_forward_kernel(const __grid_constant__ ClusterForward f) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(16) unsigned char memory[];
  after_previous();
  ForwardCta<T>(f, *reinterpret_cast<ForwardShared<T>*>(memory)).run();
#elif defined(__CUDA_ARCH__)
  __trap();  // no code for this GPU, and garbage if chosen nevertheless: stop instead
#endif
}

template <class T>
void cluster_forward(const ClusterForward& call, cudaStream_t stream) {
  launch_cluster("nru_cluster_forward", cluster_forward_kernel<T>, sizeof(ForwardShared<T>), call,
                 stream);
}

}  // namespace nru::kernels::cuda
