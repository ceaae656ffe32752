// Forward pass of a group over all steps.
//
// A step has three exchanges: h_t = ReLU(W_hh h' + W_hm m' + ..), the head outputs
// u_t = W_uh h_t + W_um m' + .., both shared out over the CTAs by columns, and the memory, shared
// out by rows: the write of a row is done by two warps of a CTA, one for each side. On the critical
// path are W_hm m', W_uh h_t and the write. W_hh h_t, the largest product, is formed while u_t and
// the memory are under way, by those two warps after the write.
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
    return sizeof(float) * weights(w) + sizeof(GroupsForwardShared);
  }
  __host__ __device__ static std::size_t weights(const GroupWidths& w) {  // they come first
    return weight_floats<T::NH, T::NU, T::KF>(w.memory, w.hidden, w.h(0), w.u(0));
  }
};

#if NRU_CLUSTER_CODE

template <class T>
class GroupsForwardCta {
 public:
  __device__ __forceinline__ GroupsForwardCta(const GroupsForward& f, float* weights,
                                              GroupsForwardShared<T>& shared)
      : f_(f),
        s_(shared),
        at_(f.of.batch, f.ctas, f.flags),
        h_(f.of.hidden, f.ctas, at_.cta),
        u_(f.of.sizes.outputs, f.ctas, at_.cta),
        own_h_(h_, at_.rows),
        own_u_(u_, at_.rows),
        product_(weights, blocks(f.of).of, h_, u_) {}

  __device__ __forceinline__ void run() {
    product_.template multiply<kH, 0, T::NH>(rows(f_.h, 0, f_.of.ld_h));
    for (int t = 0; t < f_.of.steps; ++t) {
      hidden_step(t);
      heads_step(t);
      if (at_.writes) memory_step(t);
      at_.beside_write();
      if (t + 1 < f_.of.steps)
        product_.template multiply<kH, 0, T::NH>(rows(f_.h, t + 1, f_.of.ld_h));
    }
    store_largest(largest_h_, f_.largest_h);
    store_largest(largest_m_, f_.largest_m);
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
    const float4 sum = product_.template total<0, T::NH>(s_.sums);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (!own_h_.used(e)) continue;
      const float value = relu_max(part_of(sum, e) + input[e]);
      h[own_h_.at(e, of.ld_h)] = value;
      largest_h_ = max(largest_h_, magnitude_bits(value));
    }
    at_.announce(at_.h_flags, t + 1);
  }

  __device__ __forceinline__ void heads_step(int t) {
    const ClusterSequence& of = f_.of;
    float* u = f_.heads + at_.at(t + 1, of.batch, of.ld_heads);
    float input[4];
    load_input(u, of.ld_heads, own_u_, input);
    at_.await_columns(at_.h_flags, h_, product_.first_column(kH), product_.end_column(kH),
                      of.hidden, t + 1);
    product_.template multiply<kH, T::NH, T::NU>(rows(f_.h, t + 1, of.ld_h));
    const float4 sum = product_.template total<T::NH, T::NU>(s_.sums);
#pragma unroll
    for (int e = 0; e < 4; ++e)
      if (own_u_.used(e)) u[own_u_.at(e, of.ld_heads)] = part_of(sum, e) + input[e];
    at_.announce(at_.u_flags, t + 1);
  }

  // The write of this CTA's row, by the threads that have to do with it.
  __device__ __forceinline__ void memory_step(int t) {
    const NruWriteSizes& sizes = f_.of.sizes;
    const HeadLanes<T> lanes(sizes);
    const float inverse_r = 1.f / sizes.r;
    const std::size_t row = at_.first_row + at_.cta, before = row + t * std::size_t(f_.of.batch),
                      here = before + f_.of.batch;
    const float* m_before = f_.m + before * f_.of.ld_m;
    float *m = f_.m + here * f_.of.ld_m, *u = f_.heads + here * f_.of.ld_heads;
    float values_of_m[T::kMemoryEach];
#pragma unroll
    for (int i = 0; i < T::kMemoryEach; ++i) {  // written by the same thread
      const int e = threadIdx.x + kWriteThreads * i;
      values_of_m[i] = e < sizes.m ? m_before[e] : 0.f;
    }
    HeadValues<T> values;
    HeadEvents<T> events;
    await_flags(at_.u_flags, u_.makers(sizes.outputs), t + 1);
#pragma unroll
    for (int s = 0; s < T::NS; ++s) {
      values.p[s] = lanes.p[s] != T::kNothing ? load_new(u + lanes.p[s]) : 0.f;
      values.q[s] = lanes.q[s] != T::kNothing ? load_new(u + lanes.q[s]) : 0.f;
      values.alpha[s] = lanes.exists(s) ? load_new(u + lanes.head[s]) : 0.f;
    }
    T::Write::prepare(sizes, lanes, s_.rows[lanes.side], s_.Q[lanes.side], values, events);
    at_.meet_writers();
#pragma unroll
    for (int i = 0; i < T::kMemoryEach; ++i) {
      const int e = threadIdx.x + kWriteThreads * i;
      if (e >= sizes.m) continue;
      const MemoryPlace place(e, sizes.r, inverse_r);
      T::Write::add(s_.rows[0], place.a, s_.Q[0][place.b], values_of_m[i]);
      T::Write::add(s_.rows[1], place.a, s_.Q[1][place.b], values_of_m[i]);
      m[e] = values_of_m[i];
      largest_m_ = max(largest_m_, magnitude_bits(values_of_m[i]));
    }
    at_.announce_write(at_.m_flags, t + 1);
    store_heads(sizes, lanes, values, events, u, f_.aux + here * f_.of.ld_aux,
                f_.events + row * kEvents);
  }

  // What input and bias give to this thread's outputs.
  template <int kCount>
  __device__ static void load_input(const float* from, int ld, const GroupOutputs<kCount>& own,
                                    float (&input)[4]) {
#pragma unroll
    for (int e = 0; e < 4; ++e) input[e] = own.used(e) ? from[own.at(e, ld)] : 0.f;
  }

  const GroupsForward& f_;
  GroupsForwardShared<T>& s_;
  const GroupPlace at_;
  const GroupShare h_, u_;
  const GroupOutputs<T::NH> own_h_;
  const GroupOutputs<T::NU> own_u_;
  unsigned largest_h_ = 0, largest_m_ = 0;
  GroupProduct<T::NH, T::NU, T::KF> product_;  // its sums of h hold W_hh h' before a step
};

template <class T>
__device__ __forceinline__ void groups_forward_cta(const GroupsForward& f, float* memory) {
  const GroupWidths w{f.of.hidden, f.of.sizes.m, f.of.sizes.outputs, f.ctas};
  float* behind = memory + GroupsForwardShared<T>::weights(w);
  GroupsForwardCta<T>(f, memory, *reinterpret_cast<GroupsForwardShared<T>*>(behind)).run();
}

#endif

template <class T>
__global__ void __launch_bounds__(kGroupThreads, 1)
    groups_forward_kernel(const __grid_constant__ GroupsForward f) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ float4 memory[];
  groups_forward_cta<T>(f, reinterpret_cast<float*>(memory));
#elif defined(__CUDA_ARCH__)
  __trap();  // no code for this GPU, and garbage if chosen nevertheless: stop instead
#endif
}

template <class T>
void groups_forward(const GroupsForward& call, std::size_t shared_bytes, cudaStream_t stream) {
  launch_groups("nru_groups_forward", groups_forward_kernel<T>, shared_bytes, call, stream);
}

}  // namespace nru::kernels::cuda
