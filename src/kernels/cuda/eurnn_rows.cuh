// The EURNN over a whole sequence: one CTA carries one row of the batch through all steps, with the
// cosines and sines of all angles in its registers.
//
// Thread p has to do with pair p of every layer. In the layers of small strides the 64 numbers of a
// warp stay in its registers, two in each lane, and the layer's partners meet by shuffles: a lane
// that holds the numbers j and j + 2^k of its warp holds, after an exchange with lane xor 2^(k-1),
// the two that the next layer turns. That makes lane p the one with pair p again. The layers of
// larger strides go through shared memory with a barrier each. Where n is no power of two, some
// pairs lack one number or both: they turn by nothing in registers, and are left out in shared
// memory.
//
// A step begins and ends with the numbers 2 p and 2 p + 1 in thread p. The backward pass turns
// y = Q h' and its gradient back together, as butterfly.cuh does; y is kept rather than made again
// from h', which would double the layers of a step.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/butterfly.cuh"
#include "kernels/cuda/math.cuh"
#include "kernels/cuda/steps.cuh"

namespace nru::kernels::cuda {

inline constexpr int kEurnnLayers = 10, kEurnnUnits = 1 << kEurnnLayers;  // at most
inline constexpr int kEurnnWarpLayers = 6;                                // those in registers
inline constexpr int kEurnnThreads = kEurnnUnits / 2;                     // at most
// How many steps ahead values are asked for: what was written for all steps lies in the device's
// memory, from where the one step that registers are loaded ahead is too short a way.
inline constexpr int kEurnnAhead = 4;

inline int eurnn_threads(int n) { return (n + 63) / 64 * 32; }

// PersistentCall with the EURNN's parts by name.
struct EurnnCall {
  Wiring w;
  ModRelu form;
  float eps;
  int steps, batch, begin;
  const std::int64_t* lengths;
  int ld_h, ld_z, ld_re;
  const float *derived, *bias;
  float *h, *z, *re;  // [steps + 1, batch, ld]
  float* y;           // [steps, batch, ld_z]: Q h'. Null: no backward pass follows
};

struct EurnnForward : EurnnCall {
  unsigned* largest_h;
};

struct EurnnBackward : EurnnCall {
  const float* bulk;  // of h, or of Re h
  int bulk_first, ld_bulk;
  const float* final_h;
  float *dz, *dh;
  float *d_theta, *d_phi, *d_omega, *d_bias;  // [batch, size]
};

// The lane's bit and the place in the pair change roles.
template <int P>
__device__ __forceinline__ void exchange(NumberPair<P>& x, int bit) {
  const bool upper = threadIdx.x & bit;
#pragma unroll
  for (int p = 0; p < P; ++p) {
    float &a = x.a.part[p], &b = x.b.part[p];
    const float received = __shfl_xor_sync(kAllLanes, upper ? a : b, bit);
    a = upper ? received : a;
    b = upper ? b : received;
  }
}

// What both passes share: the thread's angles, its numbers, and where they lie.
template <int P>
class EurnnRow {
 protected:
  __device__ __forceinline__ EurnnRow(const EurnnCall& c, float* shared)
      : n_(c.w.n),
        layers_(c.w.layers),
        size_(2 * blockDim.x),
        thread_(threadIdx.x),
        row_(blockIdx.x),
        shared_(shared) {
    const Angles angles(c.derived, c.w);
#pragma unroll
    for (int k = 0; k < kEurnnLayers; ++k) {
      angle_[k] = {{1.f, 0.f}, {1.f, 0.f}};
      const int l = layers_ - 1 - k;
      if (l < 0 || thread_ >= c.w.pairs[l]) continue;
      pairs_ |= 1u << k;
      angle_[k] = pair_angles<P>(angles, c.w.first[l] + thread_);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      omega_[i] = P == 2 && exists(i) ? __ldg(angles.omega + own() + i) : float2{1.f, 0.f};
      bias_[i] = exists(i) ? c.bias[own() + i] : 0.f;
    }
  }

  // Of the layer with the stride 2^k.
  __device__ __forceinline__ bool has_layer(int k) const { return k < layers_; }
  __device__ __forceinline__ bool has_pair(int k) const { return pairs_ >> k & 1; }

