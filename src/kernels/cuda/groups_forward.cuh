// Forward pass of a group over all steps.
//
// A step has three exchanges: h_t = ReLU(W_hh h' + W_hm m' + ..), the head outputs
// u_t = W_uh h_t + W_um m' + .., both shared out over the CTAs by columns, and the memory, shared
// out by rows. Eight warps of a CTA do the products, two the write of one row, a warp for each side.
// On the critical path are W_hm m', W_uh h_t and the write: W_hh h_t, the largest product, is formed
// while u_t and the memory are under way.
//
// Every step has places of its own in global memory for what it makes, so nobody can overtake.
#pragma once

#include "kernels/cuda/groups_kernel.cuh"

namespace nru::kernels::cuda {

template <class T>
struct GroupsForwardShared {
  using Sums = GroupSums<T::NH, T::NU>;
  float rows[2][T::Write::kRows][32], Q[2][32 * T::NS];  // the write, by side
  float sums[Sums::kFloats];
  static std::size_t bytes(const GroupWidths& w) {
    return sizeof(float) *
               weight_floats(w.memory, w.hidden, w.h(0).each + w.u(0).each, T::KF) +
           sizeof(GroupsForwardShared);
  }
};

#if NRU_CLUSTER_CODE

// Eight warps: h and the head outputs.
template <class T>
class GroupsForwardProducts {
 public:
  using Product = GroupProduct<T::NH, T::NU, T::KF>;

  __device__ __forceinline__ GroupsForwardProducts(const GroupsForward& f, const GroupPlace& at,
                                                   float* weights, float* sums)
      : f_(f),
        at_(at),
        sums_(sums),
        h_(f.of.hidden, f.ctas, at.cta),
        u_(f.of.sizes.outputs, f.ctas, at.cta),
        own_h_(h_, at.rows),
        own_u_(u_, at.rows),
        product_(weights, blocks(f.of).of, h_, u_) {}

  __device__ __forceinline__ void run() {
    const ClusterSequence& of = f_.of;
    product_.template multiply<kH, 0, T::NH>(rows(f_.h, 0, of.ld_h));
    for (int t = 0; t < of.steps; ++t) {
      hidden_step(t);
      heads_step(t);
    }
    store_largest(largest_, f_.largest_h);
  }

 private:
  static constexpr int kM = 0, kH = 1;  // vectors of the product

  struct Blocks {
    WeightBlock of[2][2];
  };
  __device__ static Blocks blocks(const ClusterSequence& of) {
    const ClusterWeights& w = of.weights;
    const int h = of.hidden, m = of.sizes.m, u = of.sizes.outputs;
    return {{{{w.h_from_m, h, m, w.h_ld, 1}, {w.heads_from_m, u, m, w.heads_ld, 1}},
             {{w.h_from_h, h, h, w.h_ld, 1}, {w.heads_from_h, u, h, w.heads_ld, 1}}}};
  }
  __device__ __forceinline__ GroupRows rows(const float* values, int slot, int ld) const {
    return {values + at_.at(slot, f_.of.batch, ld), ld, at_.rows};
  }

  __device__ __forceinline__ void hidden_step(int t) {
    const ClusterSequence& of = f_.of;
    float* h = f_.h + at_.at(t + 1, of.batch, of.ld_h);
    float input[4];
    load_input(h, of.ld_h, own_h_, input);
    await_flags(at_.m_flags, at_.rows, t);
    product_.template multiply<kM, 0, T::NH + T::NU>(rows(f_.m, t, of.ld_m));
    const float4 sum = product_.template total<0, T::NH>(sums_);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (!own_h_.used[e]) continue;
      const float value = relu_max(part_of(sum, e) + input[e]);
      h[own_h_.at(e, of.ld_h)] = value;
      largest_ = max(largest_, magnitude_bits(value));
    }
    at_.announce(Role::products, at_.h_flags, t + 1);
  }

  __device__ __forceinline__ void heads_step(int t) {
    const ClusterSequence& of = f_.of;
    const GroupRows h = rows(f_.h, t + 1, of.ld_h);
    float* u = f_.heads + at_.at(t + 1, of.batch, of.ld_heads);
    float input[4];
    load_input(u, of.ld_heads, own_u_, input);
    at_.await_columns(at_.h_flags, h_, product_.first_column(kH), product_.end_column(kH),
                      of.hidden, t + 1);
    product_.template multiply<kH, T::NH, T::NU>(h);
    const float4 sum = product_.template total<T::NH, T::NU>(sums_);
#pragma unroll
    for (int e = 0; e < 4; ++e)
      if (own_u_.used[e]) u[own_u_.at(e, of.ld_heads)] = part_of(sum, e) + input[e];
    at_.announce(Role::products, at_.u_flags, t + 1);
    if (t + 1 < of.steps) product_.template multiply<kH, 0, T::NH>(h);
  }

