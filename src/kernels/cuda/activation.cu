// Kept for the backward pass: h, whose value says what f' is. Without layer norm h takes the place
// of a; with it a part of its own keeps a.
#include "kernels/cuda/activation.h"

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/each.cuh"

namespace nru::kernels::cuda {
namespace {

struct PlainForward {
  bool tanh;
  float* h;  // in: a
  int ld;
  __device__ void operator()(long long row, int j) const {
    float* at = h + row * ld + j;
    *at = activate(tanh, *at);
  }
};

struct PlainBackward {
  bool tanh;
  const float *h, *dh;
  float* da;
  int ld;
  __device__ void operator()(long long row, int j) const {
    const long long at = row * ld + j;
    da[at] = activate_backward(tanh, h[at], dh[at]);
  }
};

// ---- with layer norm: a CTA per row ----

constexpr int kNormThreads = 256;

struct Moments {
  float mean, inverse_deviation;
};

__device__ inline Moments row_moments(const float* a, int n, float* scratch) {
  float sum = 0, squares = 0;
  for (int j = threadIdx.x; j < n; j += blockDim.x) sum += a[j];
  const float mean = cta_sum(sum, scratch) / n;
  for (int j = threadIdx.x; j < n; j += blockDim.x) squares += (a[j] - mean) * (a[j] - mean);
  return {mean, 1.f / sqrtf(cta_sum(squares, scratch) / n + kLayerNormEps)};
}

struct Norm {
  bool tanh;
  int n, ld;
  const float *a, *gamma, *beta;
  float* h;
  // Backward:
  const float* dh;
  float *da, *d_gamma, *d_beta;  // the last two [rows, n]
};

__global__ void norm_forward(const Norm f) {
  __shared__ float scratch[33];
  after_previous();
  const size_t row = static_cast<size_t>(blockIdx.x) * f.ld;
  const Moments m = row_moments(f.a + row, f.n, scratch);
  for (int j = threadIdx.x; j < f.n; j += blockDim.x) {
    const float xhat = (f.a[row + j] - m.mean) * m.inverse_deviation;
    f.h[row + j] = activate(f.tanh, fmaf(f.gamma[j], xhat, f.beta[j]));
  }
}

__global__ void norm_backward(const Norm f) {
  __shared__ float scratch[33];
  after_previous();
  const size_t row = static_cast<size_t>(blockIdx.x) * f.ld;
  const size_t sums = static_cast<size_t>(blockIdx.x) * f.n;
  const Moments m = row_moments(f.a + row, f.n, scratch);
  float sum_e = 0, sum_ex = 0;
  for (int j = threadIdx.x; j < f.n; j += blockDim.x) {
    const float xhat = (f.a[row + j] - m.mean) * m.inverse_deviation;
    const float dn = activate_backward(f.tanh, f.h[row + j], f.dh[row + j]), e = dn * f.gamma[j];
    sum_e += e;
    sum_ex += e * xhat;
    f.d_gamma[sums + j] += dn * xhat;
    f.d_beta[sums + j] += dn;
  }
  const float mean_e = cta_sum(sum_e, scratch) / f.n, mean_ex = cta_sum(sum_ex, scratch) / f.n;
  for (int j = threadIdx.x; j < f.n; j += blockDim.x) {
    const float xhat = (f.a[row + j] - m.mean) * m.inverse_deviation;
    const float e = activate_backward(f.tanh, f.h[row + j], f.dh[row + j]) * f.gamma[j];
    f.da[row + j] = m.inverse_deviation * (e - fmaf(xhat, mean_ex, mean_e));
  }
}

Norm norm_of(const Activation& f, const Rows<float>& rows) {
  Norm n{};
  n.tanh = f.tanh;
  n.n = f.width;
  n.ld = rows.ld[f.part];  // that of `pre`, too: the widths are the same
  n.a = rows.current[f.pre];
  n.gamma = rows.parameters[f.gamma];
  n.beta = rows.parameters[f.beta];
  n.h = rows.current[f.part];
  return n;
}

void forward(const Activation& f, const Rows<float>& rows, cudaStream_t stream) {
  if (f.pre < 0) {
    return for_each("activation", rows.count, f.width, stream,
                    PlainForward{f.tanh, rows.current[f.part], rows.ld[f.part]});
  }
  launch("layer_norm", rows.count, f.width, norm_forward, {dim3(rows.count), dim3(kNormThreads)},
         stream, norm_of(f, rows));
}

void backward(const Activation& f, const Rows<float>& rows, cudaStream_t stream) {
  if (f.pre < 0) {
    return for_each("activation_backward", rows.count, f.width, stream,
                    PlainBackward{f.tanh, rows.current[f.part], rows.gradient[f.part], rows.d_pre,
                                  rows.ld[f.part]});
  }
  Norm n = norm_of(f, rows);
  n.dh = rows.gradient[f.part];
  n.da = rows.d_pre;
  n.d_gamma = rows.parameter_gradients[f.gamma];
  n.d_beta = rows.parameter_gradients[f.beta];
  launch("layer_norm_backward", rows.count, f.width, norm_backward,
         {dim3(rows.count), dim3(kNormThreads)}, stream, n);
}

}  // namespace

DevicePhase activation_phase(const Activation& f) {
  return {[f](const Rows<float>& rows, cudaStream_t stream) { forward(f, rows, stream); },
          [f](const Rows<float>& rows, cudaStream_t stream) { backward(f, rows, stream); },
          f.pre >= 0 ? Finish::none
          : f.tanh   ? Finish::tanh
                     : Finish::relu};
}

}  // namespace nru::kernels::cuda