  __device__ __forceinline__ int own() const { return 2 * thread_; }
  __device__ __forceinline__ bool exists(int i) const { return own() + i < n_; }
  // First of the two numbers, 32 apart, with which a warp's registers enter its largest stride.
  __device__ __forceinline__ int of_warp() const { return thread_ / 32 * 64 + thread_ % 32; }

  __device__ __forceinline__ std::size_t at(const EurnnCall& c, int slot, int ld) const {
    return (static_cast<std::size_t>(slot) * c.batch + row_) * ld;
  }
  // The row's steps before it is finished.
  __device__ __forceinline__ int steps(const EurnnCall& c) const {
    return steps_before_end(c.lengths, static_cast<int>(row_), c.begin, c.steps);
  }

  // The thread's numbers in a row [Q, n] of global memory, of a part's buffer: zero where there are
  // none.
  template <int Q>
  __device__ __forceinline__ NumberPair<Q> load(const float* row) const {
    NumberPair<Q> x{};
#pragma unroll
    for (int p = 0; p < Q; ++p, row += n_) {
      if (n_ % 2 == 0) {
        if (!exists(0)) continue;
        const float2 two = *reinterpret_cast<const float2*>(row + own());
        x.a.part[p] = two.x;
        x.b.part[p] = two.y;
      } else {
        if (exists(0)) x.a.part[p] = row[own()];
        if (exists(1)) x.b.part[p] = row[own() + 1];
      }
    }
    return x;
  }
  template <int Q>
  __device__ __forceinline__ void store(const NumberPair<Q>& x, float* row) const {
#pragma unroll
    for (int p = 0; p < Q; ++p, row += n_) {
      if (n_ % 2 == 0) {
        if (exists(0))
          *reinterpret_cast<float2*>(row + own()) = make_float2(x.a.part[p], x.b.part[p]);
      } else {
        if (exists(0)) row[own()] = x.a.part[p];
        if (exists(1)) row[own() + 1] = x.b.part[p];
      }
    }
  }
  __device__ __forceinline__ void ask_for(const float* row) const {
#pragma unroll
    for (int p = 0; p < P; ++p, row += n_)
      if (exists(0)) prefetch(row + own());
  }

  const int n_, layers_, size_;  // size_: numbers with room in shared memory
  const int thread_;
  const std::size_t row_;
  float* const shared_;  // [P, size_]; backward two of them
  unsigned pairs_ = 0;   // bit k: has_pair(k)
  // By the stride's logarithm:
  PairAngles angle_[kEurnnLayers];
  float2 omega_[2];
  float bias_[2];
};

template <int P>
class EurnnRowForward : EurnnRow<P> {
  using Base = EurnnRow<P>;
  using Base::angle_, Base::bias_, Base::omega_, Base::shared_, Base::size_;

 public:
  static constexpr int kPlanes = P;  // in shared memory

  __device__ __forceinline__ EurnnRowForward(const EurnnForward& call, float* shared)
      : Base(call, shared), c_(call) {}

  __device__ __forceinline__ void run() {
    const int steps = this->steps(c_);
    NumberPair<P> h = this->template load<P>(c_.h + this->at(c_, 0, c_.ld_h)),
                  input = load_input(0, steps);
    for (int t = 0; t < steps; ++t) {
      multiply(h);
      if (c_.y) this->store(h, c_.y + this->at(c_, t, c_.ld_z));
      NumberPair<P> z = h;
#pragma unroll
      for (int p = 0; p < P; ++p) {
        z.a.part[p] += input.a.part[p];
        z.b.part[p] += input.b.part[p];
      }
      if (c_.y) this->store(z, c_.z + this->at(c_, t + 1, c_.ld_z));
      input = load_input(t + 1, steps);
      h = activate(z);
      keep_state(t, h);
    }
    for (int t = steps; t < c_.steps; ++t) keep_state(t, h);
    const unsigned largest = __reduce_max_sync(kAllLanes, largest_);
    if (c_.largest_h && this->thread_ % 32 == 0) atomicMax(c_.largest_h, largest);
  }

