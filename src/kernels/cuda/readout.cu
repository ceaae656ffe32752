#include "kernels/cuda/readout.h"

#include <cfloat>

#include "kernels/cuda/check.h"
#include "kernels/cuda/math.cuh"

namespace nru::kernels::cuda {
namespace {

constexpr int kRowsPerCta = 4;  // a warp per row

__device__ inline float warp_max(float x) {
  for (int d = 16; d > 0; d /= 2) x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, d));
  return x;
}

__global__ void cross_entropy_kernel(const CrossEntropy c) {
  const long long row = static_cast<long long>(blockIdx.x) * kRowsPerCta + threadIdx.y;
  if (row >= c.steps.rows()) return;
  const int lane = threadIdx.x, batch_row = static_cast<int>(row % c.steps.batch);
  const int step = c.steps.begin + static_cast<int>(row / c.steps.batch);
  const long long position = static_cast<long long>(c.steps.begin) * c.steps.batch + row;
  float* z = c.logits + row * c.classes;

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

constexpr int kLossThreads = 1024;

// The sum of all values, for all kLossThreads threads of the one CTA.
template <class T>
__device__ double ordered_sum(const T* values, long long count) {
  __shared__ double sums[kLossThreads];
  double sum = 0;
  for (long long i = threadIdx.x; i < count; i += kLossThreads) sum += values[i];
  sums[threadIdx.x] = sum;
  for (int n = kLossThreads / 2; n > 0; n /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < n) sums[threadIdx.x] += sums[threadIdx.x + n];
  }
  __syncthreads();
  return sums[0];
}

__global__ void add_losses_kernel(const double* losses, long long count, double scale,
                                  double* total) {
  const double sum = ordered_sum(losses, count);
  if (threadIdx.x == 0) *total += scale * sum;
}

__global__ void normalize_weights_kernel(float* weights, long long count) {
  const double scale = 1 / ordered_sum(weights, count);
  for (long long i = threadIdx.x; i < count; i += kLossThreads)
    weights[i] = static_cast<float>(weights[i] * scale);
}

}  // namespace

void softmax_cross_entropy(const CrossEntropy& call, cudaStream_t stream) {
  const long long rows = call.steps.rows();
  const unsigned ctas = static_cast<unsigned>((rows + kRowsPerCta - 1) / kRowsPerCta);
  cross_entropy_kernel<<<ctas, dim3(32, kRowsPerCta), 0, stream>>>(call);
  check_launch("softmax_cross_entropy", rows, call.classes);
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
