// The GORU in clusters (units.h), in one stage a step: forward the CTAs exchange h; backward the
// gradients of the gates and of Q h'. Every CTA turns all of its four rows, so that the butterfly
// (units_butterfly.cuh) needs no exchange of its own.
//
//   forward    first half of a CTA: Q h' of its own units       all: gates' product, pointwise
//   backward   first half: Q^T d(Q h') of all units             all: gates' product, pointwise
//              while the exchange is under way
//              first half: Q h' for the step to come; second half: angles' gradients, of the row
//              that has the CTA's rank, from the step after
//
// Equations and what is kept for the backward pass: goru.cu.
#pragma once

#include "kernels/cuda/modrelu.cuh"
#include "kernels/cuda/units_butterfly.cuh"
#include "kernels/cuda/units_kernel.cuh"
#include "kernels/goru.h"

namespace nru::kernels::cuda {

struct GoruCall {
  UnitSequence of;
  Matrix weights;  // [2n, n]
  Wiring wiring;
  ModRelu form;
  float eps;
  const float *theta, *bias;
  int ld, ld_gates;  // ld: of h and u
  float *h, *gates, *u;
  unsigned* largest_h;
  // Backward:
  BulkGradient bulk;
  const float* final_h;
  float *d_gates, *d_u, *d_h;
  float *d_theta, *d_bias;  // [batch, size]
};

struct SmallGoru {  // up to 112 units
  using Forward = UnitProduct<7, 0, 4>;
  using Backward = UnitProduct<4, 0, 7>;
};
struct LargeGoru {  // 288
  using Forward = UnitProduct<12, 6, 9>;
  using Backward = UnitProduct<6, 3, 18>;
};

template <class T>
inline constexpr int kGoruBlocks = T::Forward::kInputs / 32;  // of the butterfly

template <class T>
struct GoruForwardMemory : UnitMemory<typename T::Forward> {
  Turns<kGoruBlocks<T>> turns;
  float4 y[2][32 * kGoruBlocks<T>];  // Q h', in turns
};

// What is exchanged backward: the gates' gradients for the product, and behind them those of Q h'.
template <class T>
struct GoruGradients {
  static constexpr int kOfTurned = T::Backward::kInputs;
  static constexpr int kInputs = kOfTurned + 32 * kGoruBlocks<T>, kOutputs = 0, kSharedVectors = 0;
};
template <class T>
struct GoruBackwardMemory : UnitMemory<typename T::Backward, GoruGradients<T>> {
  Turns<kGoruBlocks<T>> turns;
  float4 y[2][32 * kGoruBlocks<T>];       // Q h' of a step, and of the one before or after
  float4 turned[2][32 * kGoruBlocks<T>];  // Q^T d(Q h') of the step after, in turns
  AngleTotals<kGoruBlocks<T>> angles;
};

template <class T>
class GoruForward;
template <class T>
class GoruBackward;

#if NRU_CLUSTER_CODE

// One unit of one row.
struct GoruUnit {
  float r, g, u;  // gates activated
};

template <class T>
class GoruForward : UnitCta<GoruForwardMemory<T>> {
  using Base = UnitCta<GoruForwardMemory<T>>;
  using Base::at_, Base::s_;
  static constexpr int kUnits = units_of_thread(T::Forward::kOutputs / 2);
  static constexpr int kBlocks = kGoruBlocks<T>;

 public:
  __device__ __forceinline__ GoruForward(const GoruCall& f, GoruForwardMemory<T>& memory)
      : Base(f.of, memory), f_(f), H_(f.of.hidden), own_(H_, at_.rank) {
    s_.turns.load(f.wiring, f.theta);
    product_.load(s_.weights, own_.weights(f.weights, 2, H_));
    load_rows(at_, f.h, f.ld, H_, this->before());
    at_h_ = (f.of.batch + this->row_) * f.ld;
    at_gates_ = (f.of.batch + this->row_) * f.ld_gates;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const OwnUnit u = this->unit(own_, i);
      h_[i] = u.stored ? f.h[this->row_ * f.ld + u.j] : 0.f;
      bias_[i] = u.exists ? f.bias[u.j] : 0.f;
      load_input(u, i);
    }
    this->begin(H_, H_);
  }

