#include "kernels/cuda/readout.h"

#include <cfloat>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/math.cuh"

namespace nru::kernels::cuda {
namespace {

constexpr int kRowsPerCta = 4;  // a warp per row
constexpr int kSmallClasses = 32;
constexpr double kMostMultiplications = 4e6;  // of a small output layer

__device__ inline float warp_max(float x) {
  for (int d = 16; d > 0; d /= 2) x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, d));
  return x;
}

// By a warp, with the row's logits in z.
__device__ inline void cross_entropy(const CrossEntropy& c, long long row, float* z) {
  const int lane = threadIdx.x, batch_row = static_cast<int>(row % c.steps.batch);
  const int step = c.steps.begin + static_cast<int>(row / c.steps.batch);
  const long long position = static_cast<long long>(c.steps.begin) * c.steps.batch + row;
  float top = -FLT_MAX;
  for (int j = lane; j < c.classes; j += 32) top = fmaxf(top, z[j]);
  top = warp_max(top);
  if (c.predictions) {
    int best = c.classes - 1;  // the first class with the largest logit
    for (int j = lane; j < c.classes; j += 32) {
      if (z[j] == top) {
        best = j;
        break;
      }
    }
    best = __reduce_min_sync(kAllLanes, best);
    if (lane == 0) c.predictions[position] = best;
  }
  const bool finished = c.steps.lengths && step >= c.steps.lengths[batch_row];
  const float weight = finished ? 0.f : c.weights ? c.weights[position] : 1.f;
  if (weight == 0.f) {  // its logits may be infinite, its target anything
    for (int j = lane; j < c.classes; j += 32) z[j] = 0;
    if (lane == 0) c.losses[row] = 0;
    return;
  }
  const int target = c.targets[position];
  const float target_logit = z[target];
  float sum = 0;
  for (int j = lane; j < c.classes; j += 32) sum += expf(z[j] - top);
  sum = warp_sum(sum);
  const float factor = weight * static_cast<float>(c.scale), norm = factor / sum;
  __syncwarp();  // all have read the target's logit
  for (int j = lane; j < c.classes; j += 32)
    z[j] = expf(z[j] - top) * norm - (j == target ? factor : 0.f);
  if (lane == 0) {
    c.losses[row] =
        static_cast<double>(weight) * (log(static_cast<double>(sum)) + static_cast<double>(top) -
                                       static_cast<double>(target_logit));
  }
}

__global__ void cross_entropy_kernel(const CrossEntropy c) {
  const long long row = static_cast<long long>(blockIdx.x) * kRowsPerCta + threadIdx.y;
  if (row < c.steps.rows()) cross_entropy(c, row, c.logits + row * c.classes);
}

// The sum of all values, in a fixed order, for all kThreads threads of a CTA.
template <int kThreads, class T>
__device__ double ordered_sum(const T* values, long long count) {
  __shared__ double sums[kThreads];
  const int thread = threadIdx.y * blockDim.x + threadIdx.x;
  double sum = 0;
  for (long long i = thread; i < count; i += kThreads) sum += __ldcg(values + i);
  sums[thread] = sum;
  for (int n = kThreads / 2; n > 0; n /= 2) {
    __syncthreads();
    if (thread < n) sums[thread] += sums[thread + n];
  }
  __syncthreads();
  return sums[0];
}

constexpr int kLossThreads = 1024;

__global__ void add_losses_kernel(const double* losses, long long count, double scale,
                                  double* total) {
  const double sum = ordered_sum<kLossThreads>(losses, count);
  if (threadIdx.x == 0) *total += scale * sum;
}

__global__ void normalize_weights_kernel(float* weights, long long count) {
  const double scale = 1 / ordered_sum<kLossThreads>(weights, count);
  for (long long i = threadIdx.x; i < count; i += kLossThreads)
    weights[i] = static_cast<float>(weights[i] * scale);
}

// A warp per position: its logits, their gradients, and that of its output. The CTA that ends last
// adds up the losses.
__global__ void small_readout_kernel(const __grid_constant__ SmallReadout s) {
  __shared__ float logits[kRowsPerCta][kSmallClasses];
  after_previous();
  const CrossEntropy& c = s.entropy;
  const long long row = static_cast<long long>(blockIdx.x) * kRowsPerCta + threadIdx.y;
  const int lane = threadIdx.x;
  if (row < c.steps.rows()) {
    float* z = logits[threadIdx.y];
    const float* y = s.output + row * s.ld;
#pragma unroll 4
    for (int k = 0; k < c.classes; ++k) {
      float sum = 0;
      for (int j = lane; j < s.width; j += 32)
        sum = fmaf(y[j], s.weight[static_cast<size_t>(k) * s.width + j], sum);
      sum = warp_sum(sum);
      if (lane == 0) z[k] = sum + s.bias[k];
    }
    __syncwarp();
    cross_entropy(c, row, z);
    __syncwarp();
    if (lane < c.classes) c.logits[row * c.classes + lane] = z[lane];
    for (int j = lane; s.d_output && j < s.width; j += 32) {
      float sum = 0;
      for (int k = 0; k < c.classes; ++k)
        sum = fmaf(z[k], s.weight[static_cast<size_t>(k) * s.width + j], sum);
      s.d_output[row * s.ld + j] = sum;
    }
  }
  if (!comes_last(s.ended, gridDim.x)) return;
  const double sum = ordered_sum<32 * kRowsPerCta>(c.losses, c.steps.rows());
  if (threadIdx.x == 0 && threadIdx.y == 0) *s.total += c.scale * sum;
}

}  // namespace

void softmax_cross_entropy(const CrossEntropy& call, cudaStream_t stream) {
  const long long rows = call.steps.rows();
  const unsigned ctas = static_cast<unsigned>((rows + kRowsPerCta - 1) / kRowsPerCta);
  cross_entropy_kernel<<<ctas, dim3(32, kRowsPerCta), 0, stream>>>(call);
  check_launch("softmax_cross_entropy", rows, call.classes);
}

bool SmallReadout::fits() const {
  return entropy.classes <= kSmallClasses &&
         static_cast<double>(entropy.steps.rows()) * entropy.classes * width <=
             kMostMultiplications;
}

void small_readout(const SmallReadout& call, cudaStream_t stream) {
  const long long rows = call.entropy.steps.rows();
  const unsigned ctas = static_cast<unsigned>((rows + kRowsPerCta - 1) / kRowsPerCta);
  launch("small_readout", rows, call.entropy.classes, small_readout_kernel,
         {dim3(ctas), dim3(32, kRowsPerCta)}, stream, call);
}

void add_losses(const double* losses, long long count, double scale, double* total,
                cudaStream_t stream) {
  add_losses_kernel<<<1, kLossThreads, 0, stream>>>(losses, count, scale, total);
  check_launch("add_losses", count, 1);
}

void normalize_weights(float* weights, long long count, cudaStream_t stream) {
  normalize_weights_kernel<<<1, kLossThreads, 0, stream>>>(weights, count);
  check_launch("normalize_weights", count, 1);
}

}  // namespace nru::kernels::cuda
