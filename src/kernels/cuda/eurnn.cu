// EURNN, pointwise part on the device. One phase: [x] -> z.
//
//   z = Q h' + U x   h = modReLU(z; b)
//
// The butterfly Q (butterfly.cuh) is part of the pointwise function. Kept for the backward pass: z,
// in place of U x, and h; Q h' is computed again.
#include "kernels/eurnn.h"

#include "kernels/cuda/angles.h"
#include "kernels/cuda/butterfly.cuh"
#include "kernels/cuda/device_cell.h"
#include "kernels/cuda/eurnn.cuh"

namespace nru::kernels::cuda {
namespace {

using eurnn::Index, eurnn::kH, eurnn::kZ, eurnn::kRe;

struct Operands {
  ModRelu form;
  float eps;
  int ld_h, ld_z, ld_re;
  const float *derived, *bias, *h_prev;
  float *z, *h, *re;
  // Backward; the gradients of parameters are those of row 0, `size` numbers per row:
  const float* d_re;
  float *dh, *dz, *d_bias, *d_theta, *d_phi, *d_omega;
};

template <int P>
__global__ void eurnn_forward(const Wiring w, const Operands o) {
  extern __shared__ float x[];  // [P, n]
  after_previous();
  const size_t row = blockIdx.x;
  const float* h_prev = o.h_prev + row * o.ld_h;
  float *z_row = o.z + row * o.ld_z, *h_row = o.h + row * o.ld_h;
  for (int j = threadIdx.x; j < P * w.n; j += blockDim.x) x[j] = h_prev[j];
  butterfly_forward<P>(w, Angles(o.derived, w), x);
  for (int j = threadIdx.x; j < w.n; j += blockDim.x) {
    Value<P> z;
    for (int p = 0; p < P; ++p) {
      const int at = p * w.n + j;
      z.part[p] = z_row[at] + x[at];
      z_row[at] = z.part[p];
    }
    const Value<P> h = modrelu(o.form, o.eps, o.bias[j], z);
    for (int p = 0; p < P; ++p) h_row[p * w.n + j] = h.part[p];
    if (P == 2) o.re[row * o.ld_re + j] = h.part[0];
  }
}

template <int P>
__global__ void eurnn_backward(const Wiring w, const Operands o) {
  extern __shared__ float x[];  // [P, n], and g [P, n]
  after_previous();
  float* g = x + P * w.n;
  const size_t row = blockIdx.x;
  const Angles angles(o.derived, w);
  const float *h_prev = o.h_prev + row * o.ld_h, *z_row = o.z + row * o.ld_z;
  float *dh_row = o.dh + row * o.ld_h, *dz_row = o.dz + row * o.ld_z;
  for (int j = threadIdx.x; j < P * w.n; j += blockDim.x) x[j] = h_prev[j];
  butterfly_forward<P>(w, angles, x);
  for (int j = threadIdx.x; j < w.n; j += blockDim.x) {
    Value<P> z, dz;
    for (int p = 0; p < P; ++p) {
      z.part[p] = z_row[p * w.n + j];
      dz.part[p] = dh_row[p * w.n + j];
    }
    if (P == 2) dz.part[0] += o.d_re[row * o.ld_re + j];
    o.d_bias[row * w.n + j] += modrelu_backward(o.form, o.eps, o.bias[j], z, dz);
    for (int p = 0; p < P; ++p) dz_row[p * w.n + j] = g[p * w.n + j] = dz.part[p];
  }
  const AngleSums sums{o.d_theta + row * w.angles, P == 2 ? o.d_phi + row * w.angles : nullptr,
                       P == 2 ? o.d_omega + row * w.n : nullptr};
  butterfly_backward<P>(w, angles, x, g, sums);
  for (int j = threadIdx.x; j < P * w.n; j += blockDim.x) dh_row[j] = g[j];
}

template <int P>
Operands operands(const EurnnShape& shape, const Rows<float>& rows) {
  Operands o{};
  o.form = shape.modrelu;
  o.eps = static_cast<float>(shape.epsilon);
  o.ld_h = rows.ld[kH];
  o.ld_z = rows.ld[kZ];
  o.derived = rows.derived;
  o.bias = rows.parameters[Index<P>::kBias];
  o.h_prev = rows.previous[kH];
  o.z = rows.current[kZ];
  o.h = rows.current[kH];
  if (P == 2) {
    o.ld_re = rows.ld[kRe];
    o.re = rows.current[kRe];
  }
  if (!rows.gradient) return o;
  o.dh = rows.gradient[kH];
  o.dz = rows.d_pre;
  o.d_bias = rows.parameter_gradients[Index<P>::kBias];
  o.d_theta = rows.parameter_gradients[Index<P>::kTheta];
  if (P == 2) {
    o.d_re = rows.gradient[kRe];
    o.d_phi = rows.parameter_gradients[Index<P>::kPhi];
    o.d_omega = rows.parameter_gradients[Index<P>::kOmega];
  }
  return o;
}

template <int P>
DeviceCell cell_of(const EurnnShape& shape) {
  const Wiring w = wiring_of(shape.hidden);
  DeviceCell c;
  c.phases = {{[=](const Rows<float>& rows, cudaStream_t stream) {
                 launch_rows("eurnn", eurnn_forward<P>, w, operands<P>(shape, rows), rows.count, P,
                             stream);
               },
               [=](const Rows<float>& rows, cudaStream_t stream) {
                 launch_rows("eurnn_backward", eurnn_backward<P>, w, operands<P>(shape, rows),
                             rows.count, 2 * P, stream);
               }}};
  c.row_sums = {Index<P>::kTheta, Index<P>::kBias};
  if (P == 2) c.row_sums.insert(c.row_sums.end(), {Index<P>::kPhi, Index<P>::kOmega});
  c.derived = angles_size(w, P);
  c.prepare = [w](const float* const* parameters, float* derived, cudaStream_t stream) {
    cosines_and_sines(parameters[Index<P>::kTheta], w.angles, derived, stream);
    if (P == 1) return;
    cosines_and_sines(parameters[Index<P>::kPhi], w.angles, derived + 2 * w.angles, stream);
    cosines_and_sines(parameters[Index<P>::kOmega], w.n, derived + 4 * w.angles, stream);
  };
  return c;
}

DeviceCell cell(const Program<float>& program) {
  const auto shape = std::any_cast<EurnnShape>(program.shape);
  return shape.complex ? cell_of<2>(shape) : cell_of<1>(shape);
}

const DeviceCellEntry entry("eurnn", cell);

}  // namespace
}  // namespace nru::kernels::cuda
