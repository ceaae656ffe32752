// The design "rows" of the EURNN: its kernels (eurnn_rows.cuh) and their host side.
#include "kernels/cuda/eurnn_rows.cuh"

#include "kernels/cuda/eurnn.cuh"
#include "kernels/cuda/persistent.h"
#include "kernels/eurnn.h"

namespace nru::kernels::cuda {
namespace {

using eurnn::Index, eurnn::kH, eurnn::kZ, eurnn::kRe;

// Angles and bias do not depend on the kernel before, which is one of this call (the input's
// share): they are on their way while that one still runs.
template <class Row, class Call>
__global__ void __launch_bounds__(kEurnnThreads, 1)
    eurnn_rows_kernel(const __grid_constant__ Call call) {
  extern __shared__ float2 shared[];
  Row row(call, reinterpret_cast<float*>(shared));
  after_previous();
  row.run();
}

template <class Row, class Call>
void launch_row(const char* name, const Call& call, cudaStream_t stream) {
  const int threads = eurnn_threads(call.w.n);
  const std::size_t bytes = sizeof(float) * Row::kPlanes * 2 * threads;
  static_assert(sizeof(float) * Row::kPlanes * kEurnnUnits <= 48 * 1024, "every GPU has so much");
  launch(name, call.batch, call.w.n, eurnn_rows_kernel<Row, Call>,
         {dim3(call.batch), dim3(threads), bytes}, stream, call);
}

template <int P>
class EurnnRows final : public Persistent {
 public:
  explicit EurnnRows(const EurnnShape& shape) : shape_(shape), wiring_(wiring_of(shape.hidden)) {}

  void forward(const PersistentForward& call, cudaStream_t stream) override {
    EurnnForward f{};
    fill(call, &f);
    if (call.keep) f.y = y_of(call);
    f.largest_h = call.largest ? call.largest + kH : nullptr;
    launch_row<EurnnRowForward<P>>("eurnn_rows", f, stream);
  }

  void backward(const PersistentBackward& call, cudaStream_t stream) override {
    constexpr int kOutput = P == 2 ? kRe : kH;
    EurnnBackward b{};
    fill(call, &b);
    b.y = y_of(call);  // as forward() left it
    b.bulk = call.bulk;
    b.bulk_first = call.bulk_first;
    b.ld_bulk = call.ld[kOutput];
    b.final_h = call.final_state[kH];
    b.dz = call.d_pre[0];
    b.dh = call.gradient[kH];
    b.d_theta = call.row_sums[Index<P>::kTheta];
    b.d_bias = call.row_sums[Index<P>::kBias];
    if (P == 2) {
      b.d_phi = call.row_sums[Index<P>::kPhi];
      b.d_omega = call.row_sums[Index<P>::kOmega];
    }
    launch_row<EurnnRowBackward<P>>("eurnn_rows_backward", b, stream);
  }

 private:
  static float* y_of(const PersistentCall& call) {
    return call.memory_for<float>(static_cast<std::size_t>(call.steps) * call.batch * call.ld[kZ]);
  }

  void fill(const PersistentCall& call, EurnnCall* c) const {
    c->w = wiring_;
    c->form = shape_.modrelu;
    c->eps = static_cast<float>(shape_.epsilon);
    c->steps = call.steps;
    c->batch = call.batch;
    c->begin = call.begin;
    c->lengths = call.lengths;
    c->ld_h = call.ld[kH];
    c->ld_z = call.ld[kZ];
    c->derived = call.derived;
    c->bias = call.parameters[Index<P>::kBias];
    c->h = call.slots[kH];
    c->z = call.slots[kZ];
    if (P == 2) {
      c->ld_re = call.ld[kRe];
      c->re = call.slots[kRe];
    }
  }

  EurnnShape shape_;
  Wiring wiring_;
};

std::unique_ptr<Persistent> make(const Program<float>& program, int) {
  const auto* shape = std::any_cast<EurnnShape>(&program.shape);
  if (!shape || shape->hidden > kEurnnUnits) return nullptr;
  if (shape->complex) return std::make_unique<EurnnRows<2>>(*shape);
  return std::make_unique<EurnnRows<1>>(*shape);
}

const PersistentDesignEntry entry({"rows", 0, true, make});

}  // namespace
}  // namespace nru::kernels::cuda
