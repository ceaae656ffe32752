// The SRU in clusters (units.h): two stages a step.
//
//   forward    [mu']  -> r: exchange r             [r]     -> phi: exchange phi
//   backward   [d r]  -> d mu: exchange d phi      [d phi] -> d r: exchange d r
//
// where d r, d phi are gradients of pre-activations, d r from the step after. Every CTA keeps mu
// whole, which saves an exchange; its gradient stays with the threads of the units of phi.
#include "kernels/cuda/units_kernel.cuh"
#include "kernels/sru.h"

namespace nru::kernels::cuda {
namespace {

constexpr int kMu = 1, kR = 2, kPhi = 3;  // parts
constexpr int kRPhase = 0, kPhiPhase = 1;
constexpr int kScales = 5;  // at most

struct SruCall {
  UnitSequence of;  // hidden: the number of averages
  int P, R, scales;
  float alpha[kScales];
  Matrix r_weights, phi_weights;  // [R, scales P], [P, R]
  int ld_mu, ld_r, ld_phi;
  float *mu, *r, *phi;
  unsigned* largest_mu;
  // Backward:
  BulkGradient bulk;  // of mu
  const float* final_mu;
  float *d_r, *d_phi, *d_mu;
};

struct SmallSru {  // up to 32 of r, 64 of phi and 288 averages
  using R = UnitProduct<1, 0, 9>;
  using Phi = UnitProduct<2, 0, 1>;
  using MuBackward = UnitProduct<9, 0, 1>;
  using RBackward = UnitProduct<1, 0, 2>;
};
struct LargeSru {  // 64 of r, 160 of phi and 800 averages
  using R = UnitProduct<2, 0, 25>;
  using Phi = UnitProduct<5, 0, 2>;
  using MuBackward = UnitProduct<25, 0, 2>;
  using RBackward = UnitProduct<2, 0, 5>;
};
template <class T>
struct SruForwardMemory : UnitMemory<typename T::R, typename T::Phi> {
  float4 mu[T::R::kInputs];
};
template <class T>
using SruBackwardMemory = UnitMemory<typename T::MuBackward, typename T::RBackward>;

template <class T>
class SruForward;
template <class T>
class SruBackward;

#if NRU_CLUSTER_CODE

template <class T>
class SruForward : UnitCta<SruForwardMemory<T>> {
  using Base = UnitCta<SruForwardMemory<T>>;
  using Base::at_, Base::s_;
  // Averages that a thread has to do with.
  static constexpr int kAverages = (T::R::kInputs + kClusterThreads - 1) / kClusterThreads;

 public:
  __device__ __forceinline__ SruForward(const SruCall& f, SruForwardMemory<T>& memory)
      : Base(f.of, memory),
        f_(f),
        own_r_(f.R, at_.rank),
        own_phi_(f.P, at_.rank),
        u_r_(this->unit(own_r_)),
        u_phi_(this->unit(own_phi_)) {
    const int averages = f.scales * f.P;
    r_.load(nullptr, own_r_.weights(f.r_weights, 1, averages));
    phi_.load(nullptr, own_phi_.weights(f.phi_weights, 1, f.R));
    load_rows(at_, f.mu, f.ld_mu, averages, s_.mu);
#pragma unroll
    for (int i = 0; i < kAverages; ++i) {
      const int n = threadIdx.x + i * kClusterThreads;
      source_[i] = n < averages ? n % f.P : -1;
      hold(source_[i]);
      alpha_[i] = n < averages ? f.alpha[n / f.P] : 0.f;
    }
    at_r_ = (f.of.batch + this->row_) * f.ld_r + u_r_.j;
    at_phi_ = (f.of.batch + this->row_) * f.ld_phi + u_phi_.j;
    at_mu_ = (f.of.batch + at_.row(at_.rank)) * f.ld_mu + threadIdx.x;
    load_input();
    this->begin(f.R, f.P);
  }

  __device__ __forceinline__ void run() {
    for (int t = 0; t < f_.of.steps; ++t) {
      r_.run(s_.mu, this->sums());
      __syncthreads();
      recurrent();
      const float4* r = this->receive();
      phi_.run(r, this->sums());
      __syncthreads();
      statistics(t + 1 < f_.of.steps);
      average(this->receive());
      __syncthreads();
    }
    this->store_largest(largest_mu_, f_.largest_mu);
    this->end();
  }

 private:
  __device__ __forceinline__ void load_input() {
    if (u_r_.stored) input_r_ = f_.r[at_r_];
    if (u_phi_.stored) input_phi_ = f_.phi[at_phi_];
  }

  __device__ __forceinline__ void recurrent() {
    const float r = u_r_.exists ? relu(this->sum(u_r_.place) + input_r_) : 0.f;
    this->send_row(u_r_.exists, u_r_.j, r);
    if (u_r_.stored) f_.r[at_r_] = r;
  }

