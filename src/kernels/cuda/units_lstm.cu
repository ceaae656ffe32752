// The LSTM in clusters (units.h): one stage a step. Forward the CTAs exchange h, backward the
// gradients of the gates; c and its gradient stay with the thread of the unit.
#include "kernels/cuda/lstm.cuh"
#include "kernels/cuda/units_kernel.cuh"
#include "kernels/lstm.h"

namespace nru::kernels::cuda {
namespace {

constexpr int kH = 1, kC = 2, kGates = 3;  // parts
constexpr int kPeephole = 3;               // parameter

struct LstmCall {
  UnitSequence of;
  Matrix weights;         // [4H, H]
  const float* peephole;  // [3, H] or null
  int ld, ld_gates;
  float *h, *c, *gates;
  unsigned *largest_h, *largest_c;
  // Backward:
  BulkGradient bulk;
  const float *final_h, *final_c;
  float *d_gates, *d_h, *d_c, *d_peephole;
};

struct SmallLstm {  // up to 72 units
  using Forward = UnitProduct<9, 0, 3>;
  using Backward = UnitProduct<3, 0, 9>;
};
struct LargeLstm {  // 200
  using Forward = UnitProduct<12, 13, 7>;
  using Backward = UnitProduct<4, 3, 25>;
};

template <class T>
class LstmForward;
template <class T>
class LstmBackward;

#if NRU_CLUSTER_CODE

__device__ inline LstmPeephole peephole_of(const LstmCall& f, const OwnUnit& u) {
  if (!f.peephole || !u.exists) return {};
  const int H = f.of.hidden, j = u.j;
  return {f.peephole[j], f.peephole[H + j], f.peephole[2 * H + j]};
}

template <class T>
class LstmForward : UnitCta<UnitMemory<typename T::Forward>> {
  using Base = UnitCta<UnitMemory<typename T::Forward>>;
  using Base::at_, Base::s_;

 public:
  __device__ __forceinline__ LstmForward(const LstmCall& f, UnitMemory<typename T::Forward>& memory)
      : Base(f.of, memory), f_(f), H_(f.of.hidden), own_(H_, at_.rank), u_(this->unit(own_)) {
    product_.load(s_.weights, own_.weights(f.weights, 4, H_));
    load_rows(at_, f.h, f.ld, H_, this->before());
    peephole_ = peephole_of(f, u_);
    const std::size_t row = this->row_, j = u_.j;
    at_h_ = (f.of.batch + row) * f.ld + j;
    at_gates_ = (f.of.batch + row) * f.ld_gates + j;
    c_ = u_.stored ? f.c[row * f.ld + j] : 0.f;
    load_input();
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
    this->store_largest(largest_c_, f_.largest_c);
    this->end();
  }

 private:
  __device__ __forceinline__ void load_input() {
#pragma unroll
    for (int g = 0; g < 4; ++g) input_[g] = u_.stored ? f_.gates[at_gates_ + g * H_] : 0.f;
  }

  __device__ __forceinline__ void pointwise(bool more) {
    float a[4];
#pragma unroll
    for (int g = 0; g < 4; ++g)
      a[g] = u_.exists ? this->sum(g * own_.most + u_.place) + input_[g] : 0.f;
    const LstmUnit u = lstm_forward(a[0], a[1], a[2], a[3], c_, peephole_);
    this->send_row(u_.exists, u_.j, u.h);
    c_ = u.c;
    if (!u_.stored) return;
    float* gate = f_.gates + at_gates_;
    gate[0] = u.i;
    gate[H_] = u.f;
    gate[2 * H_] = u.g;
    gate[3 * H_] = u.o;
    f_.c[at_h_] = u.c;
    f_.h[at_h_] = u.h;
    largest_h_ = max(largest_h_, magnitude_bits(u.h));
    largest_c_ = max(largest_c_, magnitude_bits(u.c));
    at_h_ += static_cast<std::size_t>(f_.of.batch) * f_.ld;
    at_gates_ += static_cast<std::size_t>(f_.of.batch) * f_.ld_gates;
    if (more) load_input();
  }

  const LstmCall& f_;
  const int H_;
  const UnitShare own_;
  const OwnUnit u_;
  std::size_t at_h_, at_gates_;  // of the step to come
  LstmPeephole peephole_;
  float c_, input_[4];
  unsigned largest_h_ = 0, largest_c_ = 0;
  typename T::Forward product_;
};

template <class T>
class LstmBackward : UnitCta<UnitMemory<typename T::Backward>> {
  using Base = UnitCta<UnitMemory<typename T::Backward>>;
  using Base::at_, Base::s_;

 public:
  __device__ __forceinline__ LstmBackward(const LstmCall& b,
                                          UnitMemory<typename T::Backward>& memory)
      : Base(b.of, memory), b_(b), H_(b.of.hidden), own_(H_, at_.rank), u_(this->unit(own_)) {
    product_.load(s_.weights, own_.transposed(b.weights, 1, 4 * H_));
    const std::size_t row = this->row_, j = u_.j,
                      slot = static_cast<std::size_t>(b.of.steps) * b.of.batch + row;
    peephole_ = peephole_of(b, u_);
    at_h_ = slot * b.ld + j;
    at_gates_ = slot * b.ld_gates + j;
    kept_.c = u_.stored ? b.c[at_h_] : 0.f;
    dc_ = u_.stored && b.final_c ? b.final_c[row * H_ + j] : 0.f;
    load_kept(b.of.steps - 1);
    if (u_.stored && b.final_h) arriving_ += b.final_h[row * H_ + j];
    this->begin(4 * H_, 4 * H_);
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
    store();
    this->end();
  }

