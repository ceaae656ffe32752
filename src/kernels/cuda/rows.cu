#include "kernels/cuda/rows.h"

#include <algorithm>

#include "kernels/cuda/check.h"
#include "kernels/cuda/each.cuh"
#include "kernels/cuda/math.cuh"
#include "kernels/cuda/steps.cuh"

namespace nru::kernels::cuda {
namespace {

struct Fill {
  float* to;
  int ld;
  const float* values;
  __device__ void operator()(long long row, int j) const {
    to[row * ld + j] = values ? values[j] : 0.f;
  }
};

struct Copy {
  const float* from;
  float* to;
  int from_ld, to_ld;
  float otherwise;
  __device__ void operator()(long long row, int j) const {
    to[row * to_ld + j] = from ? from[row * from_ld + j] : otherwise;
  }
};

struct LoadInput {
  Steps steps;
  const float* dense;
  const std::int32_t* symbols;
  int width;
  float* to;
  __device__ void operator()(long long row, int j) const {
    to[row * width + j] = input_value(steps, dense, symbols, width, row, j);
  }
};

struct Gather {
  Steps steps;
  const std::int32_t* symbols;
  const float* table;
  int width;
  float* to;
  __device__ void operator()(long long row, int j) const {
    to[row * width + j] = finished(steps, row) ? 0.f : table[symbols[row] * width + j];
  }
};

struct CopySteps {
  Steps steps;
  bool zero_finished;
  const float* from;
  float* to;
  int from_ld, to_ld;
  __device__ void operator()(long long row, int j) const {
    to[row * to_ld + j] = zero_finished && finished(steps, row) ? 0.f : from[row * from_ld + j];
  }
};

struct Hold {
  HeldStates states;
  int step;
  const std::int64_t* lengths;
  __device__ void operator()(long long row, int j) const {
    const bool idle = finished(lengths, static_cast<int>(row), step);
    if (j < kEvents) {
      const long long at = row * kEvents + j;
      idle ? states.events[at] = states.events_before[at]
           : states.events_before[at] = states.events[at];
    }
    if (!idle) return;
    for (int s = 0; s < states.count; ++s) {
      if (j < states.ld[s])
        states.after[s][row * states.ld[s] + j] = states.before[s][row * states.ld[s] + j];
    }
  }
};

struct Enter {
  EnteringParts parts;
  int step, steps;
  const std::int64_t* lengths;
  __device__ void operator()(long long row, int j) const {
    const int last = (lengths ? static_cast<int>(lengths[row]) : steps) - 1;
    for (int i = 0; i < parts.count; ++i) {
      const EnteringPart& p = parts.part[i];
      if (j >= p.width) continue;
      float* g = p.gradient + row * p.ld + j;
      float value = 0;
      if (step <= last) {
        if (step == last) {
          if (p.final) value = p.final[row * p.width + j];
        } else if (p.keep) {
          value = *g;
        }
        if (p.bulk) value += p.bulk[row * p.ld + j];
      }
      *g = value;
    }
  }
};

// A warp per row. In double: squares may leave the range of float.
__global__ void limit_rows_kernel(const LimitedParts parts, double limit) {
  after_previous();
  const long long row = blockIdx.x;
  double sum = 0;
  for (int i = 0; i < parts.count; ++i) {
    const LimitedPart& p = parts.part[i];
    for (int j = threadIdx.x; j < p.width; j += 32) {
      const double g = p.gradient[row * p.ld + j];
      sum += g * g;
    }
  }
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(kAllLanes, sum, d);
  if (!(sum > limit * limit)) return;
  const float scale = static_cast<float>(limit / sqrt(sum));
  for (int i = 0; i < parts.count; ++i) {
    const LimitedPart& p = parts.part[i];
    for (int j = threadIdx.x; j < p.width; j += 32) p.gradient[row * p.ld + j] *= scale;
  }
}

// Sums of columns in two rounds: of blocks of rows, then of the blocks.
constexpr int kSumColumns = 32, kSumLanes = 8, kSumRows = 256;

__global__ void column_sums_kernel(const float* from, int ld, int width, long long rows,
                                   int block_rows, float* to) {
  __shared__ float sums[kSumLanes][kSumColumns];
  const int j = blockIdx.x * kSumColumns + threadIdx.x;
  const long long first = static_cast<long long>(blockIdx.y) * block_rows;
  const long long last = min(first + block_rows, rows);
  float sum = 0;
  if (j < width) {
    for (long long r = first + threadIdx.y; r < last; r += kSumLanes) sum += from[r * ld + j];
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y == 0 && j < width) {
    for (int i = 1; i < kSumLanes; ++i) sum += sums[i][threadIdx.x];
    to[static_cast<size_t>(blockIdx.y) * width + j] = sum;
  }
}

// No rows at all sum up to zero, in one block.
long long sum_blocks(long long rows) {
  return std::max<long long>(1, (rows + kSumRows - 1) / kSumRows);
}

__global__ void largest_magnitude_kernel(const Steps steps, const float* from, int ld, int width,
                                         unsigned* result) {
  __shared__ unsigned warps[32];
  unsigned largest = 0;
  for (long long row = blockIdx.x; row < steps.rows(); row += gridDim.x) {
    if (finished(steps, row)) continue;
    for (int j = threadIdx.x; j < width; j += blockDim.x)
      largest = max(largest, magnitude_bits(from[row * ld + j]));
  }
  largest = __reduce_max_sync(0xffffffffu, largest);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = largest;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < static_cast<int>(blockDim.x) / 32; ++w) largest = max(largest, warps[w]);
    atomicMax(result, largest);  // of integers: the order does not matter
  }
}

}  // namespace

