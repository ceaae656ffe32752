// Backward pass of a group over all steps.
//
// The mirror image of groups_forward.cuh, again with three exchanges a step: the gradients of the
// head outputs, made row by row from that of the memory; that of h's pre-activation; and that of the
// memory, the last two shared out by columns. On the critical path are the backward write,
// W_uh^T d_u and W_hm^T d_pre; W_hh^T d_pre is formed while the gradient of m is under way.
//
// The gradient of m has one place for all steps. Who writes that of a step has seen d_u of all rows,
// for which the one before was read; nobody reads it otherwise.
#pragma once

#include "kernels/cuda/groups_kernel.cuh"

namespace nru::kernels::cuda {

template <class T>
struct GroupsBackwardShared {
  using Sums = GroupSums<T::NH, T::NM>;
  float d_m[32 * T::NS * T::RP];  // of the row; number (a, b) at a * 32 NS + b
  float sums[Sums::kFloats];
  static std::size_t bytes(const GroupWidths& w) {
    return sizeof(float) *
               weight_floats(w.outputs, w.hidden, w.h(0).each + w.m(0).each, T::KB) +
           sizeof(GroupsBackwardShared);
  }
};

#if NRU_CLUSTER_CODE

// Eight warps: the gradients of h and m.
template <class T>
class GroupsBackwardProducts {
 public:
  using Product = GroupProduct<T::NH, T::NM, T::KB>;

  __device__ __forceinline__ GroupsBackwardProducts(const GroupsBackward& b, const GroupPlace& at,
                                                    float* weights, float* sums)
      : b_(b),
        at_(at),
        sums_(sums),
        h_(b.of.hidden, b.ctas, at.cta),
        m_(b.of.sizes.m, b.ctas, at.cta),
        own_h_(h_, at.rows),
        own_m_(m_, at.rows),
        product_(weights, blocks(b.of).of, h_, m_) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      d_h_[e] = own_h_.used[e] && b_.final_h ? final_of(b_.final_h, b_.of.hidden, own_h_, e) : 0.f;
      d_m_[e] = own_m_.used[e] && b_.final_m ? final_of(b_.final_m, b_.of.sizes.m, own_m_, e) : 0.f;
    }
  }

  __device__ __forceinline__ void run() {
    const ClusterSequence& of = b_.of;
    unsigned step = 1;
    for (int t = of.steps - 1; t >= 0; --t, ++step) {
      hidden_step(t, step);
      memory_step(t, step);
    }
    const float4 sum = product_.template total<0, T::NH>(sums_);
    float* d_h = b_.d_h + at_.at(0, of.batch, of.ld_h);
#pragma unroll
    for (int e = 0; e < 4; ++e)
      if (own_h_.used[e]) d_h[own_h_.at(e, of.ld_h)] = part_of(sum, e);
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
    return values[at_.at(0, 0, 1) * width + own.at(e, width)];
  }
  __device__ __forceinline__ GroupRows rows(const float* values, int t, int ld) const {
    return {values + at_.at(t, b_.of.batch, ld), ld, at_.rows};
  }

  __device__ __forceinline__ void hidden_step(int t, unsigned step) {
    const ClusterSequence& of = b_.of;
    const std::size_t here = at_.at(t, of.batch, of.ld_h);
    const float* h = b_.h + at_.at(t + 1, of.batch, of.ld_h);
    float alive[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const std::size_t own = own_h_.at(e, of.ld_h);
      alive[e] = own_h_.used[e] ? h[own] : 0.f;
      if (own_h_.used[e] && t >= b_.first_output) d_h_[e] += b_.d_output[here + own];
    }
    await_flags(at_.u_flags, at_.rows, step);
    product_.template multiply<kU, 0, T::NH + T::NM>(rows(b_.d_heads, t, of.ld_heads));
    const float4 sum = product_.template total<0, T::NH>(sums_);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (own_h_.used[e])
        b_.d_pre[here + own_h_.at(e, of.ld_h)] = relu_backward(alive[e], part_of(sum, e) + d_h_[e]);
      d_h_[e] = 0;
    }
    at_.announce(Role::products, at_.h_flags, step);
  }

  __device__ __forceinline__ void memory_step(int t, unsigned step) {
    const ClusterSequence& of = b_.of;
    const GroupRows d_pre = rows(b_.d_pre, t, of.ld_h);
    at_.await_columns(at_.h_flags, h_, product_.first_column(kPre), product_.end_column(kPre),
                      of.hidden, step);
    product_.template multiply<kPre, T::NH, T::NM>(d_pre);
    const float4 sum = product_.template total<T::NH, T::NM>(sums_);
    float* d_m = b_.d_m + at_.at(0, of.batch, of.ld_m);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      d_m_[e] += part_of(sum, e);
      if (own_m_.used[e]) d_m[own_m_.at(e, of.ld_m)] = d_m_[e];
    }
    at_.announce(Role::products, at_.m_flags, step);
    product_.template multiply<kPre, 0, T::NH>(d_pre);
  }

  const GroupsBackward& b_;
  const GroupPlace& at_;
  float* const sums_;
  const GroupShare h_, m_;
  const GroupOutputs<T::NH> own_h_;
  const GroupOutputs<T::NM> own_m_;
  float d_h_[4], d_m_[4];  // what reaches h from outside; the gradient of m
  Product product_;        // its sums of h hold W_hh^T d_pre of the step after
};

