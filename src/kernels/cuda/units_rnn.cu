// The RNN in clusters (units.h), with or without layer norm: one stage a step. Forward the CTAs
// exchange h, backward the gradient of a.
//
// Layer norm needs sums over all units. Therefore the CTAs exchange a instead of h, and each
// normalises all of it; backward likewise e, the gradient of what was normalised, and each makes
// the gradient of a from it. That is cheaper than an exchange for the sums.
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/units_rnn.cuh"
#include "kernels/rnn.h"

namespace nru::kernels::cuda {
namespace {

constexpr int kH = 1, kPre = 2;       // parts; kPre with layer norm only
constexpr int kGamma = 3, kBeta = 4;  // parameters

template <class T>
class RnnForward;
template <class T>
class RnnBackward;

#if NRU_CLUSTER_CODE

template <class T>
class RnnForward : RnnCta<T> {
  using Base = RnnCta<T>;
  using Base::at_, Base::s_, Base::c_, Base::H_, Base::own_, Base::product_;
  using Base::kUnits, Base::kNumbers;

 public:
  __device__ __forceinline__ RnnForward(const RnnCall& f, RnnMemory<T>& memory)
      : Base(f, memory), pre_(f.norm ? f.a : f.h) {
    product_.load(s_.weights, own_.weights(f.weights, 1, H_));
    load_rows(at_, f.h, f.ld, H_, this->before());
    at_pre_ = (f.of.batch + this->row_) * f.ld;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      input_[i] = 0;
      load_input(this->unit(own_, i), i);
    }
#pragma unroll
    for (int i = 0; i < kNumbers; ++i) {
      const int n = this->number(i);
      gamma_[i] = f.norm && n < H_ ? f.gamma[n] : 0.f;
      beta_[i] = f.norm && n < H_ ? f.beta[n] : 0.f;
    }
    this->begin(H_, H_);
  }

  __device__ __forceinline__ void run() {
    float4* h = this->before();
    for (int t = 0; t < c_.of.steps; ++t) {
      product_.run(h, this->sums());
      __syncthreads();
      pointwise(t + 1 < c_.of.steps);
      h = this->receive();
      if (c_.norm) normalise(t, h);
    }
    this->store_largest(largest_h_, c_.largest_h);
    this->end();
  }

 private:
  __device__ __forceinline__ void load_input(const OwnUnit& u, int i) {
    if (u.stored) input_[i] = pre_[at_pre_ + u.j];
  }

  __device__ __forceinline__ void pointwise(bool more) {
    float value[kUnits];
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const OwnUnit u = this->unit(own_, i);
      value[i] = u.exists ? this->sum(u.place) + input_[i] : 0.f;
      if (!c_.norm) value[i] = activate(c_.tanh, value[i]);
      this->send_row(u.exists, u.j, value[i]);
    }
    const std::size_t to = at_pre_;
    at_pre_ += static_cast<std::size_t>(c_.of.batch) * c_.ld;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const OwnUnit u = this->unit(own_, i);
      if (!u.stored) continue;
      pre_[to + u.j] = value[i];
      if (!c_.norm) largest_h_ = max(largest_h_, magnitude_bits(value[i]));
      if (more) load_input(u, i);
    }
  }

  // From a to h, all of it; row r is stored by the CTA of that rank. The variance comes from those
  // of the warps, each around its own mean.
  __device__ __forceinline__ void normalise(int t, float4* x) {
    float4 a[kNumbers], sums = zero4(), squares = zero4();
#pragma unroll
    for (int i = 0; i < kNumbers; ++i) {
      a[i] = this->number(i) < H_ ? x[this->number(i)] : zero4();
      sums = sum_of(sums, a[i]);
    }
    float sum = warp_row_sum(sums);
    const float own_count = this->count(static_cast<int>(threadIdx.x) / 32);
    const float4 center = rows_of_quad(own_count > 0.f ? sum / own_count : 0.f);
#pragma unroll
    for (int i = 0; i < kNumbers; ++i) {
      const float4 d = difference(a[i], center);
      if (this->number(i) < H_) squares = sum_of(squares, times(d, d));
    }
    float square = warp_row_sum(squares);
    this->share_sums(sum, square);
    const float count = this->count(at_.lane / kClusterRows);
    const float mean = sum_over_warps(sum) / H_;
    const float off = count > 0.f ? sum / count - mean : 0.f;
    const float variance = sum_over_warps(fmaf(count * off, off, square)) / H_;
    const float inverse = 1.f / sqrtf(variance + kLayerNormEps);
    const float4 means = rows_of_quad(mean), inverses = rows_of_quad(inverse);

    const std::size_t row = at_.row(at_.rank);
    float* h = c_.h + (static_cast<std::size_t>(t + 1) * c_.of.batch + row) * c_.ld;
#pragma unroll
    for (int i = 0; i < kNumbers; ++i) {
      const int n = this->number(i);
      if (n >= H_) continue;
      const float4 hat = times(difference(a[i], means), inverses);
      const float4 value = make_float4(activate(c_.tanh, fmaf(gamma_[i], hat.x, beta_[i])),
                                       activate(c_.tanh, fmaf(gamma_[i], hat.y, beta_[i])),
                                       activate(c_.tanh, fmaf(gamma_[i], hat.z, beta_[i])),
                                       activate(c_.tanh, fmaf(gamma_[i], hat.w, beta_[i])));
      x[n] = value;
      if (!at_.used(at_.rank)) continue;
      const float mine = row_of(value, at_.rank);
      h[n] = mine;
      largest_h_ = max(largest_h_, magnitude_bits(mine));
    }
    if (static_cast<int>(threadIdx.x) == at_.rank && this->used_) {
      float* to = c_.moments + 2 * (static_cast<std::size_t>(t) * c_.of.batch + row);
      to[0] = mean;
      to[1] = inverse;
    }
    __syncthreads();
  }

  float* const pre_;
  std::size_t at_pre_;  // this thread's row at the step to come
  float input_[kUnits], gamma_[kNumbers], beta_[kNumbers];
  unsigned largest_h_ = 0;
};

