// JANET in clusters (units.h): one stage a step. Forward the CTAs exchange h, backward the
// gradients of the gates.
#include "kernels/cuda/janet.cuh"
#include "kernels/cuda/units_kernel.cuh"
#include "kernels/janet.h"

namespace nru::kernels::cuda {
namespace {

constexpr int kH = 1, kGates = 2;  // parts; gates = f, g

struct JanetCall {
  UnitSequence of;
  Matrix weights;  // [2H, H]
  JanetBeta beta;
  int ld, ld_gates;
  float *h, *gates;
  unsigned* largest_h;
  // Backward:
  BulkGradient bulk;
  const float* final_h;
  float *d_gates, *d_h;
};

struct SmallJanet {  // up to 112 units
  using Forward = UnitProduct<7, 0, 4>;
  using Backward = UnitProduct<4, 0, 7>;
};
struct LargeJanet {  // 288
  using Forward = UnitProduct<12, 6, 9>;
  using Backward = UnitProduct<6, 3, 18>;
};

template <class T>
class JanetForward;
template <class T>
class JanetBackward;

#if NRU_CLUSTER_CODE

template <class T>
class JanetForward : UnitCta<UnitMemory<typename T::Forward>> {
  using Base = UnitCta<UnitMemory<typename T::Forward>>;
  using Base::at_, Base::s_;
  static constexpr int kUnits = units_of_thread(T::Forward::kOutputs / 2);

 public:
  __device__ __forceinline__ JanetForward(const JanetCall& f,
                                          UnitMemory<typename T::Forward>& memory)
      : Base(f.of, memory), f_(f), H_(f.of.hidden), own_(H_, at_.rank) {
    product_.load(s_.weights, own_.weights(f.weights, 2, H_));
    load_rows(at_, f.h, f.ld, H_, this->before());
    at_h_ = (f.of.batch + this->row_) * f.ld;
    at_gates_ = (f.of.batch + this->row_) * f.ld_gates;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const OwnUnit u = this->unit(own_, i);
      h_[i] = u.stored ? f.h[this->row_ * f.ld + u.j] : 0.f;
      load_input(u, i);
    }
    this->begin(H_, H_);
  }

  __device__ __forceinline__ void run() {
    const float4* h = this->before();
    for (int t = 0; t < f_.of.steps; ++t) {
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
    input_f_[i] = u.stored ? f_.gates[at_gates_ + u.j] : 0.f;
    input_g_[i] = u.stored ? f_.gates[at_gates_ + H_ + u.j] : 0.f;
  }

  __device__ __forceinline__ void pointwise(bool more) {
    JanetUnit gates[kUnits];
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const OwnUnit u = this->unit(own_, i);
      const float a_f = u.exists ? this->sum(u.place) + input_f_[i] : 0.f;
      const float a_g = u.exists ? this->sum(own_.most + u.place) + input_g_[i] : 0.f;
      gates[i] = janet_gates(a_f, a_g);
      h_[i] = janet_forward(gates[i], h_[i], f_.beta);
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
      f_.gates[to_gates + u.j] = gates[i].f;
      f_.gates[to_gates + H_ + u.j] = gates[i].g;
      largest_h_ = max(largest_h_, magnitude_bits(h_[i]));
      if (more) load_input(u, i);
    }
  }

  const JanetCall& f_;
  const int H_;
  const UnitShare own_;
  std::size_t at_h_, at_gates_;  // this thread's row at the step to come
  float h_[kUnits], input_f_[kUnits], input_g_[kUnits];
  unsigned largest_h_ = 0;
  typename T::Forward product_;
};

template <class T>
class JanetBackward : UnitCta<UnitMemory<typename T::Backward>> {
  using Base = UnitCta<UnitMemory<typename T::Backward>>;
  using Base::at_, Base::s_;
  static constexpr int kUnits = units_of_thread(T::Backward::kOutputs);

 public:
  __device__ __forceinline__ JanetBackward(const JanetCall& b,
                                           UnitMemory<typename T::Backward>& memory)
      : Base(b.of, memory), b_(b), H_(b.of.hidden), own_(H_, at_.rank) {
    product_.load(s_.weights, own_.transposed(b.weights, 1, 2 * H_));
    const std::size_t row = static_cast<std::size_t>(b.of.steps - 1) * b.of.batch + this->row_;
    at_h_ = row * b.ld;
    at_gates_ = row * b.ld_gates;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const OwnUnit u = this->unit(own_, i);
      kept_[i] = {};
      h0_[i] = arriving_[i] = 0;
      dh_[i] = u.stored && b.final_h ? b.final_h[this->row_ * H_ + u.j] : 0.f;
      load_kept(b.of.steps - 1, u, i);
    }
    this->begin(2 * H_, 2 * H_);
  }