 private:
  __device__ __forceinline__ NumberPair<P> load_input(int t, int steps) const {
    if (t + kEurnnAhead < steps) this->ask_for(c_.z + this->at(c_, t + kEurnnAhead + 1, c_.ld_z));
    return t < steps ? this->template load<P>(c_.z + this->at(c_, t + 1, c_.ld_z))
                     : NumberPair<P>{};
  }

  // x <- Q x
  __device__ __forceinline__ void multiply(NumberPair<P>& x) {
    __syncwarp();  // all lanes have read what is overwritten now
    store_pair(x, shared_, size_, this->own(), this->own() + 1);
    __syncthreads();
#pragma unroll
    for (int k = kEurnnLayers - 1; k >= kEurnnWarpLayers; --k) {
      if (!this->has_layer(k)) continue;
      if (this->has_pair(k)) {
        const int a = lower(this->thread_, k), b = a + (1 << k);
        NumberPair<P> pair = load_pair<P>(shared_, size_, a, b);
        turn_pair(angle_[k], pair);
        store_pair(pair, shared_, size_, a, b);
      }
      __syncthreads();
    }
    x = load_pair<P>(shared_, size_, this->of_warp(), this->of_warp() + 32);
#pragma unroll
    for (int k = kEurnnWarpLayers - 1; k >= 0; --k) {
      if (k < kEurnnWarpLayers - 1) exchange(x, 1 << k);
      turn_pair(angle_[k], x);
    }
    if constexpr (P == 2) {
      turn(omega_[0], x.a.part[0], x.a.part[1]);
      turn(omega_[1], x.b.part[0], x.b.part[1]);
    }
  }

  __device__ __forceinline__ NumberPair<P> activate(const NumberPair<P>& z) {
    NumberPair<P> h{};
    if (this->exists(0)) h.a = modrelu(c_.form, c_.eps, bias_[0], z.a);
    if (this->exists(1)) h.b = modrelu(c_.form, c_.eps, bias_[1], z.b);
#pragma unroll
    for (int p = 0; p < P; ++p) {
      largest_ = max(largest_, magnitude_bits(h.a.part[p]));
      largest_ = max(largest_, magnitude_bits(h.b.part[p]));
    }
    return h;
  }

  __device__ __forceinline__ void keep_state(int t, const NumberPair<P>& h) const {
    this->store(h, c_.h + this->at(c_, t + 1, c_.ld_h));
    if constexpr (P == 2) {
      const NumberPair<1> re{{h.a.part[0]}, {h.b.part[0]}};
      this->store(re, c_.re + this->at(c_, t + 1, c_.ld_re));
    }
  }

  const EurnnForward& c_;
  unsigned largest_ = 0;
};

template <int P>
class EurnnRowBackward : EurnnRow<P> {
  using Base = EurnnRow<P>;
  using Base::angle_, Base::bias_, Base::omega_, Base::shared_, Base::size_;

 public:
  static constexpr int kPlanes = 2 * P;  // in shared memory

  __device__ __forceinline__ EurnnRowBackward(const EurnnBackward& call, float* shared)
      : Base(call, shared), c_(call), shared_g_(shared + P * size_) {}

  __device__ __forceinline__ void run() {
    const int steps = this->steps(c_);
    // A finished row adds nothing to any weight.
    for (int t = steps; t < c_.steps; ++t) this->store(NumberPair<P>{}, dz_of(t));
    NumberPair<P> g = final_gradient();
    load_kept(steps - 1);
    for (int t = steps - 1; t >= 0; --t) {
      g.a.part[0] += arriving_.a.part[0];
      g.b.part[0] += arriving_.b.part[0];
      if (this->exists(0)) d_bias_[0] += modrelu_backward(c_.form, c_.eps, bias_[0], z_.a, g.a);
      if (this->exists(1)) d_bias_[1] += modrelu_backward(c_.form, c_.eps, bias_[1], z_.b, g.b);
      this->store(g, dz_of(t));
      NumberPair<P> y = y_;
      load_kept(t - 1);
      multiply_back(y, g);
    }
    this->store(g, c_.dh + this->at(c_, 0, c_.ld_h));
    store_sums();
  }

 private:
  __device__ __forceinline__ float* dz_of(int t) const { return c_.dz + this->at(c_, t, c_.ld_z); }

