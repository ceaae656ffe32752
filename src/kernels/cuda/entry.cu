#include "kernels/cuda/entry.h"

#include <algorithm>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/steps.cuh"

namespace nru::kernels::cuda {
namespace {

constexpr int kThreads = 256, kRows = 8;  // rows of a CTA

__global__ void start_kernel(const __grid_constant__ SequenceStart s) {
  after_previous();
  const int row = blockIdx.x, j = threadIdx.x;
  for (int i = 0; i < s.states; ++i) {
    const SequenceStart::State& state = s.state[i];
    for (int c = j; c < state.width; c += blockDim.x) {
      state.to[static_cast<size_t>(row) * state.ld + c] =
          state.from ? state.from[static_cast<size_t>(row) * state.width + c] : state.otherwise;
    }
  }
  if (j < 2 * kEvents) s.events[row * 2 * kEvents + j] = 0;  // two tables, row by row
  if (row != 0) return;
  if (j == 0) *s.loss = 0;
  for (int p = j; p < s.parts; p += blockDim.x) s.largest[p] = 0;
}

__global__ void __launch_bounds__(kThreads)
    input_share_kernel(const __grid_constant__ InputShare s) {
  __shared__ float x[kRows][InputShare::kMaxWidth];
  after_previous();
  const long long first = static_cast<long long>(blockIdx.x) * kRows;
  const int rows = static_cast<int>(min(static_cast<long long>(kRows), s.steps.rows() - first));
  for (int e = threadIdx.x; e < kRows * s.input; e += kThreads) {
    const int r = e / s.input, i = e % s.input;
    float value = 0;
    if (r < rows) {
      value = input_value(s.steps, s.dense, s.symbols, s.input, first + r, i);
      if (s.x) s.x[(first + r) * s.input + i] = value;
    }
    x[r][i] = value;
  }
  __syncthreads();
  for (int p = 0; p < s.phases; ++p) {
    const InputShare::Phase& phase = s.phase[p];
    for (int j = threadIdx.x; j < phase.width; j += kThreads) {
      const float bias = phase.bias ? phase.bias[j] : 0.f;
      float sum[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r) sum[r] = bias;
      const float* w = phase.weights + static_cast<size_t>(j) * phase.ld_weights;
      for (int i = 0; phase.weights && i < s.input; ++i) {
        const float weight = w[i];
#pragma unroll
        for (int r = 0; r < kRows; ++r) sum[r] = fmaf(x[r][i], weight, sum[r]);
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (r < rows) phase.pre[(first + r) * phase.ld + j] = sum[r];
      }
    }
  }
}

constexpr int kMostWeights = 8192;  // that a CTA reads for its few rows

}  // namespace

bool InputShare::fits(const Program<float>& program) {
  const int input = program.parts[kInput].width;
  int outputs = 0;
  for (const auto& phase : program.phases) {
    const auto reads = std::count_if(phase.segments.begin(), phase.segments.end(),
                                     [](const Segment& s) { return s.part == kInput; });
    if (reads > 1) return false;
    if (reads == 1) outputs += program.parts[phase.part].width;
  }
  return input <= kMaxWidth && program.phases.size() <= kMaxPhases &&
         input * outputs <= kMostWeights;
}

void start_sequence(const SequenceStart& start, cudaStream_t stream) {
  int widest = 2 * kEvents;
  for (int i = 0; i < start.states; ++i) widest = std::max(widest, start.state[i].width);
  const int threads = std::min(1024, (widest + 31) / 32 * 32);
  launch("start_sequence", start.batch, widest, start_kernel, {dim3(start.batch), dim3(threads)},
         stream, start);
}

void input_share(const InputShare& share, cudaStream_t stream) {
  const auto ctas = static_cast<unsigned>((share.steps.rows() + kRows - 1) / kRows);
  launch("input_share", share.steps.rows(), share.input, input_share_kernel,
         {dim3(ctas), dim3(kThreads)}, stream, share);
}

}  // namespace nru::kernels::cuda