  __device__ __forceinline__ void run() {
    float4* h = this->before();
    for (int t = 0; t < f_.of.steps; ++t) {
      if (in_first_half()) {
        turn_rows(h);
      } else {
        meet_half();
      }
      product_.run(h, this->sums());
      __syncthreads();
      pointwise(t + 1 < f_.of.steps);
      h = this->receive();
    }
    this->store_largest(largest_h_, f_.largest_h);
    this->end();
  }

 private:
  __device__ __forceinline__ void load_input(const OwnUnit& u, int i) {
    input_[i] = {};
    if (!u.stored) return;
    input_[i] = {f_.gates[at_gates_ + u.j], f_.gates[at_gates_ + H_ + u.j], f_.u[at_h_ + u.j]};
  }

  // Q h' of the own units, which lie in at most as many blocks as a half has warps.
  __device__ __forceinline__ void turn_rows(float4* h) {
    static_assert((T::Forward::kOutputs / 2 + 62) / 32 <= kHalfWarps);
    float4* y = s_.y[this->turn()];
    float x[kBlocks];
#pragma unroll
    for (int j = 0; j < kBlocks; ++j) x[j] = number_at(h, 32 * j + own_column(), at_.quad_lane);
    turn_high(s_.turns, x);
#pragma unroll
    for (int j = 0; j < kBlocks; ++j) number_at(y, 32 * j + own_column(), at_.quad_lane) = x[j];
    meet_half();
    const int block = own_.first / 32 + static_cast<int>(threadIdx.x) / 32;
    if (32 * block < own_.first + own_.count) turn_blocks<1, false>(s_.turns, block, y, y);
  }

  __device__ __forceinline__ GoruUnit gates_and_candidate(const OwnUnit& u, int i) {
    if (!u.exists) return {};
    GoruUnit unit;
    unit.r = sigmoid(this->sum(u.place) + input_[i].r);
    unit.g = sigmoid(this->sum(own_.most + u.place) + input_[i].g);
    unit.u = fmaf(unit.r, number_at(s_.y[this->turn()], u.j, at_.quad_lane), input_[i].u);
    return unit;
  }

  __device__ __forceinline__ void pointwise(bool more) {
    GoruUnit now[kUnits];
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const OwnUnit u = this->unit(own_, i);
      now[i] = gates_and_candidate(u, i);
      const float c = modrelu(f_.form, f_.eps, bias_[i], Value<1>{{now[i].u}}).part[0];
      h_[i] = fmaf(now[i].g, h_[i], fmaf(-now[i].g, c, c));  // holds h' exactly at g = 1
      this->send_row(u.exists, u.j, h_[i]);
    }
    const std::size_t to_h = at_h_, to_gates = at_gates_;
    at_h_ += static_cast<std::size_t>(f_.of.batch) * f_.ld;
    at_gates_ += static_cast<std::size_t>(f_.of.batch) * f_.ld_gates;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const OwnUnit u = this->unit(own_, i);
      if (!u.stored) continue;
      f_.h[to_h + u.j] = h_[i];
      f_.gates[to_gates + u.j] = now[i].r;
      f_.gates[to_gates + H_ + u.j] = now[i].g;
      f_.u[to_h + u.j] = now[i].u;
      largest_h_ = max(largest_h_, magnitude_bits(h_[i]));
      if (more) load_input(u, i);
    }
  }

  const GoruCall& f_;
  const int H_;
  const UnitShare own_;
  std::size_t at_h_, at_gates_;  // this thread's row at the step to come
  GoruUnit input_[kUnits];       // share of the input, at the step to come
  float h_[kUnits], bias_[kUnits];
  unsigned largest_h_ = 0;
  typename T::Forward product_;
};