  __device__ __forceinline__ void run() {
    const float4* d_gates = this->before();  // zero
    for (int t = b_.of.steps - 1; t >= 0; --t) {
      product_.run(d_gates, this->sums());
      __syncthreads();
      pointwise(t);
      d_gates = this->receive();
    }
    product_.run(d_gates, this->sums());
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const OwnUnit u = this->unit(own_, i);
      if (u.stored) b_.d_h[this->row_ * b_.ld + u.j] = dh_[i] + this->sum(u.place);
    }
    this->end();
  }

 private:
  // What step t reads.
  __device__ __forceinline__ void load_kept(int t, const OwnUnit& u, int i) {
    if (t < 0 || !u.stored) return;
    const float* gate =
        b_.gates + at_gates_ + static_cast<std::size_t>(b_.of.batch) * b_.ld_gates + u.j;
    kept_[i] = {gate[0], gate[H_]};
    h0_[i] = b_.h[at_h_ + u.j];
    arriving_[i] = t >= b_.bulk.first ? b_.bulk.data[at_h_ + u.j] : 0.f;
  }

  __device__ __forceinline__ void pointwise(int t) {
    JanetGradient d[kUnits];
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const OwnUnit u = this->unit(own_, i);
      const float dh = u.exists ? dh_[i] + arriving_[i] + this->sum(u.place) : 0.f;
      d[i] = janet_backward(kept_[i], h0_[i], dh, b_.beta);
      this->send_row(u.exists, u.j, d[i].f);
      this->send_row(u.exists, H_ + u.j, d[i].g);
      dh_[i] = d[i].h0;
    }
    const std::size_t to = at_gates_;
    at_h_ -= static_cast<std::size_t>(b_.of.batch) * b_.ld;
    at_gates_ -= static_cast<std::size_t>(b_.of.batch) * b_.ld_gates;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const OwnUnit u = this->unit(own_, i);
      if (!u.stored) continue;
      b_.d_gates[to + u.j] = d[i].f;
      b_.d_gates[to + H_ + u.j] = d[i].g;
      load_kept(t - 1, u, i);
    }
  }

  const JanetCall& b_;
  const int H_;
  const UnitShare own_;
  std::size_t at_h_, at_gates_;  // this thread's row of the step to come; its values: a step later
  JanetUnit kept_[kUnits];       // of the step to come, as h'
  float h0_[kUnits];
  float dh_[kUnits], arriving_[kUnits];  // of h: from the step after, and from elsewhere
  typename T::Backward product_;
};

#endif

template <class T>
class JanetKernels : public UnitKernels<JanetShape, UnitMemory<typename T::Forward>,
                                        UnitMemory<typename T::Backward>> {
  using Base =
      UnitKernels<JanetShape, UnitMemory<typename T::Forward>, UnitMemory<typename T::Backward>>;
  using Base::program_, Base::shape_;

 public:
  using Base::Base;
  static bool holds(const JanetShape& s) {
    return s.hidden >= kClusterCtas && T::Forward::holds(2, s.hidden, s.hidden) &&
           T::Backward::holds(1, s.hidden, 2 * s.hidden);
  }

  void forward(const PersistentForward& call, cudaStream_t stream) override {
    JanetCall f = common(call);
    f.largest_h = Base::largest_of(call, kH);
    launch_units<JanetForward<T>, UnitMemory<typename T::Forward>>("janet_cluster", f, stream);
  }
  void backward(const PersistentBackward& call, cudaStream_t stream) override {
    JanetCall b = common(call);
    b.bulk = {call.bulk, call.bulk_first};
    b.final_h = call.final_state[kH];
    b.d_gates = call.d_pre[0];
    b.d_h = call.gradient[kH];
    launch_units<JanetBackward<T>, UnitMemory<typename T::Backward>>("janet_cluster_backward", b,
                                                                     stream);
  }

 private:
  JanetCall common(const PersistentCall& call) const {
    JanetCall c{.of = Base::sequence_of(call, shape_.hidden),
                .weights = weight_block(program_, call, 0, kH),
                .beta = JanetBeta(shape_)};
    c.ld = call.ld[kH];
    c.ld_gates = call.ld[kGates];
    c.h = call.slots[kH];
    c.gates = call.slots[kGates];
    return c;
  }
};

#ifndef NRU_EMULATED_CLUSTER  // else included by a test
const PersistentDesignEntry entry(
    unit_design<JanetShape, JanetKernels<SmallJanet>, JanetKernels<LargeJanet>>());
#endif

}  // namespace
}  // namespace nru::kernels::cuda
