// The GORU's kernels in clusters (units_goru.cuh) as a design.
#include "kernels/cuda/units_goru.cuh"

namespace nru::kernels::cuda {
namespace {

constexpr int kH = 1, kGates = 2, kU = 3;      // parts
constexpr int kTheta = 0, kBiasCandidate = 5;  // parameters
constexpr int kGatesPhase = 0, kCandidatePhase = 1;

template <class T>
class GoruKernels : public UnitKernels<GoruShape, GoruForwardMemory<T>, GoruBackwardMemory<T>> {
  using Base = UnitKernels<GoruShape, GoruForwardMemory<T>, GoruBackwardMemory<T>>;
  using Base::program_, Base::shape_;

 public:
  using Base::Base;
  static bool holds(const GoruShape& s) {
    return s.hidden >= kClusterCtas && T::Forward::holds(2, s.hidden, s.hidden) &&
           T::Backward::holds(1, s.hidden, 2 * s.hidden);
  }

  void forward(const PersistentForward& call, cudaStream_t stream) override {
    GoruCall f = common(call);
    f.largest_h = Base::largest_of(call, kH);
    launch_units<GoruForward<T>, GoruForwardMemory<T>>("goru_cluster", f, stream);
  }
  void backward(const PersistentBackward& call, cudaStream_t stream) override {
    GoruCall b = common(call);
    b.bulk = {call.bulk, call.bulk_first};
    b.final_h = call.final_state[kH];
    b.d_gates = call.d_pre[kGatesPhase];
    b.d_u = call.d_pre[kCandidatePhase];
    b.d_h = call.gradient[kH];
    b.d_theta = call.row_sums[kTheta];
    b.d_bias = call.row_sums[kBiasCandidate];
    launch_units<GoruBackward<T>, GoruBackwardMemory<T>>("goru_cluster_backward", b, stream);
  }

 private:
  GoruCall common(const PersistentCall& call) const {
    GoruCall c{};
    c.of = Base::sequence_of(call, shape_.hidden);
    c.weights = weight_block(program_, call, kGatesPhase, kH);
    c.wiring = wiring_of(shape_.hidden);
    c.form = shape_.modrelu;
    c.eps = static_cast<float>(shape_.epsilon);
    c.theta = call.parameters[kTheta];
    c.bias = call.parameters[kBiasCandidate];
    c.ld = call.ld[kH];
    c.ld_gates = call.ld[kGates];
    c.h = call.slots[kH];
    c.gates = call.slots[kGates];
    c.u = call.slots[kU];
    return c;
  }
};

#ifndef NRU_EMULATED_CLUSTER  // else included by a test
const PersistentDesignEntry entry(
    unit_design<GoruShape, GoruKernels<SmallGoru>, GoruKernels<LargeGoru>>());
#endif

}  // namespace
}  // namespace nru::kernels::cuda