  // What input and bias give to this thread's outputs.
  template <int kCount>
  __device__ static void load_input(const float* from, int ld, const GroupOutputs<kCount>& own,
                                    float (&input)[4]) {
#pragma unroll
    for (int e = 0; e < 4; ++e) input[e] = own.used[e] ? from[own.at(e, ld)] : 0.f;
  }

  const GroupsForward& f_;
  const GroupPlace& at_;
  float* const sums_;
  const GroupShare h_, u_;
  const GroupOutputs<T::NH> own_h_;
  const GroupOutputs<T::NU> own_u_;
  unsigned largest_ = 0;
  Product product_;  // its sums of h hold W_hh h' before a step
};

// Two warps: the memory of one row.
template <class T>
class GroupsForwardMemory {
 public:
  __device__ __forceinline__ GroupsForwardMemory(const GroupsForward& f, const GroupPlace& at,
                                                 GroupsForwardShared<T>& shared)
      : f_(f), at_(at), s_(shared), lanes_(f.of.sizes), u_(f.of.sizes.outputs, f.ctas, at.cta) {}

  __device__ __forceinline__ void run() {
    if (!at_.writes) return;
    const float* m = f_.m + row(0) * f_.of.ld_m;
#pragma unroll
    for (int i = 0; i < T::kMemoryEach; ++i) {
      const int e = threadIdx.x + kMemoryThreads * i;
      m_[i] = e < f_.of.sizes.m ? m[e] : 0.f;
    }
    for (int t = 0; t < f_.of.steps; ++t) step(t);
    store_largest(largest_, f_.largest_m);
  }

 private:
  __device__ __forceinline__ std::size_t row(int slot) const {
    return static_cast<std::size_t>(slot) * f_.of.batch + at_.first_row + at_.cta;
  }

  __device__ __forceinline__ void step(int t) {
    const NruWriteSizes& sizes = f_.of.sizes;
    HeadValues<T> values;
    HeadEvents<T> events;
    float* u = f_.heads + row(t + 1) * f_.of.ld_heads;
    await_flags(at_.u_flags, u_.makers(sizes.outputs), t + 1);
#pragma unroll
    for (int s = 0; s < T::NS; ++s) {
      values.p[s] = lanes_.p[s] != T::kNothing ? load_new(u + lanes_.p[s]) : 0.f;
      values.q[s] = lanes_.q[s] != T::kNothing ? load_new(u + lanes_.q[s]) : 0.f;
      values.alpha[s] = lanes_.exists(s) ? load_new(u + lanes_.head[s]) : 0.f;
    }
    T::Write::prepare(sizes, lanes_, s_.rows[lanes_.side], s_.Q[lanes_.side], values, events);
    meet(Role::memory, kMemoryThreads);
    float* m = f_.m + row(t + 1) * f_.of.ld_m;
#pragma unroll
    for (int i = 0; i < T::kMemoryEach; ++i) {
      const int e = threadIdx.x + kMemoryThreads * i;
      if (e >= sizes.m) continue;
      const int a = e / sizes.r, b = e % sizes.r;
      T::Write::add(s_.rows[0], a, s_.Q[0][b], m_[i]);
      T::Write::add(s_.rows[1], a, s_.Q[1][b], m_[i]);
      m[e] = m_[i];
      largest_ = max(largest_, magnitude_bits(m_[i]));
    }
    at_.announce(Role::memory, at_.m_flags, t + 1);
    store_heads(sizes, lanes_, values, events, u, f_.aux + row(t + 1) * f_.of.ld_aux,
                f_.events + (at_.first_row + at_.cta) * kEvents);
  }

  const GroupsForward& f_;
  const GroupPlace& at_;
  GroupsForwardShared<T>& s_;
  const HeadLanes<T> lanes_;
  const GroupShare u_;
  float m_[T::kMemoryEach];
  unsigned largest_ = 0;
};

template <class T>
__device__ __forceinline__ void groups_forward_cta(const GroupsForward& f, float* memory) {
  const GroupPlace at(f.of.batch, f.ctas, f.flags);
  const GroupWidths w{f.of.hidden, f.of.sizes.m, f.of.sizes.outputs, f.ctas};
  auto& shared = *reinterpret_cast<GroupsForwardShared<T>*>(
      memory + weight_floats(w.memory, w.hidden, w.h(0).each + w.u(0).each, T::KF));
  if (at.role() == Role::memory) {
    GroupsForwardMemory<T>(f, at, shared).run();
  } else {
    GroupsForwardProducts<T>(f, at, memory, shared.sums).run();
  }
}

#endif

template <class T>
__global__ void __launch_bounds__(kGroupThreads, 1)
    groups_forward_kernel(const __grid_constant__ GroupsForward f) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ float4 memory[];
  groups_forward_cta<T>(f, reinterpret_cast<float*>(memory));
#endif
}

template <class T>
void groups_forward(const GroupsForward& call, std::size_t shared_bytes, cudaStream_t stream) {
  launch_groups("nru_groups_forward", groups_forward_kernel<T>, shared_bytes, call, stream);
}

}  // namespace nru::kernels::cuda
