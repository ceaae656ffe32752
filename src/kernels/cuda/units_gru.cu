// The GRU in clusters (units.h), reset before the product: two stages a step.
//
//   forward    [h']    -> r, z: exchange r h'      [r h'] -> n:    exchange h
//   backward   [d r z] -> dh:   exchange d n       [d n]  -> d rh: exchange d r, d z
//
// where d n, d r, d z are gradients of pre-activations, those of r and z from the step after.
#include "kernels/cuda/gru.cuh"
#include "kernels/cuda/units_kernel.cuh"
#include "kernels/gru.h"

namespace nru::kernels::cuda {
namespace {

constexpr int kH = 1, kGates = 2, kInner = 3, kN = 4;  // parts; gates = r, z; inner = r h'
constexpr int kGatesPhase = 0, kCandidatePhase = 1;

struct GruCall {
  UnitSequence of;
  Matrix gate_weights, candidate_weights;  // [2H, H], [H, H]
  int ld, ld_gates;                        // ld: of h, inner and n
  float *h, *gates, *inner, *n;
  unsigned* largest_h;
  // Backward:
  BulkGradient bulk;
  const float* final_h;
  float *d_gates, *d_n, *d_h;
};

struct SmallGru {  // up to 96 units
  using Gates = UnitProduct<6, 0, 3>;
  using Candidate = UnitProduct<3, 0, 3>;
  using GatesBackward = UnitProduct<3, 0, 6>;
};
struct LargeGru {  // 240
  using Gates = UnitProduct<8, 7, 8>;
  using Candidate = UnitProduct<8, 0, 8>;
  using GatesBackward = UnitProduct<4, 4, 15>;
};
template <class T>
using GruForwardMemory = UnitMemory<typename T::Gates, typename T::Candidate>;
template <class T>
using GruBackwardMemory = UnitMemory<typename T::GatesBackward, typename T::Candidate>;

template <class T>
class GruForward;
template <class T>
class GruBackward;

#if NRU_CLUSTER_CODE

template <class T>
class GruForward : UnitCta<GruForwardMemory<T>> {
  using Base = UnitCta<GruForwardMemory<T>>;
  using Base::at_, Base::s_;

 public:
  __device__ __forceinline__ GruForward(const GruCall& f, GruForwardMemory<T>& memory)
      : Base(f.of, memory), f_(f), H_(f.of.hidden), own_(H_, at_.rank), u_(this->unit(own_)) {
    gates_.load(s_.weights, own_.weights(f.gate_weights, 2, H_));
    candidate_.load(s_.weights + T::Gates::kSharedVectors,
                    own_.weights(f.candidate_weights, 1, H_));
    load_rows(at_, f.h, f.ld, H_, this->before());
    h_ = u_.stored ? f.h[this->row_ * f.ld + u_.j] : 0.f;
    at_h_ = (f.of.batch + this->row_) * f.ld + u_.j;
    at_gates_ = (f.of.batch + this->row_) * f.ld_gates + u_.j;
    load_input();
    this->begin(H_, H_);
  }

  __device__ __forceinline__ void run() {
    const float4* x = this->before();
    for (int t = 0; t < f_.of.steps; ++t) {
      gates_.run(x, this->sums());
      __syncthreads();
      gates();
      x = this->receive();
      candidate_.run(x, this->sums());
      __syncthreads();
      candidate(t + 1 < f_.of.steps);
      x = this->receive();
    }
    this->store_largest(largest_h_, f_.largest_h);
    this->end();
  }

 private:
  __device__ __forceinline__ void load_input() {
    if (!u_.stored) return;
    input_r_ = f_.gates[at_gates_];
    input_z_ = f_.gates[at_gates_ + H_];
    input_n_ = f_.n[at_h_];
  }

  __device__ __forceinline__ void gates() {
    const float r = sigmoid(u_.exists ? this->sum(u_.place) + input_r_ : 0.f);
    this->send_row(u_.exists, u_.j, r * h_);
    z_ = sigmoid(u_.exists ? this->sum(own_.most + u_.place) + input_z_ : 0.f);
    if (!u_.stored) return;
    f_.gates[at_gates_] = r;
    f_.gates[at_gates_ + H_] = z_;
    f_.inner[at_h_] = r * h_;
  }

  __device__ __forceinline__ void candidate(bool more) {
    const float n = tanhf(u_.exists ? this->sum(u_.place) + input_n_ : 0.f);
    h_ = gru_blend(z_, n, h_);
    this->send_row(u_.exists, u_.j, h_);
    if (!u_.stored) return;
    f_.n[at_h_] = n;
    f_.h[at_h_] = h_;
    largest_h_ = max(largest_h_, magnitude_bits(h_));
    at_h_ += static_cast<std::size_t>(f_.of.batch) * f_.ld;
    at_gates_ += static_cast<std::size_t>(f_.of.batch) * f_.ld_gates;
    if (more) load_input();
  }

  const GruCall& f_;
  const int H_;
  const UnitShare own_;
  const OwnUnit u_;
  std::size_t at_h_, at_gates_;  // of the step to come
  float h_, z_, input_r_ = 0, input_z_ = 0, input_n_ = 0;
  unsigned largest_h_ = 0;
  typename T::Gates gates_;
  typename T::Candidate candidate_;
};

template <class T>
class GruBackward : UnitCta<GruBackwardMemory<T>> {
  using Base = UnitCta<GruBackwardMemory<T>>;
  using Base::at_, Base::s_;