  // The caller's, whose rows may begin anywhere.
  __device__ __forceinline__ NumberPair<P> final_gradient() const {
    NumberPair<P> g{};
    if (!c_.final_h) return g;
    const float* row = c_.final_h + this->row_ * P * this->n_ + this->own();
#pragma unroll
    for (int p = 0; p < P; ++p, row += this->n_) {
      if (this->exists(0)) g.a.part[p] = row[0];
      if (this->exists(1)) g.b.part[p] = row[1];
    }
    return g;
  }

  // What step t reads.
  __device__ __forceinline__ void load_kept(int t) {
    if (t < 0) return;
    if (t >= kEurnnAhead) {
      this->ask_for(c_.y + this->at(c_, t - kEurnnAhead, c_.ld_z));
      this->ask_for(c_.z + this->at(c_, t - kEurnnAhead + 1, c_.ld_z));
    }
    y_ = this->template load<P>(c_.y + this->at(c_, t, c_.ld_z));
    z_ = this->template load<P>(c_.z + this->at(c_, t + 1, c_.ld_z));
    arriving_ = {};
    if (t >= c_.bulk_first)
      arriving_ = this->template load<1>(c_.bulk + this->at(c_, t, c_.ld_bulk));
  }

  // From y = Q x and its gradient g to that of x.
  __device__ __forceinline__ void multiply_back(NumberPair<P>& y, NumberPair<P>& g) {
    if constexpr (P == 2) {
      d_omega_[0] += turn_phase_back(omega_[0], y.a, g.a);
      d_omega_[1] += turn_phase_back(omega_[1], y.b, g.b);
    }
#pragma unroll
    for (int k = 0; k < kEurnnWarpLayers; ++k) {
      turn_pair_back(angle_[k], y, g, d_theta_[k], d_phi_[k]);
      if (k == kEurnnWarpLayers - 1) continue;
      exchange(y, 1 << k);
      exchange(g, 1 << k);
    }
    __syncwarp();  // all lanes have read what is overwritten now
    store_pair(y, shared_, size_, this->of_warp(), this->of_warp() + 32);
    store_pair(g, shared_g_, size_, this->of_warp(), this->of_warp() + 32);
    __syncthreads();
#pragma unroll
    for (int k = kEurnnWarpLayers; k < kEurnnLayers; ++k) {
      if (!this->has_layer(k)) continue;
      if (this->has_pair(k)) layer_back(k);
      __syncthreads();
    }
    g = load_pair<P>(shared_g_, size_, this->own(), this->own() + 1);
  }
  __device__ __forceinline__ void layer_back(int k) {
    const int a = lower(this->thread_, k), b = a + (1 << k);
    NumberPair<P> y = load_pair<P>(shared_, size_, a, b), g = load_pair<P>(shared_g_, size_, a, b);
    turn_pair_back(angle_[k], y, g, d_theta_[k], d_phi_[k]);
    if (this->has_layer(k + 1)) store_pair(y, shared_, size_, a, b);  // nobody needs x itself
    store_pair(g, shared_g_, size_, a, b);
  }

  __device__ __forceinline__ void store_sums() const {
#pragma unroll
    for (int k = 0; k < kEurnnLayers; ++k) {
      if (!this->has_pair(k)) continue;
      const std::size_t angle =
          this->row_ * c_.w.angles + c_.w.first[this->layers_ - 1 - k] + this->thread_;
      c_.d_theta[angle] = d_theta_[k];
      if (P == 2) c_.d_phi[angle] = d_phi_[k];
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (!this->exists(i)) continue;
      const std::size_t j = this->row_ * this->n_ + this->own() + i;
      c_.d_bias[j] = d_bias_[i];
      if (P == 2) c_.d_omega[j] = d_omega_[i];
    }
  }

  const EurnnBackward& c_;
  float* const shared_g_;
  // Of the step to come:
  NumberPair<P> y_{}, z_{};
  NumberPair<1> arriving_{};
  float d_theta_[kEurnnLayers]{}, d_phi_[kEurnnLayers]{}, d_omega_[2]{}, d_bias_[2]{};
};

}  // namespace nru::kernels::cuda
