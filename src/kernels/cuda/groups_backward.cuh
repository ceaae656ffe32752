// Backward pass of a group over all steps.
//
// The mirror image of groups_forward.cuh, again with three exchanges a step: the gradients of the
// head outputs, made row by row from that of the memory; that of h's pre-activation; and that of
// the memory, the last two shared out by columns. On the critical path are the backward write,
// W_uh^T d_u and W_hm^T d_pre. W_um^T d_u is formed while d_pre is under way, W_hh^T d_pre while
// the gradient of m and the next d_u are, by the two warps with the write after it.
//
// The gradient of m has one place for all steps. Who writes that of a step has seen d_u of all
// rows, for which the one before was read; nobody reads it otherwise.
#pragma once

#include "kernels/cuda/groups_kernel.cuh"

namespace nru::kernels::cuda {

template <class T>
struct GroupsBackwardShared {
  using Sums = GroupSums<T::NH, T::NM>;
  float d_m[32 * T::NS * T::RP];  // of the row; number (a, b) at a * 32 NS + b
  float sums[Sums::kFloats];
  static std::size_t bytes(const GroupWidths& w) {
    return sizeof(float) * weights(w) + sizeof(GroupsBackwardShared);
  }
  __host__ __device__ static std::size_t weights(const GroupWidths& w) {  // they come first
    return weight_floats<T::NH, T::NM, T::KB>(w.outputs, w.hidden, w.h(0), w.m(0));
  }
};

#if NRU_CLUSTER_CODE

template <class T>
class GroupsBackwardCta {
 public:
  __device__ __forceinline__ GroupsBackwardCta(const GroupsBackward& b, float* weights,
                                               GroupsBackwardShared<T>& shared)
      : b_(b),
        s_(shared),
        at_(b.of.batch, b.ctas, b.flags),
        h_(b.of.hidden, b.ctas, at_.cta),
        m_(b.of.sizes.m, b.ctas, at_.cta),
        own_h_(h_, at_.rows),
        own_m_(m_, at_.rows),
        product_(weights, blocks(b.of).of, h_, m_) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      d_h_[e] = own_h_.used(e) && b_.final_h ? final_of(b_.final_h, b_.of.hidden, own_h_, e) : 0.f;
      d_m_[e] = own_m_.used(e) && b_.final_m ? final_of(b_.final_m, b_.of.sizes.m, own_m_, e) : 0.f;
    }
  }

  __device__ __forceinline__ void run() {
    const ClusterSequence& of = b_.of;
    for (int i = threadIdx.x; i < 32 * T::NS * T::RP; i += kGroupThreads) s_.d_m[i] = 0;
    __syncthreads();
    if (at_.writes) write_step(of.steps - 1);
    at_.beside_write();
    for (int t = of.steps - 1; t >= 0; --t) {
      hidden_step(t);
      memory_step(t);
      if (at_.writes && t > 0) write_step(t - 1);
      if (t > 0) at_.beside_write();
      product_.template multiply<kPre, 0, T::NH>(rows(b_.d_pre, t, of.ld_h));
    }
    const float4 sum = product_.template total<0, T::NH>(s_.sums);
    float* d_h = b_.d_h + at_.at(0, of.batch, of.ld_h);
#pragma unroll
    for (int e = 0; e < 4; ++e)
      if (own_h_.used(e)) d_h[own_h_.at(e, of.ld_h)] = part_of(sum, e);
  }

 private:
  static constexpr int kU = 0, kPre = 1;  // vectors of the product

  struct Blocks {
    WeightBlock of[2][2];
  };
  __device__ static Blocks blocks(const ClusterSequence& of) {
    const ClusterWeights& w = of.weights;
    const int h = of.hidden, m = of.sizes.m, u = of.sizes.outputs;
    return {{{{w.heads_from_h, h, u, 1, w.heads_ld}, {w.heads_from_m, m, u, 1, w.heads_ld}},
             {{w.h_from_h, h, h, 1, w.h_ld}, {w.h_from_m, m, h, 1, w.h_ld}}}};
  }
  template <int kCount>
  __device__ float final_of(const float* values, int width, const GroupOutputs<kCount>& own,
                            int e) const {
    return values[static_cast<std::size_t>(at_.first_row) * width + own.at(e, width)];
  }
  __device__ __forceinline__ GroupRows rows(const float* values, int t, int ld) const {
    return {values + at_.at(t, b_.of.batch, ld), ld, at_.rows};
  }
  // What the flags are at when step t is done: the passes count from the last one.
  __device__ unsigned done(int t) const { return b_.of.steps - t; }

  __device__ __forceinline__ void hidden_step(int t) {
    const ClusterSequence& of = b_.of;
    const std::size_t here = at_.at(t, of.batch, of.ld_h);
    const float* h = b_.h + at_.at(t + 1, of.batch, of.ld_h);
    float of_h[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const std::size_t own = own_h_.at(e, of.ld_h);
      of_h[e] = own_h_.used(e) ? h[own] : 0.f;
      if (own_h_.used(e) && t >= b_.first_output) d_h_[e] += b_.d_output[here + own];
    }
    await_flags(at_.u_flags, at_.rows, done(t));
    product_.template multiply<kU, 0, T::NH>(rows(b_.d_heads, t, of.ld_heads));
    const float4 sum = product_.template total<0, T::NH>(s_.sums);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (own_h_.used(e))
        b_.d_pre[here + own_h_.at(e, of.ld_h)] = relu_backward(of_h[e], part_of(sum, e) + d_h_[e]);
      d_h_[e] = 0;
    }
    at_.announce(at_.h_flags, done(t));
  }

  __device__ __forceinline__ void memory_step(int t) {
    const ClusterSequence& of = b_.of;
    product_.template multiply<kU, T::NH, T::NM>(rows(b_.d_heads, t, of.ld_heads));
    at_.await_columns(at_.h_flags, h_, product_.first_column(kPre), product_.end_column(kPre),
                      of.hidden, done(t));
    product_.template multiply<kPre, T::NH, T::NM>(rows(b_.d_pre, t, of.ld_h));
    const float4 sum = product_.template total<T::NH, T::NM>(s_.sums);
    float* d_m = b_.d_m + at_.at(0, of.batch, of.ld_m);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      d_m_[e] += part_of(sum, e);
      if (own_m_.used(e)) d_m[own_m_.at(e, of.ld_m)] = d_m_[e];
    }
    at_.announce(at_.m_flags, done(t));
  }

  // From the gradient of this CTA's row of m_t to those of its head outputs, by the threads that
  // have to do with it.
  __device__ __forceinline__ void write_step(int t) {
    const NruWriteSizes& sizes = b_.of.sizes;
    const HeadLanes<T> lanes(sizes);
    const std::size_t row = at_.first_row + at_.cta, here = row + t * std::size_t(b_.of.batch),
                      kept = here + b_.of.batch;
    HeadValues<T> values;
    typename T::WriteBackward write;
    load_heads(sizes, lanes, b_.heads + kept * b_.of.ld_heads, b_.aux + kept * b_.of.ld_aux,
               values);
    write.prepare(sizes, lanes.side, values);
    const float* d_m = b_.final_m ? b_.final_m + row * sizes.m : nullptr;
    if (t + 1 < b_.of.steps) {
      await_flags(at_.m_flags, m_.makers(sizes.m), done(t + 1));
      d_m = b_.d_m + row * b_.of.ld_m;
    }
    if (d_m) load_gradient(d_m);
    at_.meet_writers();
    const HeadGradients<T> d = write.run(sizes, lanes, s_.d_m);
    float* to = b_.d_heads + here * b_.of.ld_heads;
#pragma unroll
    for (int i = 0; i < T::NS; ++i) {
      if (lanes.p[i] != T::kNothing) to[lanes.p[i]] = d.p[i];
      if (lanes.q[i] != T::kNothing) to[lanes.q[i]] = d.q[i];
      if (lanes.leads[i]) to[lanes.head[i]] = d.alpha[i];
    }
    at_.announce_write(at_.u_flags, done(t));
    if (t > 0) {  // the next step's, from far away
      const std::size_t next = here, lane = threadIdx.x % 32;
      if (32 * lane < static_cast<std::size_t>(sizes.outputs))
        prefetch(b_.heads + next * b_.of.ld_heads + 32 * lane);
      if (lane == 31) prefetch(b_.aux + next * b_.of.ld_aux);
    }
  }

  // A row's gradient of m to its places in shared memory; all loads are under way at once.
  __device__ __forceinline__ void load_gradient(const float* d_m) {
    const NruWriteSizes& sizes = b_.of.sizes;
    const float inverse_r = 1.f / sizes.r;
    float values[T::kMemoryEach];
#pragma unroll
    for (int i = 0; i < T::kMemoryEach; ++i) {
      const int e = threadIdx.x + kWriteThreads * i;
      values[i] = e < sizes.m ? load_new(d_m + e) : 0.f;
    }
#pragma unroll
    for (int i = 0; i < T::kMemoryEach; ++i) {
      const int e = threadIdx.x + kWriteThreads * i;
      const MemoryPlace place(e, sizes.r, inverse_r);
      if (e < sizes.m) s_.d_m[place.a * 32 * T::NS + place.b] = values[i];
    }
  }

  const GroupsBackward& b_;
  GroupsBackwardShared<T>& s_;
  const GroupPlace at_;
  const GroupShare h_, m_;
  const GroupOutputs<T::NH> own_h_;
  const GroupOutputs<T::NM> own_m_;
  float d_h_[4], d_m_[4];                      // what reaches h from outside; the gradient of m
  GroupProduct<T::NH, T::NM, T::KB> product_;  // its sums of h hold W_hh^T d_pre of the step after
};

template <class T>
__device__ __forceinline__ void groups_backward_cta(const GroupsBackward& b, float* memory) {
  const GroupWidths w{b.of.hidden, b.of.sizes.m, b.of.sizes.outputs, b.ctas};
  float* behind = memory + GroupsBackwardShared<T>::weights(w);
  GroupsBackwardCta<T>(b, memory, *reinterpret_cast<GroupsBackwardShared<T>*>(behind)).run();
}

#endif

template <class T>
__global__ void __launch_bounds__(kGroupThreads, 1)
    groups_backward_kernel(const __grid_constant__ GroupsBackward b) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ float4 memory[];
  groups_backward_cta<T>(b, reinterpret_cast<float*>(memory));
#elif defined(__CUDA_ARCH__)
  __trap();  // no code for this GPU, and garbage if chosen nevertheless: stop instead
#endif
}

template <class T>
void groups_backward(const GroupsBackward& call, std::size_t shared_bytes, cudaStream_t stream) {
  launch_groups("nru_groups_backward", groups_backward_kernel<T>, shared_bytes, call, stream);
}

}  // namespace nru::kernels::cuda