 public:
  __device__ __forceinline__ GruBackward(const GruCall& b, GruBackwardMemory<T>& memory)
      : Base(b.of, memory), b_(b), H_(b.of.hidden), own_(H_, at_.rank), u_(this->unit(own_)) {
    gates_.load(s_.weights, own_.transposed(b.gate_weights, 1, 2 * H_));
    candidate_.load(s_.weights + T::GatesBackward::kSharedVectors,
                    own_.transposed(b.candidate_weights, 1, H_));
    const std::size_t row = static_cast<std::size_t>(b.of.steps - 1) * b.of.batch + this->row_;
    at_h_ = row * b.ld + u_.j;
    at_gates_ = row * b.ld_gates + u_.j;
    dh_ = u_.stored && b.final_h ? b.final_h[this->row_ * H_ + u_.j] : 0.f;
    load_kept(b.of.steps - 1);
    this->begin(H_, 2 * H_);
  }

  __device__ __forceinline__ void run() {
    const float4* x = this->before();  // zero
    for (int t = b_.of.steps - 1; t >= 0; --t) {
      gates_.run(x, this->sums());
      __syncthreads();
      blend();
      x = this->receive();
      candidate_.run(x, this->sums());
      __syncthreads();
      reset(t);
      x = this->receive();
    }
    gates_.run(x, this->sums());
    __syncthreads();
    if (u_.stored) b_.d_h[this->row_ * b_.ld + u_.j] = dh_ + this->sum(u_.place);
    this->end();
  }

 private:
  // What step t reads.
  __device__ __forceinline__ void load_kept(int t) {
    if (t < 0 || !u_.stored) return;
    const std::size_t values = at_gates_ + static_cast<std::size_t>(b_.of.batch) * b_.ld_gates;
    r_ = b_.gates[values];
    z_ = b_.gates[values + H_];
    n_ = b_.n[at_h_ + static_cast<std::size_t>(b_.of.batch) * b_.ld];
    h0_ = b_.h[at_h_];
    arriving_ = t >= b_.bulk.first ? b_.bulk.data[at_h_] : 0.f;
  }

  __device__ __forceinline__ void blend() {
    const float dh = u_.exists ? dh_ + arriving_ + this->sum(u_.place) : 0.f;
    const GruBlendGradient d = gru_blend_backward(z_, n_, h0_, dh);
    this->send_row(u_.exists, u_.j, d.n);
    dh_ = d.h0;
    d_z_ = d.z;
    if (u_.stored) b_.d_n[at_h_] = d.n;
  }

  __device__ __forceinline__ void reset(int t) {
    const float d_inner = u_.exists ? this->sum(u_.place) : 0.f;
    const float d_r = gru_reset_backward(r_, h0_, d_inner);
    this->send_row(u_.exists, u_.j, d_r);
    this->send_row(u_.exists, H_ + u_.j, d_z_);
    dh_ = fmaf(d_inner, r_, dh_);
    if (!u_.stored) return;
    b_.d_gates[at_gates_] = d_r;
    b_.d_gates[at_gates_ + H_] = d_z_;
    at_h_ -= static_cast<std::size_t>(b_.of.batch) * b_.ld;
    at_gates_ -= static_cast<std::size_t>(b_.of.batch) * b_.ld_gates;
    load_kept(t - 1);
  }

  const GruCall& b_;
  const int H_;
  const UnitShare own_;
  const OwnUnit u_;
  std::size_t at_h_, at_gates_;  // gradients of the step to come; its values: a step later
  float r_ = 0, z_ = 0, n_ = 0, h0_ = 0, arriving_ = 0;
  float dh_, d_z_;  // dh_: of h from the step after, but for its product
  typename T::GatesBackward gates_;
  typename T::Candidate candidate_;
};

#endif

template <class T>
class GruKernels : public UnitKernels<GruShape, GruForwardMemory<T>, GruBackwardMemory<T>> {
  using Base = UnitKernels<GruShape, GruForwardMemory<T>, GruBackwardMemory<T>>;
  using Base::program_, Base::shape_;

 public:
  using Base::Base;
  static bool holds(const GruShape& s) {
    const int H = s.hidden;
    return !s.reset_after && H >= kClusterCtas && T::Gates::holds(2, H, H) &&
           T::Candidate::holds(1, H, H) && T::GatesBackward::holds(1, H, 2 * H);
  }

  void forward(const PersistentForward& call, cudaStream_t stream) override {
    GruCall f = common(call);
    f.largest_h = Base::largest_of(call, kH);
    launch_units<GruForward<T>, GruForwardMemory<T>>("gru_cluster", f, stream);
  }
  void backward(const PersistentBackward& call, cudaStream_t stream) override {
    GruCall b = common(call);
    b.bulk = {call.bulk, call.bulk_first};
    b.final_h = call.final_state[kH];
    b.d_gates = call.d_pre[kGatesPhase];
    b.d_n = call.d_pre[kCandidatePhase];
    b.d_h = call.gradient[kH];
    launch_units<GruBackward<T>, GruBackwardMemory<T>>("gru_cluster_backward", b, stream);
  }

 private:
  GruCall common(const PersistentCall& call) const {
    GruCall c{};
    c.of = Base::sequence_of(call, shape_.hidden);
    c.gate_weights = weight_block(program_, call, kGatesPhase, kH);
    c.candidate_weights = weight_block(program_, call, kCandidatePhase, kInner);
    c.ld = call.ld[kH];
    c.ld_gates = call.ld[kGates];
    c.h = call.slots[kH];
    c.gates = call.slots[kGates];
    c.inner = call.slots[kInner];
    c.n = call.slots[kN];
    return c;
  }
};

#ifndef NRU_EMULATED_CLUSTER  // else included by a test
const PersistentDesignEntry entry(
    unit_design<GruShape, GruKernels<SmallGru>, GruKernels<LargeGru>>());
#endif

}  // namespace
}  // namespace nru::kernels::cuda