 private:
  // What step t reads, c' among it: its own c is that of the step after.
  __device__ __forceinline__ void load_kept(int t) {
    if (t < 0 || !u_.stored) return;
    const float* gate = b_.gates + at_gates_;
    kept_.i = gate[0];
    kept_.f = gate[H_];
    kept_.g = gate[2 * H_];
    kept_.o = gate[3 * H_];
    const std::size_t before = at_h_ - static_cast<std::size_t>(b_.of.batch) * b_.ld;
    c0_ = b_.c[before];
    arriving_ = t >= b_.bulk.first ? b_.bulk.data[before] : 0.f;
  }

  __device__ __forceinline__ void pointwise(int t) {
    const float dh = u_.exists ? arriving_ + this->sum(u_.place) : 0.f;
    const LstmGradient d = lstm_backward(kept_, c0_, dh, dc_, peephole_);
    const int j = u_.j;
    this->send_row(u_.exists, j, d.i);
    this->send_row(u_.exists, H_ + j, d.f);
    this->send_row(u_.exists, 2 * H_ + j, d.g);
    this->send_row(u_.exists, 3 * H_ + j, d.o);
    dc_ = d.c0;
    d_peephole_.i = fmaf(d.i, c0_, d_peephole_.i);
    d_peephole_.f = fmaf(d.f, c0_, d_peephole_.f);
    d_peephole_.o = fmaf(d.o, kept_.c, d_peephole_.o);
    kept_.c = c0_;
    if (!u_.stored) return;
    const std::size_t step = static_cast<std::size_t>(b_.of.batch) * b_.ld_gates;
    float* to = b_.d_gates + at_gates_ - step;  // step t is slot t + 1 of the values
    to[0] = d.i;
    to[H_] = d.f;
    to[2 * H_] = d.g;
    to[3 * H_] = d.o;
    at_gates_ -= step;
    at_h_ -= static_cast<std::size_t>(b_.of.batch) * b_.ld;
    load_kept(t - 1);
  }

  __device__ __forceinline__ void store() const {
    if (!u_.stored) return;
    const std::size_t j = u_.j;
    b_.d_h[this->row_ * b_.ld + j] = this->sum(u_.place);
    b_.d_c[this->row_ * b_.ld + j] = dc_;
    if (!b_.peephole) return;
    float* to = b_.d_peephole + this->row_ * 3 * H_ + j;
    to[0] = d_peephole_.i;
    to[H_] = d_peephole_.f;
    to[2 * H_] = d_peephole_.o;
  }

  const LstmCall& b_;
  const int H_;
  const UnitShare own_;
  const OwnUnit u_;
  std::size_t at_h_, at_gates_;  // values of the step to come
  LstmPeephole peephole_, d_peephole_;
  LstmUnit kept_{};  // of the step to come, as c', and the gradient of h that arrives there
  float c0_ = 0, arriving_ = 0, dc_;
  typename T::Backward product_;
};

#endif

template <class T>
class LstmKernels : public UnitKernels<LstmShape, UnitMemory<typename T::Forward>,
                                       UnitMemory<typename T::Backward>> {
  using Base =
      UnitKernels<LstmShape, UnitMemory<typename T::Forward>, UnitMemory<typename T::Backward>>;
  using Base::program_, Base::shape_;

 public:
  using Base::Base;
  static bool holds(const LstmShape& s) {
    return s.hidden >= kClusterCtas && T::Forward::holds(4, s.hidden, s.hidden) &&
           T::Backward::holds(1, s.hidden, 4 * s.hidden);
  }

  void forward(const PersistentForward& call, cudaStream_t stream) override {
    LstmCall f = common(call);
    f.largest_h = Base::largest_of(call, kH);
    f.largest_c = Base::largest_of(call, kC);
    launch_units<LstmForward<T>, UnitMemory<typename T::Forward>>("lstm_cluster", f, stream);
  }
  void backward(const PersistentBackward& call, cudaStream_t stream) override {
    LstmCall b = common(call);
    b.bulk = {call.bulk, call.bulk_first};
    b.final_h = call.final_state[kH];
    b.final_c = call.final_state[kC];
    b.d_gates = call.d_pre[0];
    b.d_h = call.gradient[kH];
    b.d_c = call.gradient[kC];
    b.d_peephole = shape_.peephole ? call.row_sums[kPeephole] : nullptr;
    launch_units<LstmBackward<T>, UnitMemory<typename T::Backward>>("lstm_cluster_backward", b,
                                                                    stream);
  }

 private:
  LstmCall common(const PersistentCall& call) const {
    LstmCall c{};
    c.of = Base::sequence_of(call, shape_.hidden);
    c.weights = weight_block(program_, call, 0, kH);
    c.peephole = shape_.peephole ? call.parameters[kPeephole] : nullptr;
    c.ld = call.ld[kH];
    c.ld_gates = call.ld[kGates];
    c.h = call.slots[kH];
    c.c = call.slots[kC];
    c.gates = call.slots[kGates];
    return c;
  }
};

#ifndef NRU_EMULATED_CLUSTER  // else included by a test
const PersistentDesignEntry entry(
    unit_design<LstmShape, LstmKernels<SmallLstm>, LstmKernels<LargeLstm>>());
#endif

}  // namespace
}  // namespace nru::kernels::cuda