  __device__ __forceinline__ void statistics(bool more) {
    const float phi = u_phi_.exists ? relu(this->sum(u_phi_.place) + input_phi_) : 0.f;
    this->send_row(u_phi_.exists, u_phi_.j, phi);
    if (u_phi_.stored) f_.phi[at_phi_] = phi;
    at_r_ += static_cast<std::size_t>(f_.of.batch) * f_.ld_r;
    at_phi_ += static_cast<std::size_t>(f_.of.batch) * f_.ld_phi;
    if (more) load_input();
  }

  // All averages of all rows; row r is stored by the CTA of that rank.
  __device__ __forceinline__ void average(const float4* phi) {
    const bool stores = at_.used(at_.rank);
#pragma unroll
    for (int i = 0; i < kAverages; ++i) {
      if (source_[i] < 0) continue;
      const int n = threadIdx.x + i * kClusterThreads;
      const float4 fresh = phi[source_[i]], old = s_.mu[n];
      const float keep = alpha_[i], take = 1.f - keep;
      const float4 mu =
          make_float4(fmaf(keep, old.x, take * fresh.x), fmaf(keep, old.y, take * fresh.y),
                      fmaf(keep, old.z, take * fresh.z), fmaf(keep, old.w, take * fresh.w));
      s_.mu[n] = mu;
      if (!stores) continue;
      const float mine = row_of(mu, at_.rank);
      f_.mu[at_mu_ + i * kClusterThreads] = mine;
      largest_mu_ = max(largest_mu_, magnitude_bits(mine));
    }
    at_mu_ += static_cast<std::size_t>(f_.of.batch) * f_.ld_mu;
  }

  const SruCall& f_;
  const UnitShare own_r_, own_phi_;
  const OwnUnit u_r_, u_phi_;
  std::size_t at_r_, at_phi_, at_mu_;  // of the step to come
  float input_r_ = 0, input_phi_ = 0;
  int source_[kAverages];  // number of phi behind an average; -1: none
  float alpha_[kAverages];
  unsigned largest_mu_ = 0;
  typename T::R r_;
  typename T::Phi phi_;
};

template <class T>
class SruBackward : UnitCta<SruBackwardMemory<T>> {
  using Base = UnitCta<SruBackwardMemory<T>>;
  using Base::at_, Base::s_;

 public:
  __device__ __forceinline__ SruBackward(const SruCall& b, SruBackwardMemory<T>& memory)
      : Base(b.of, memory),
        b_(b),
        own_r_(b.R, at_.rank),
        own_phi_(b.P, at_.rank),
        u_r_(this->unit(own_r_)),
        u_phi_(this->unit(own_phi_)) {
    mu_.load(nullptr, own_phi_.transposed(b.r_weights, b.scales, b.R));
    r_.load(nullptr, own_r_.transposed(b.phi_weights, 1, b.P));
    const std::size_t row = static_cast<std::size_t>(b.of.steps - 1) * b.of.batch + this->row_;
    at_r_ = row * b.ld_r + u_r_.j;
    at_phi_ = row * b.ld_phi + u_phi_.j;
    at_mu_ = row * b.ld_mu + u_phi_.j;
#pragma unroll
    for (int k = 0; k < kScales; ++k) {
      alpha_[k] = b.alpha[k];
      arriving_[k] = d_mu_[k] = 0;
      if (k < b.scales && u_phi_.stored && b.final_mu)
        d_mu_[k] = b.final_mu[this->row_ * b.of.hidden + k * b.P + u_phi_.j];
    }
    load_kept(b.of.steps - 1);
    this->begin(b.P, b.R);
  }

  __device__ __forceinline__ void run() {
    const float4* x = this->before();  // zero
    for (int t = b_.of.steps - 1; t >= 0; --t) {
      mu_.run(x, this->sums());
      __syncthreads();
      averages();
      x = this->receive();
      r_.run(x, this->sums());
      __syncthreads();
      recurrent(t);
      x = this->receive();
    }
    mu_.run(x, this->sums());
    __syncthreads();
    store();
    this->end();
  }

 private:
  // What step t reads.
  __device__ __forceinline__ void load_kept(int t) {
    if (t < 0) return;
    if (u_r_.stored) open_r_ = b_.r[at_r_ + static_cast<std::size_t>(b_.of.batch) * b_.ld_r];
    if (!u_phi_.stored) return;
    open_phi_ = b_.phi[at_phi_ + static_cast<std::size_t>(b_.of.batch) * b_.ld_phi];
#pragma unroll
    for (int k = 0; k < kScales; ++k) {
      if (k < b_.scales) arriving_[k] = t >= b_.bulk.first ? b_.bulk.data[at_mu_ + k * b_.P] : 0.f;
    }
  }

  __device__ __forceinline__ float sum_of_scale(int k) const {
    return k < b_.scales && u_phi_.exists ? this->sum(k * own_phi_.most + u_phi_.place) : 0.f;
  }