template <class T>
class GoruBackward : UnitCta<GoruBackwardMemory<T>> {
  using Base = UnitCta<GoruBackwardMemory<T>>;
  using Base::at_, Base::s_;
  static constexpr int kUnits = units_of_thread(T::Backward::kOutputs);
  static constexpr int kBlocks = kGoruBlocks<T>, kOfTurned = GoruGradients<T>::kOfTurned;

 public:
  __device__ __forceinline__ GoruBackward(const GoruCall& b, GoruBackwardMemory<T>& memory)
      : Base(b.of, memory), b_(b), H_(b.of.hidden), own_(H_, at_.rank) {
    s_.turns.load(b.wiring, b.theta);
    product_.load(s_.weights, own_.transposed(b.weights, 1, 2 * H_));
    const std::size_t row = static_cast<std::size_t>(b.of.steps - 1) * b.of.batch + this->row_;
    at_h_ = row * b.ld;
    at_gates_ = row * b.ld_gates;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const OwnUnit u = this->unit(own_, i);
      kept_[i] = {};
      h0_[i] = arriving_[i] = d_bias_[i] = 0;
      bias_[i] = u.exists ? b.bias[u.j] : 0.f;
      dh_[i] = u.stored && b.final_h ? b.final_h[this->row_ * H_ + u.j] : 0.f;
      load_kept(b.of.steps - 1, u, i);
    }
    this->begin(3 * H_, 3 * H_);
  }

  __device__ __forceinline__ void run() {
    const int last = b_.of.steps - 1;
    if (in_first_half()) {
      fetch_row(last);
      turn_row(last);
    } else {
      meet_half();
    }
    const float4* d = this->before();  // zero
    for (int t = last; t >= 0; --t) {
      step_after(t, d);
      pointwise(t);
      if (!in_first_half()) {
        walk_.run(s_.turns, s_.angles);
      } else if (t > 0) {
        turn_row(t - 1);
      } else {
        meet_half();
      }
      d = this->receive();
    }
    step_after(-1, d);
    if (in_first_half()) {
      meet_half();
    } else {
      walk_.run(s_.turns, s_.angles);
    }
    __syncthreads();
    store_sums();
    this->end();
  }

 private:
  // What step t + 1 gives to the gradient of h at step t. Also fetches what is worked on when step
  // t has sent its gradients: then those of step t + 1 may be overwritten.
  __device__ __forceinline__ void step_after(int t, const float4* d) {
    float4* turned = s_.turned[this->turn()];
    if (in_first_half()) {
      fetch_row(t - 1);
      turn_low<true>(s_.turns, d + kOfTurned, turned);
      meet_half();
      float x[kBlocks];
#pragma unroll
      for (int j = 0; j < kBlocks; ++j)
        x[j] = number_at(turned, 32 * j + own_column(), at_.quad_lane);
      turn_high_back(s_.turns, x);
#pragma unroll
      for (int j = 0; j < kBlocks; ++j)
        number_at(turned, 32 * j + own_column(), at_.quad_lane) = x[j];
    } else {
      walk_.take(s_.y[(t + 1) & 1], d + kOfTurned, at_.rank);
      meet_half();
    }
    product_.run(d, this->sums());
    __syncthreads();
  }
  __device__ __forceinline__ float from_step_after(const OwnUnit& u) const {
    return this->sum(u.place) + number_at(s_.turned[this->turn()], u.j, at_.quad_lane);
  }

  // h' of step t, and Q h': into the place of step t + 2, which nobody reads any more. Step t + 1,
  // where warps may still be, reads the other one.
  __device__ __forceinline__ void fetch_row(int t) {
#pragma unroll
    for (int j = 0; j < kBlocks; ++j) {
      const int n = 32 * j + own_column();
      const std::size_t at = (static_cast<std::size_t>(t) * b_.of.batch + this->row_) * b_.ld + n;
      fetched_[j] = t >= 0 && this->used_ && n < H_ ? b_.h[at] : 0.f;
    }
  }
  __device__ __forceinline__ void turn_row(int t) {
    turn_high(s_.turns, fetched_);
    float4* y = s_.y[t & 1];
#pragma unroll
    for (int j = 0; j < kBlocks; ++j)
      number_at(y, 32 * j + own_column(), at_.quad_lane) = fetched_[j];
    meet_half();
    turn_low<false>(s_.turns, y, y);
  }

  // What step t reads.
  __device__ __forceinline__ void load_kept(int t, const OwnUnit& u, int i) {
    if (t < 0 || !u.stored) return;
    const float* gate =
        b_.gates + at_gates_ + static_cast<std::size_t>(b_.of.batch) * b_.ld_gates + u.j;
    kept_[i] = {gate[0], gate[H_],
                b_.u[at_h_ + static_cast<std::size_t>(b_.of.batch) * b_.ld + u.j]};
    h0_[i] = b_.h[at_h_ + u.j];
    arriving_[i] = t >= b_.bulk.first ? b_.bulk.data[at_h_ + u.j] : 0.f;
  }

  // Gradients of one unit: of the pre-activations, in place of what was kept.
  __device__ __forceinline__ void unit_backward(const OwnUnit& u, int i, float y) {
    const float dh = u.exists ? dh_[i] + arriving_[i] + from_step_after(u) : 0.f;
    const auto [r, g, input] = kept_[i];
    const Value<1> before{{input}};
    const float c = modrelu(b_.form, b_.eps, bias_[i], before).part[0];
    Value<1> d{{fmaf(-g, dh, dh)}};  // of c, then of u
    d_bias_[i] += modrelu_backward(b_.form, b_.eps, bias_[i], before, d);
    const float du = d.part[0];
    kept_[i] = {du * y * (r * (1.f - r)), dh * (h0_[i] - c) * (g * (1.f - g)), du};
    this->send_row(u.exists, kOfTurned + u.j, du * r);
    this->send_row(u.exists, u.j, kept_[i].r);
    this->send_row(u.exists, H_ + u.j, kept_[i].g);
    dh_[i] = dh * g;
  }

  __device__ __forceinline__ void pointwise(int t) {
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const OwnUnit u = this->unit(own_, i);
      unit_backward(u, i, u.exists ? number_at(s_.y[t & 1], u.j, at_.quad_lane) : 0.f);
    }
    const std::size_t to_u = at_h_, to_gates = at_gates_;
    at_h_ -= static_cast<std::size_t>(b_.of.batch) * b_.ld;
    at_gates_ -= static_cast<std::size_t>(b_.of.batch) * b_.ld_gates;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const OwnUnit u = this->unit(own_, i);
      if (!u.stored) continue;
      b_.d_gates[to_gates + u.j] = kept_[i].r;
      b_.d_gates[to_gates + H_ + u.j] = kept_[i].g;
      b_.d_u[to_u + u.j] = kept_[i].u;
      load_kept(t - 1, u, i);
    }
  }

  __device__ __forceinline__ void store_sums() {
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const OwnUnit u = this->unit(own_, i);
      if (!u.stored) continue;
      b_.d_h[this->row_ * b_.ld + u.j] = dh_[i] + from_step_after(u);
      b_.d_bias[this->row_ * H_ + u.j] = d_bias_[i];
    }
    if (at_.used(at_.rank))
      walk_.store(b_.wiring, s_.angles, b_.d_theta + at_.row(at_.rank) * b_.wiring.angles);
  }

  const GoruCall& b_;
  const int H_;
  const UnitShare own_;
  std::size_t at_h_, at_gates_;  // this thread's row of the step to come; its values: a step later
  GoruUnit kept_[kUnits];        // of the step to come, as h'
  float h0_[kUnits];
  float dh_[kUnits], arriving_[kUnits];  // of h: from the step after, and from elsewhere
  float bias_[kUnits], d_bias_[kUnits];
  float fetched_[kBlocks];   // a column of h'; first half
  AngleWalk<kBlocks> walk_;  // second half
  typename T::Backward product_;
};

#endif

}  // namespace nru::kernels::cuda
