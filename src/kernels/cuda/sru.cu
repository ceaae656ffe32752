// Statistical recurrent unit, pointwise part on the device. Two phases a step, and one for many
// steps at once:
//
//   [mu']    -> r:    r = ReLU(a)
//   [x, r]   -> phi:  phi = ReLU(a);  mu_j = alpha_j mu_j' + (1 - alpha_j) phi  for every scale j
//   [mu]     -> h:    h = ReLU(a)     no step reads it: off the recurrent path
//
// Kept for the backward pass: r, phi and h, in place of their pre-activations, and mu.
#include "kernels/sru.h"

#include <string>

#include "kernels/cuda/activation.h"
#include "kernels/cuda/each.cuh"
#include "kernels/cuda/math.cuh"

namespace nru::kernels::cuda {
namespace {

constexpr int kMu = 1, kR = 2, kPhi = 3, kH = 4;  // parts
constexpr int kMaxScales = 64;

struct Scales {
  int count;
  float alpha[kMaxScales];
};

struct AveragesForward {
  Scales scales;
  int P, ld_phi, ld_mu;
  const float* mu_prev;
  float *phi, *mu;
  __device__ void operator()(long long row, int j) const {
    const float fresh = relu(phi[row * ld_phi + j]);
    phi[row * ld_phi + j] = fresh;
    for (int k = 0; k < scales.count; ++k) {
      const long long at = row * ld_mu + k * P + j;
      const float alpha = scales.alpha[k];
      mu[at] = fmaf(alpha, mu_prev[at], (1.f - alpha) * fresh);
    }
  }
};

struct AveragesBackward {
  Scales scales;
  int P, ld_phi, ld_mu;
  const float* phi;
  float *d_mu, *da;
  __device__ void operator()(long long row, int j) const {
    float d_phi = 0;
    for (int k = 0; k < scales.count; ++k) {
      float* g = d_mu + row * ld_mu + k * P + j;
      const float alpha = scales.alpha[k];
      d_phi = fmaf(1.f - alpha, *g, d_phi);
      *g *= alpha;
    }
    da[row * ld_phi + j] = phi[row * ld_phi + j] > 0.f ? d_phi : 0.f;
  }
};

DeviceCell cell(const Program<float>& program) {
  const auto shape = std::any_cast<SruShape>(program.shape);
  const int P = shape.statistics;
  Scales scales{static_cast<int>(shape.scales.size()), {}};
  if (scales.count > kMaxScales) {
    throw Error("the SRU's CUDA kernels hold at most " + std::to_string(kMaxScales) +
                " scales, not " + std::to_string(scales.count));
  }
  for (int k = 0; k < scales.count; ++k) scales.alpha[k] = static_cast<float>(shape.scales[k]);
  DeviceCell c;
  c.phases = {activation_phase({kR, shape.recurrent}),
              {[=](const Rows<float>& rows, cudaStream_t stream) {
                 for_each(
                     "sru_averages", rows.count, P, stream,
                     AveragesForward{scales, P, rows.ld[kPhi], rows.ld[kMu], rows.previous[kMu],
                                     rows.current[kPhi], rows.current[kMu]});
               },
               [=](const Rows<float>& rows, cudaStream_t stream) {
                 for_each("sru_averages_backward", rows.count, P, stream,
                          AveragesBackward{scales, P, rows.ld[kPhi], rows.ld[kMu],
                                           rows.current[kPhi], rows.gradient[kMu], rows.d_pre});
               }},
              activation_phase({kH, shape.hidden})};
  return c;
}

const DeviceCellEntry entry("sru", cell);

}  // namespace
}  // namespace nru::kernels::cuda