template <class T>
class RnnBackward : RnnCta<T> {
  using Base = RnnCta<T>;
  using Base::at_, Base::s_, Base::c_, Base::H_, Base::own_, Base::product_;
  using Base::kUnits, Base::kNumbers;

 public:
  __device__ __forceinline__ RnnBackward(const RnnCall& b, RnnMemory<T>& memory) : Base(b, memory) {
    product_.load(s_.weights, own_.transposed(b.weights, 1, H_));
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      h_[i] = a_[i] = arriving_[i] = d_gamma_[i] = d_beta_[i] = 0;
      const OwnUnit u = this->unit(own_, i);
      gamma_[i] = b.norm && u.exists ? b.gamma[u.j] : 1.f;
    }
#pragma unroll
    for (int i = 0; i < kNumbers; ++i) all_a_[i] = zero4();
    load_kept(b.of.steps - 1);
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const OwnUnit u = this->unit(own_, i);
      if (u.stored && b.final_h) arriving_[i] += b.final_h[this->row_ * H_ + u.j];
    }
    this->begin(H_, H_);
  }

  __device__ __forceinline__ void run() {
    float4* d_a = this->before();  // zero
    for (int t = c_.of.steps - 1; t >= 0; --t) {
      product_.run(d_a, this->sums());
      __syncthreads();
      pointwise(t);
      d_a = this->receive();
      if (c_.norm) normalise(t, d_a);
      load_kept(t - 1);
    }
    product_.run(d_a, this->sums());
    __syncthreads();
    store();
    this->end();
  }

 private:
  // What step t reads.
  __device__ __forceinline__ void load_kept(int t) {
    if (t < 0) return;
    const std::size_t step = static_cast<std::size_t>(t) * c_.of.batch, values = step + c_.of.batch;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const OwnUnit u = this->unit(own_, i);
      if (!u.stored) continue;
      h_[i] = c_.h[(values + this->row_) * c_.ld + u.j];
      if (c_.norm) a_[i] = c_.a[(values + this->row_) * c_.ld + u.j];
      arriving_[i] = t >= c_.bulk.first ? c_.bulk.data[(step + this->row_) * c_.ld + u.j] : 0.f;
    }
    if (!c_.norm) return;
    if (this->used_) {
      mean_ = c_.moments[2 * (step + this->row_)];
      inverse_ = c_.moments[2 * (step + this->row_) + 1];
    }
