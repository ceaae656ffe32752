// NRU, pointwise part on the device. Two phases a step:
//
//   [x, h', m'] -> a:       h = ReLU(a)  (or ReLU(LN(a)))                     activation.cu
//   [(x,) h, m'] -> heads:  m = m' + c0 sum_i (alpha_i v_i^w - beta_i v_i^e)  nru_linear.cu,
//   nru_relu.cu,
//                                                                             nru_general.cu
//
// Kept for the backward pass: h and m (states), the head outputs u, and for the factored write a
// few norms per row (aux).
#include "kernels/nru.h"

#include "kernels/cuda/activation.h"
#include "kernels/cuda/each.cuh"
#include "kernels/cuda/nru_write.cuh"

namespace nru::kernels::cuda {
namespace {

constexpr int kH = 1, kM = 2, kHeads = 3, kAux = 4, kPre = 5;  // parts; kPre with layer norm only
constexpr int kGamma = 2, kBeta = 3;                           // parameters

NruWriteRows write_rows(const Rows<float>& rows) {
  NruWriteRows w{};
  w.count = rows.count;
  w.ld_heads = rows.ld[kHeads];
  w.ld_aux = rows.ld[kAux];
  w.ld_m = rows.ld[kM];
  w.heads = rows.current[kHeads];
  w.aux = rows.current[kAux];
  w.m_prev = rows.previous[kM];
  w.m = rows.current[kM];
  w.events = rows.events;
  if (rows.gradient) {
    w.d_m = rows.gradient[kM];
    w.d_heads = rows.d_pre;
  }
  return w;
}

DevicePhase write_phase(const NruShape& shape) {
  const NruWriteSizes sizes(shape);
  NruWrite *forward = write_general, *backward = write_general_backward;
  if (shape.factored_write()) {
    forward = shape.relu_heads ? write_relu : write_linear;
    backward = shape.relu_heads ? write_relu_backward : write_linear_backward;
  }
  return {[=](const Rows<float>& rows, cudaStream_t s) { forward(sizes, write_rows(rows), s); },
          [=](const Rows<float>& rows, cudaStream_t s) { backward(sizes, write_rows(rows), s); }};
}

// Cuts alpha and beta off at the limit, where they lie: whoever writes or goes back reads them
// there.
struct LimitStrengths {
  float limit;
  int ld;
  float* heads;
  __device__ void operator()(long long row, int i) const {
    float* strength = heads + row * ld + i;
    *strength = cut_off(*strength, limit);
  }
};

struct LimitStrengthsBackward {
  float limit;
  int ld;
  const float* heads;
  float* d_heads;
  __device__ void operator()(long long row, int i) const {
    if (is_cut_off(heads[row * ld + i], limit)) d_heads[row * ld + i] = 0;
  }
};

// Puts the limit of the strengths around the heads' phase.
DevicePhase limited(const DevicePhase& phase, const NruShape& shape) {
  const float limit = static_cast<float>(shape.write_limit);
  const int strengths = 2 * shape.heads;
  return {[=](const Rows<float>& rows, cudaStream_t stream) {
            for_each("nru_limit", rows.count, strengths, stream,
                     LimitStrengths{limit, rows.ld[kHeads], rows.current[kHeads]});
            phase.forward(rows, stream);
          },
          [=](const Rows<float>& rows, cudaStream_t stream) {
            phase.backward(rows, stream);
            for_each(
                "nru_limit_backward", rows.count, strengths, stream,
                LimitStrengthsBackward{limit, rows.ld[kHeads], rows.current[kHeads], rows.d_pre});
          }};
}

DeviceCell cell(const Program<float>& program) {
  const auto shape = std::any_cast<NruShape>(program.shape);
  Activation relu{kH, shape.hidden};
  DeviceCell c;
  if (shape.layer_norm) {
    relu.pre = kPre;
    relu.gamma = kGamma;
    relu.beta = kBeta;
    c.row_sums = {kGamma, kBeta};
  }
  const DevicePhase write = write_phase(shape);
  c.phases = {activation_phase(relu), shape.write_limit > 0 ? limited(write, shape) : write};
  return c;
}

const DeviceCellEntry entry("nru", cell);

}  // namespace

NruWriteSizes::NruWriteSizes(const NruShape& s)
    : k(s.heads),
      m(s.memory),
      r(s.factored_write() ? s.rank() : 0),
      R(s.factored_write() ? s.rank() / s.heads : 0),
      outputs(s.head_outputs()),
      combine(static_cast<float>(s.sum_heads ? 1.0 : 1.0 / s.heads)),
      limit(static_cast<float>(s.write_limit)),
      authors_overflow(s.authors_overflow),
      direction(s.direction),
      direction_size(s.direction_size()),
      root(s.direction == NruDirection::per_head ? direction_size / (2 * s.heads)
                                                 : direction_size / 2),
      relu(s.relu_heads),
      multiply(s.multiply_memory) {}

}  // namespace nru::kernels::cuda