// Two warps: the gradients of one row's head outputs.
template <class T>
class GroupsBackwardMemory {
 public:
  __device__ __forceinline__ GroupsBackwardMemory(const GroupsBackward& b, const GroupPlace& at,
                                                  GroupsBackwardShared<T>& shared)
      : b_(b), at_(at), s_(shared), lanes_(b.of.sizes), m_(b.of.sizes.m, b.ctas, at.cta) {}

  __device__ __forceinline__ void run() {
    if (!at_.writes) return;
    const int last = b_.of.steps - 1, m = b_.of.sizes.m;
    for (int i = threadIdx.x; i < 32 * T::NS * T::RP; i += kMemoryThreads) s_.d_m[i] = 0;
    meet(Role::memory, kMemoryThreads);
    if (b_.final_m) place(b_.final_m + row(0) * m);
    values_ = {};
    load(last);
    write_.prepare(b_.of.sizes, lanes_.side, values_);
    load(last - 1);
    unsigned step = 1;
    for (int t = last; t >= 0; --t, ++step) {
      if (t < last) {
        await_flags(at_.m_flags, m_.makers(m), step - 1);
        place(b_.d_m + row(0) * b_.of.ld_m);
      }
      meet(Role::memory, kMemoryThreads);
      write(t, step);
      write_.prepare(b_.of.sizes, lanes_.side, values_);
      load(t - 2);
    }
  }

 private:
  __device__ __forceinline__ std::size_t row(int slot) const {
    return static_cast<std::size_t>(slot) * b_.of.batch + at_.first_row + at_.cta;
  }
  __device__ __forceinline__ void place(const float* d_m) {
    const NruWriteSizes& sizes = b_.of.sizes;
    for (int e = threadIdx.x; e < sizes.m; e += kMemoryThreads)
      s_.d_m[e / sizes.r * 32 * T::NS + e % sizes.r] = load_new(d_m + e);
  }
  __device__ __forceinline__ void load(int t) {
    if (t < 0) return;
    load_heads(b_.of.sizes, lanes_, b_.heads + row(t + 1) * b_.of.ld_heads,
               b_.aux + row(t + 1) * b_.of.ld_aux, values_);
  }
  __device__ __forceinline__ void write(int t, unsigned step) {
    const HeadGradients<T> d = write_.run(b_.of.sizes, lanes_, s_.d_m);
    float* to = b_.d_heads + row(t) * b_.of.ld_heads;
#pragma unroll
    for (int i = 0; i < T::NS; ++i) {
      if (lanes_.p[i] != T::kNothing) to[lanes_.p[i]] = d.p[i];
      if (lanes_.q[i] != T::kNothing) to[lanes_.q[i]] = d.q[i];
      if (lanes_.leads[i]) to[lanes_.head[i]] = d.alpha[i];
    }
    at_.announce(Role::memory, at_.u_flags, step);
  }

  const GroupsBackward& b_;
  const GroupPlace& at_;
  GroupsBackwardShared<T>& s_;
  const HeadLanes<T> lanes_;
  const GroupShare m_;
  HeadValues<T> values_;
  typename T::WriteBackward write_;
};

template <class T>
__device__ __forceinline__ void groups_backward_cta(const GroupsBackward& b, float* memory) {
  const GroupPlace at(b.of.batch, b.ctas, b.flags);
  const GroupWidths w{b.of.hidden, b.of.sizes.m, b.of.sizes.outputs, b.ctas};
  auto& shared = *reinterpret_cast<GroupsBackwardShared<T>*>(
      memory + weight_floats(w.outputs, w.hidden, w.h(0).each + w.m(0).each, T::KB));
  if (at.role() == Role::memory) {
    GroupsBackwardMemory<T>(b, at, shared).run();
  } else {
    GroupsBackwardProducts<T>(b, at, memory, shared.sums).run();
  }
}

#endif

template <class T>
__global__ void __launch_bounds__(kGroupThreads, 1)
    groups_backward_kernel(const __grid_constant__ GroupsBackward b) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ float4 memory[];
  groups_backward_cta<T>(b, reinterpret_cast<float*>(memory));
#endif
}

template <class T>
void groups_backward(const GroupsBackward& call, std::size_t shared_bytes, cudaStream_t stream) {
  launch_groups("nru_groups_backward", groups_backward_kernel<T>, shared_bytes, call, stream);
}

}  // namespace nru::kernels::cuda