void fill_rows(float* to, int ld, int width, long long rows, const float* values,
               cudaStream_t stream) {
  for_each("fill_rows", rows, width, stream, Fill{to, ld, values});
}

void copy_rows(const float* from, int from_ld, float* to, int to_ld, int width, long long rows,
               cudaStream_t stream, float otherwise) {
  for_each("copy_rows", rows, width, stream, Copy{from, to, from_ld, to_ld, otherwise});
}

void load_input(const Steps& steps, const float* dense, const std::int32_t* symbols, int width,
                float* to, cudaStream_t stream) {
  for_each("load_input", steps.rows(), width, stream, LoadInput{steps, dense, symbols, width, to});
}

void gather_rows(const Steps& steps, const std::int32_t* symbols, const float* table, int width,
                 float* to, cudaStream_t stream) {
  symbols += static_cast<size_t>(steps.begin) * steps.batch;
  for_each("gather_rows", steps.rows(), width, stream, Gather{steps, symbols, table, width, to});
}

void copy_steps_out(const Steps& steps, bool zero_finished, const float* from, int ld, int width,
                    float* to, cudaStream_t stream) {
  to += static_cast<size_t>(steps.begin) * steps.batch * width;
  for_each("copy_steps_out", steps.rows(), width, stream,
           CopySteps{steps, zero_finished, from, to, ld, width});
}

void copy_steps_in(const Steps& steps, const float* from, int width, float* to, int ld,
                   cudaStream_t stream) {
  from += static_cast<size_t>(steps.begin) * steps.batch * width;
  for_each("copy_steps_in", steps.rows(), width, stream,
           CopySteps{steps, true, from, to, width, ld});
}

void hold_finished_rows(const HeldStates& states, int step, int batch, const std::int64_t* lengths,
                        cudaStream_t stream) {
  int widest = 0;
  for (int s = 0; s < states.count; ++s) widest = std::max(widest, states.ld[s]);
  for_each("hold_finished_rows", batch, widest, stream, Hold{states, step, lengths});
}

void enter_step(const EnteringParts& parts, int step, int steps, int batch,
                const std::int64_t* lengths, cudaStream_t stream) {
  int widest = 0;
  for (int i = 0; i < parts.count; ++i) widest = std::max(widest, parts.part[i].width);
  for_each("enter_step", batch, widest, stream, Enter{parts, step, steps, lengths});
}

void limit_rows(const LimitedParts& parts, int batch, double limit, cudaStream_t stream) {
  launch("limit_rows", batch, parts.count, limit_rows_kernel, {dim3(batch), dim3(32)}, stream,
         parts, limit);
}

std::size_t column_sums_scratch(int width, long long rows) {
  std::size_t values = 0;
  for (long long n = rows; n > kSumRows;) {
    n = sum_blocks(n);
    values += static_cast<std::size_t>(n) * width;
  }
  return values;
}

void column_sums(const float* from, int ld, int width, long long rows, float* scratch, float* to,
                 cudaStream_t stream) {
  if (width == 0) return;
  const int across = (width + kSumColumns - 1) / kSumColumns;
  while (true) {
    const long long blocks = sum_blocks(rows);
    float* next = blocks > 1 ? scratch : to;
    const dim3 grid(across, static_cast<unsigned>(blocks));
    column_sums_kernel<<<grid, dim3(kSumColumns, kSumLanes), 0, stream>>>(from, ld, width, rows,
                                                                          kSumRows, next);
    check_launch("column_sums", rows, width);
    if (blocks == 1) return;
    from = next;
    ld = width;
    rows = blocks;
    scratch += static_cast<size_t>(blocks) * width;
  }
}

void largest_magnitude(const Steps& steps, const float* from, int ld, int width, unsigned* result,
                       cudaStream_t stream) {
  const int blocks = static_cast<int>(std::min<long long>(steps.rows(), 512));
  largest_magnitude_kernel<<<blocks, 256, 0, stream>>>(steps, from, ld, width, result);
  check_launch("largest_magnitude", steps.rows(), width);
}

}  // namespace nru::kernels::cuda