#pragma unroll
    for (int i = 0; i < kNumbers; ++i) {
      const int n = this->number(i);
      if (n >= H_) continue;
      const float* a = c_.a + (values + at_.row(0)) * c_.ld + n;
      all_a_[i].x = a[0];
      if (at_.used(1)) all_a_[i].y = a[c_.ld];
      if (at_.used(2)) all_a_[i].z = a[2 * c_.ld];
      if (at_.used(3)) all_a_[i].w = a[3 * c_.ld];
    }
  }

  __device__ __forceinline__ void pointwise(int t) {
    float* to = c_.d_a + (static_cast<std::size_t>(t) * c_.of.batch + this->row_) * c_.ld;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const OwnUnit u = this->unit(own_, i);
      const float dh = u.exists ? arriving_[i] + this->sum(u.place) : 0.f;
      const float d = activate_backward(c_.tanh, h_[i], dh);
      this->send_row(u.exists, u.j, gamma_[i] * d);
      d_gamma_[i] = fmaf(d, (a_[i] - mean_) * inverse_, d_gamma_[i]);
      d_beta_[i] += d;
      if (!c_.norm && u.stored) to[u.j] = d;
    }
  }

  // From e to the gradient of a, all of it; row r is stored by the CTA of that rank.
  __device__ __forceinline__ void normalise(int t, float4* x) {
    const float4 means = rows_of_quad(mean_), inverses = rows_of_quad(inverse_);
    float4 e[kNumbers], hat[kNumbers], sums = zero4(), products = zero4();
#pragma unroll
    for (int i = 0; i < kNumbers; ++i) {
      e[i] = this->number(i) < H_ ? x[this->number(i)] : zero4();
      hat[i] = times(difference(all_a_[i], means), inverses);
      sums = sum_of(sums, e[i]);
      products = sum_of(products, times(e[i], hat[i]));
    }
    float sum = warp_row_sum(sums), product = warp_row_sum(products);
    this->share_sums(sum, product);
    const float4 mean_e = rows_of_quad(sum_over_warps(sum) / H_),
                 mean_ex = rows_of_quad(sum_over_warps(product) / H_);
    float* to = c_.d_a + (static_cast<std::size_t>(t) * c_.of.batch + at_.row(at_.rank)) * c_.ld;
#pragma unroll
    for (int i = 0; i < kNumbers; ++i) {
      const int n = this->number(i);
      if (n >= H_) continue;
      const float4 through_moments =
          make_float4(fmaf(hat[i].x, mean_ex.x, mean_e.x), fmaf(hat[i].y, mean_ex.y, mean_e.y),
                      fmaf(hat[i].z, mean_ex.z, mean_e.z), fmaf(hat[i].w, mean_ex.w, mean_e.w));
      const float4 d = times(inverses, difference(e[i], through_moments));
      x[n] = d;
      if (at_.used(at_.rank)) to[n] = row_of(d, at_.rank);
    }
    __syncthreads();
  }

  __device__ __forceinline__ void store() const {
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const OwnUnit u = this->unit(own_, i);
      if (!u.stored) continue;
      c_.d_h[this->row_ * c_.ld + u.j] = this->sum(u.place);
      if (!c_.norm) continue;
      c_.d_gamma[this->row_ * H_ + u.j] = d_gamma_[i];
      c_.d_beta[this->row_ * H_ + u.j] = d_beta_[i];
    }
  }

  // Of the step to come:
  float h_[kUnits], a_[kUnits], arriving_[kUnits];  // of the thread's units
  float4 all_a_[kNumbers];
  float mean_ = 0, inverse_ = 0;  // of the thread's row
  float gamma_[kUnits], d_gamma_[kUnits], d_beta_[kUnits];
};

#endif

template <class T>
class RnnKernels : public UnitKernels<RnnShape, RnnMemory<T>, RnnMemory<T>> {
  using Base = UnitKernels<RnnShape, RnnMemory<T>, RnnMemory<T>>;
  using Base::program_, Base::shape_;

 public:
  using Base::Base;
  static bool holds(const RnnShape& s) {
    return s.hidden >= kClusterCtas && T::Product::holds(1, s.hidden, s.hidden);
  }

  void forward(const PersistentForward& call, cudaStream_t stream) override {
    RnnCall f = common(call);
    f.largest_h = Base::largest_of(call, kH);
    launch_units<RnnForward<T>, RnnMemory<T>>("rnn_cluster", f, stream);
  }
  void backward(const PersistentBackward& call, cudaStream_t stream) override {
    RnnCall b = common(call);
    b.bulk = {call.bulk, call.bulk_first};
    b.final_h = call.final_state[kH];
    b.d_a = call.d_pre[0];
    b.d_h = call.gradient[kH];
    if (b.norm) {
      b.d_gamma = call.row_sums[kGamma];
      b.d_beta = call.row_sums[kBeta];
    }
    launch_units<RnnBackward<T>, RnnMemory<T>>("rnn_cluster_backward", b, stream);
  }

 private:
  RnnCall common(const PersistentCall& call) const {
    RnnCall c{};
    c.of = Base::sequence_of(call, shape_.hidden);
    c.weights = weight_block(program_, call, 0, kH);
    c.tanh = shape_.tanh;
    c.norm = shape_.layer_norm;
    c.ld = call.ld[kH];  // that of a, too: the widths are the same
    c.h = call.slots[kH];
    if (!c.norm) return c;
    c.a = call.slots[kPre];
    c.gamma = call.parameters[kGamma];
    c.beta = call.parameters[kBeta];
    c.moments = call.memory_for<float>(2 * static_cast<std::size_t>(call.steps) * call.batch);
    return c;
  }
};

#ifndef NRU_EMULATED_CLUSTER  // else included by a test
const PersistentDesignEntry entry(
    unit_design<RnnShape, RnnKernels<SmallRnn>, RnnKernels<LargeRnn>>());
#endif

}  // namespace
}  // namespace nru::kernels::cuda