  __device__ __forceinline__ void averages() {
    float d_phi = 0;
#pragma unroll
    for (int k = 0; k < kScales; ++k) {
      const float d = d_mu_[k] + arriving_[k] + sum_of_scale(k);
      d_phi = fmaf(1.f - alpha_[k], d, d_phi);
      d_mu_[k] = alpha_[k] * d;
    }
    if (!(open_phi_ > 0.f)) d_phi = 0;
    this->send_row(u_phi_.exists, u_phi_.j, d_phi);
    if (u_phi_.stored) b_.d_phi[at_phi_] = d_phi;
  }

  __device__ __forceinline__ void recurrent(int t) {
    const float d_r = u_r_.exists && open_r_ > 0.f ? this->sum(u_r_.place) : 0.f;
    this->send_row(u_r_.exists, u_r_.j, d_r);
    if (u_r_.stored) b_.d_r[at_r_] = d_r;
    at_r_ -= static_cast<std::size_t>(b_.of.batch) * b_.ld_r;
    at_phi_ -= static_cast<std::size_t>(b_.of.batch) * b_.ld_phi;
    at_mu_ -= static_cast<std::size_t>(b_.of.batch) * b_.ld_mu;
    load_kept(t - 1);
  }

  __device__ __forceinline__ void store() const {
    if (!u_phi_.stored) return;
#pragma unroll
    for (int k = 0; k < kScales; ++k) {
      if (k < b_.scales)
        b_.d_mu[this->row_ * b_.ld_mu + k * b_.P + u_phi_.j] = d_mu_[k] + sum_of_scale(k);
    }
  }

  const SruCall& b_;
  const UnitShare own_r_, own_phi_;
  const OwnUnit u_r_, u_phi_;
  std::size_t at_r_, at_phi_, at_mu_;  // gradients of the step to come; its values: a step later
  float open_r_ = 0, open_phi_ = 0;    // r and phi, whose sign counts
  float alpha_[kScales];
  float d_mu_[kScales], arriving_[kScales];  // of mu: from the step after, and from elsewhere
  typename T::MuBackward mu_;
  typename T::RBackward r_;
};

#endif

template <class T>
class SruKernels : public UnitKernels<SruShape, SruForwardMemory<T>, SruBackwardMemory<T>> {
  using Base = UnitKernels<SruShape, SruForwardMemory<T>, SruBackwardMemory<T>>;
  using Base::program_, Base::shape_;

 public:
  using Base::Base;
  static bool holds(const SruShape& s) {
    const int K = static_cast<int>(s.scales.size()), P = s.statistics, R = s.recurrent;
    return K >= 1 && K <= kScales && P >= kClusterCtas && R >= kClusterCtas &&
           T::R::holds(1, R, K * P) && T::Phi::holds(1, P, R) && T::MuBackward::holds(K, P, R) &&
           T::RBackward::holds(1, R, P);
  }

  void forward(const PersistentForward& call, cudaStream_t stream) override {
    SruCall f = common(call);
    f.largest_mu = Base::largest_of(call, kMu);
    launch_units<SruForward<T>, SruForwardMemory<T>>("sru_cluster", f, stream);
  }
  void backward(const PersistentBackward& call, cudaStream_t stream) override {
    SruCall b = common(call);
    b.bulk = {call.bulk, call.bulk_first};
    b.final_mu = call.final_state[kMu];
    b.d_r = call.d_pre[kRPhase];
    b.d_phi = call.d_pre[kPhiPhase];
    b.d_mu = call.gradient[kMu];
    launch_units<SruBackward<T>, SruBackwardMemory<T>>("sru_cluster_backward", b, stream);
  }

 private:
  SruCall common(const PersistentCall& call) const {
    SruCall c{};
    c.P = shape_.statistics;
    c.R = shape_.recurrent;
    c.scales = static_cast<int>(shape_.scales.size());
    c.of = Base::sequence_of(call, c.scales * c.P);
    for (int k = 0; k < c.scales; ++k) c.alpha[k] = static_cast<float>(shape_.scales[k]);
    c.r_weights = weight_block(program_, call, kRPhase, kMu);
    c.phi_weights = weight_block(program_, call, kPhiPhase, kR);
    c.ld_mu = call.ld[kMu];
    c.ld_r = call.ld[kR];
    c.ld_phi = call.ld[kPhi];
    c.mu = call.slots[kMu];
    c.r = call.slots[kR];
    c.phi = call.slots[kPhi];
    return c;
  }
};

#ifndef NRU_EMULATED_CLUSTER  // else included by a test
const PersistentDesignEntry entry(
    unit_design<SruShape, SruKernels<SmallSru>, SruKernels<LargeSru>>());
#endif

}  // namespace
}  // namespace nru::kernels::cuda
