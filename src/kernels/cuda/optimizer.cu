#include "kernels/cuda/optimizer.h"

#include <cuda_runtime.h>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/math.cuh"

namespace nru::kernels::cuda {

struct Adam::Control {
  AdamReport report;
  // The numbers of the update in hand, rounded to float once.
  float gradient_scale, beta1, rest1, beta2, rest2, root_correction2, eps, minus_step_size,
      average_rate;
  int apply;
  unsigned ended;  // CTAs, while the norm is being formed; zero otherwise
};

namespace {

constexpr int kThreads = 256, kPerThread = 16, kBlock = kThreads * kPerThread;

int blocks(std::int64_t count) { return static_cast<int>((count + kBlock - 1) / kBlock); }

__device__ inline double cta_sum(double x, double* scratch) {
  scratch[threadIdx.x] = x;
  for (int n = blockDim.x / 2; n > 0; n /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < n) scratch[threadIdx.x] += scratch[threadIdx.x + n];
  }
  __syncthreads();
  return scratch[0];
}

// Makes the numbers of the update, from the sum of all squares and 1 - d^step for the three decays.
__device__ void decide(double sum, const double* loss, const AdamSettings& s, double max_norm,
                       const double* corrections, Adam::Control* control) {
  AdamReport& report = control->report;
  const double norm = sqrt(sum);
  report.norm = norm;
  const double most = report.caution.most_loss;
  control->apply = isfinite(norm) && (!loss || (isfinite(*loss) && (most == 0 || *loss <= most)));
  if (!control->apply) {
    ++report.skipped;
    ++report.skipped_in_row;
    return;
  }
  report.skipped_in_row = 0;
  ++report.steps;
  const double clip = max_norm == 0 ? 1.0 : max_norm / (norm + 1e-6);  // the 1e-6 is torch's
  control->gradient_scale = static_cast<float>(clip > 1 ? 1.0 : clip);
  control->beta1 = static_cast<float>(s.beta1);
  control->rest1 = static_cast<float>(1 - s.beta1);
  control->beta2 = static_cast<float>(s.beta2);
  control->rest2 = static_cast<float>(1 - s.beta2);
  control->root_correction2 = static_cast<float>(sqrt(corrections[1]));
  control->eps = static_cast<float>(s.eps);
  const double rate = learning_rate_at(s, report.steps);
  control->minus_step_size =
      static_cast<float>(-ldexp(rate, -static_cast<int>(report.caution.halvings)) / corrections[0]);
  control->average_rate = static_cast<float>((1 - s.average) / corrections[2]);
}

// Sum of squares of each block of elements. The CTA that ends last adds them up, in order of the
// threads, and decides.
__global__ void squares_kernel(const float* gradient, std::int64_t count, double* sums,
                               const double* loss, AdamSettings s, double max_norm,
                               Adam::Control* control) {
  __shared__ double scratch[kThreads];
  __shared__ double corrections[3];
  after_previous();
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kBlock + threadIdx.x;
  float g[kPerThread];
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const std::int64_t at = first + i * kThreads;
    g[i] = at < count ? gradient[at] : 0.f;
  }
  // While these are on their way: the powers take long, and any CTA may be the last.
  if (threadIdx.x == 32 || threadIdx.x == 64 || threadIdx.x == 96) {
    const int which = threadIdx.x / 32 - 1;
    const double decay = which == 0 ? s.beta1 : which == 1 ? s.beta2 : s.average;
    corrections[which] = 1 - pow(decay, static_cast<double>(control->report.steps + 1));
  }
  double sum = 0;
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) sum += static_cast<double>(g[i]) * static_cast<double>(g[i]);
  sum = cta_sum(sum, scratch);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
  if (!comes_last(&control->ended, gridDim.x)) return;
  sum = 0;
  for (unsigned i = threadIdx.x; i < gridDim.x; i += kThreads) sum += __ldcg(sums + i);
  sum = cta_sum(sum, scratch);
  if (threadIdx.x == 0) decide(sum, loss, s, max_norm, corrections, control);
}

// The order of the operations is that of the CPU.
__global__ void adam_kernel(const Adam::Control* control, const float* gradient, AdamState state,
                            std::int64_t count) {
  after_previous();
  if (!control->apply) return;
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  const float g = gradient[i] * control->gradient_scale;
  const float m1 = fmaf(g, control->rest1, state.m[i] * control->beta1);
  const float v1 = fmaf(control->rest2 * g, g, state.v[i] * control->beta2);
  float second = v1;
  if (state.v_max) {
    const float largest = state.v_max[i];
    second = largest >= v1 ? largest : v1;
    state.v_max[i] = second;
  }
  const float denominator = sqrtf(second) / control->root_correction2 + control->eps;
  state.m[i] = m1;
  state.v[i] = v1;
  const float parameter = state.parameter[i] + control->minus_step_size * m1 / denominator;
  state.parameter[i] = parameter;
  if (state.average) {
    const float average = state.average[i];
    state.average[i] = fmaf(control->average_rate, parameter - average, average);
  }
}

}  // namespace

Adam::Adam(const AdamSettings& settings, double max_norm, StreamHandle stream)
    : settings_(settings), max_norm_(max_norm), stream_(stream) {
  control_.require(1);
}

void Adam::update(const float* gradient, const double* loss, AdamState state, std::int64_t count) {
  if (count == 0) return;
  check_buffers(settings_, state);
  if (!settings_.amsgrad) state.v_max = nullptr;
  if (settings_.average == 0) state.average = nullptr;
  double* sums = sums_.require(blocks(count));
  launch("squares", count, 1, squares_kernel, {dim3(blocks(count)), dim3(kThreads)}, stream_,
         gradient, count, sums, loss, settings_, max_norm_, control_.data());
  const auto ctas = static_cast<unsigned>((count + kThreads - 1) / kThreads);
  launch("adam", count, 1, adam_kernel, {dim3(ctas), dim3(kThreads)}, stream_, control_.data(),
         gradient, state, count);
}

AdamReport Adam::report() {
  AdamReport report;
  download(&control_.data()->report, sizeof report, &report, stream_);
  return report;
}

const AdamReport* Adam::device_report() const { return &control_.data()->report; }

void Adam::resume(const AdamReport& earlier) {
  upload(&earlier, sizeof earlier, &control_.data()->report, stream_);
  wait(stream_);
}

}  // namespace nru::kernels::cuda
