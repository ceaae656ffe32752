// A CTA computes a tile of C. Chunks of the depth stream through shared memory (cp.async), several in
// flight at once: a small product is loaded as a whole, so that it costs one latency. Each warp holds
// the whole tile in registers and takes every few values of a chunk's depth; the warps' sums meet in
// shared memory at the end, added in a fixed order.
//
// The weights do not depend on the kernel before: their first chunks are on their way before this one
// waits for it (launch.cuh).
#include <algorithm>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/math.cuh"
#include "kernels/cuda/product.h"

namespace nru::kernels::cuda {
namespace {

constexpr int kLaneRows = 4, kLaneColumns = 8;  // a warp's lanes over the tile
constexpr int kChunk = 64;                      // values of the depth
// Between rows of a chunk: whole vectors, and eight rows' vectors lie in different banks.
constexpr int kStride = kChunk + 4;
constexpr int kVectors = kChunk / 4;  // of a row of a chunk

__device__ inline void copy_async(float* to, const float* from, bool valid) {
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  const int bytes = valid ? 16 : 0;  // the rest is filled with zeros
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(bytes));
}
__device__ inline void close_group() { asm volatile("cp.async.commit_group;"); }
template <int kLeft>
__device__ inline void wait_for_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

__device__ inline void multiply_add(const float4& a, const float4& b, float& sum) {
  sum = fmaf(a.x, b.x, sum);
  sum = fmaf(a.y, b.y, sum);
  sum = fmaf(a.z, b.z, sum);
  sum = fmaf(a.w, b.w, sum);
}

__device__ inline void finish(const Product& p, int row, int column, float value) {
  int o = 0;
  while (o < p.outputs && column >= p.output[o].width) column -= p.output[o++].width;
  if (o == p.outputs || row >= p.rows) return;
  const ProductOutput& out = p.output[o];
  const size_t at = static_cast<size_t>(row) * out.ld + column;
  if (out.accumulate) value += out.data[at];
  switch (out.finish) {
    case Finish::none:
      out.data[at] = value;
      break;
    case Finish::relu:
      out.data[at] = relu(value);
      break;
    case Finish::tanh:
      out.data[at] = tanhf(value);
      break;
    case Finish::relu_backward:
      out.d_pre[at] = relu_backward(out.h[at], value);
      break;
    case Finish::tanh_backward:
      out.d_pre[at] = tanh_backward(out.h[at], value);
      break;
  }
}

// Where a chunk lies: its input, and its first value of that and of the packed weights.
struct Chunk {
  int input = 0, first = 0, depth = 0;
  __device__ void advance(const Product& p) {
    const int ld = p.input[input].ld, step = min(kChunk, ld - first);
    first += step;
    depth += step;
    if (first == ld) {
      first = 0;
      ++input;
    }
  }
};

// Copies one chunk of kRows rows; row r begins at from(r).
template <int kRows, int kThreads, class From>
__device__ inline void load_rows(float* to, int valid, const From& from) {
#pragma unroll
  for (int first = 0; first < kRows * kVectors; first += kThreads) {
    const int at = first + threadIdx.x, row = at / kVectors, column = at % kVectors * 4;
    if (kRows * kVectors % kThreads != 0 && at >= kRows * kVectors) break;
    const bool inside = column < valid;
    copy_async(to + row * kStride + column, from(row) + (inside ? column : 0), inside);
  }
}

// kM x kN values per lane: tiles of 4 kM rows and 8 kN columns.
template <int kM, int kN, int kWarps, int kStages>
__global__ void __launch_bounds__(32 * kWarps) product_kernel(const Product p, int columns) {
  constexpr int kRows = kLaneRows * kM, kColumns = kLaneColumns * kN, kThreads = 32 * kWarps;
  constexpr int kStage = (kRows + kColumns) * kStride;
  extern __shared__ float4 shared4[];
  float* shared = reinterpret_cast<float*>(shared4);  // [stages][rows, then columns][kStride]
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int lane_row = lane / kLaneColumns, lane_column = lane % kLaneColumns;
  const int first_row = blockIdx.x * kRows, first_column = blockIdx.y * kColumns;

  int chunks = 0;
  for (int s = 0; s < p.inputs; ++s) chunks += (p.input[s].ld + kChunk - 1) / kChunk;
  // Rows and columns beyond the edge repeat the last one; their results are dropped.
  const auto load_weights = [&](const Chunk& c, int stage) {
    load_rows<kColumns, kThreads>(
        shared + stage * kStage + kRows * kStride, p.input[c.input].ld - c.first, [&](int column) {
          const int at = min(first_column + column, columns - 1);
          return p.weights + static_cast<size_t>(at) * p.depth + c.depth;
        });
  };
  const auto load_inputs = [&](const Chunk& c, int stage) {
    const ProductInput& in = p.input[c.input];
    load_rows<kRows, kThreads>(shared + stage * kStage, in.ld - c.first, [&](int row) {
      return in.data + static_cast<size_t>(min(first_row + row, p.rows - 1)) * in.ld + c.first;
    });
  };

  Chunk next;
  for (int i = 0; i < kStages - 1 && i < chunks; ++i, next.advance(p)) load_weights(next, i);
  after_previous();
  next = Chunk();
  for (int i = 0; i < kStages - 1; ++i) {
    if (i < chunks) {
      load_inputs(next, i);
      next.advance(p);
    }
    close_group();
  }

  float c[kM][kN] = {};
  for (int chunk = 0; chunk < chunks; ++chunk) {
    wait_for_groups<kStages - 2>();
    __syncthreads();  // the chunk is there, and all are done with the one before
    if (chunk + kStages - 1 < chunks) {
      const int stage = (chunk + kStages - 1) % kStages;
      load_weights(next, stage);
      load_inputs(next, stage);
      next.advance(p);
    }
    close_group();
    const float* rows = shared + chunk % kStages * kStage;
#pragma unroll
    for (int v = 0; v < kVectors; v += kWarps) {
      const float* a_at = rows + (v + warp) * 4;
      const float* b_at = a_at + kRows * kStride;
      float4 a[kM], b[kN];
#pragma unroll
      for (int i = 0; i < kM; ++i)
        a[i] = *reinterpret_cast<const float4*>(a_at + (lane_row + kLaneRows * i) * kStride);
#pragma unroll
      for (int j = 0; j < kN; ++j)
        b[j] = *reinterpret_cast<const float4*>(b_at + (lane_column + kLaneColumns * j) * kStride);
#pragma unroll
      for (int i = 0; i < kM; ++i) {
#pragma unroll
        for (int j = 0; j < kN; ++j) multiply_add(a[i], b[j], c[i][j]);
      }
    }
  }

  // As many of the tile's rows at a time as the shared memory holds of all warps.
  constexpr int kPasses = (kRows * kColumns * kWarps + kStages * kStage - 1) / (kStages * kStage);
  constexpr int kPassM = kM / kPasses, kTile = kLaneRows * kPassM * kColumns;
  static_assert(kPassM * kPasses == kM && kTile * kWarps <= kStages * kStage, "whole rows per pass");
#pragma unroll
  for (int pass = 0; pass < kPasses; ++pass) {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kPassM; ++i) {
#pragma unroll
      for (int j = 0; j < kN; ++j) {
        shared[warp * kTile + (lane_row + kLaneRows * i) * kColumns + lane_column +
               kLaneColumns * j] = c[pass * kPassM + i][j];
      }
    }
    __syncthreads();
    for (int at = threadIdx.x; at < kTile; at += kThreads) {
      float sum = 0;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) sum += shared[w * kTile + at];
      finish(p, first_row + pass * kPassM * kLaneRows + at / kColumns, first_column + at % kColumns,
             sum);
    }
  }
}

struct Tile {
  int rows, columns;
  // What a CTA's share of the work costs per four values of depth, in cycles: a warp loads kM + kN
  // vectors from shared memory, which takes some three cycles each, and multiplies kM x kN of them.
  int cost;
  void (*kernel)(Product, int);
  int threads;
  std::size_t bytes;
};

template <int kM, int kN, int kWarps, int kStages>
Tile tile() {
  Tile t{kLaneRows * kM, kLaneColumns * kN, std::max(3 * (kM + kN), kM * kN),
         product_kernel<kM, kN, kWarps, kStages>, 32 * kWarps, 0};
  t.bytes = sizeof(float) * kStages * (t.rows + t.columns) * kStride;
  allow_shared_memory("product", reinterpret_cast<const void*>(t.kernel), t.bytes);
  return t;
}

int multiprocessors() {
  static const int count = [] {
    int device = 0, value = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    check(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, device),
          "cudaDeviceGetAttribute");
    return value;
  }();
  return count;
}

int ceil_divide(int a, int b) { return (a + b - 1) / b; }

constexpr int kMaxPackBlocks = 16;
struct PackBlocks {
  PackBlock block[kMaxPackBlocks];
};

// Tiles of 32 x 32 through shared memory: reads and writes are coalesced in both orientations.
__global__ void pack_kernel(const PackBlocks blocks) {
  __shared__ float tile[32][33];
  const PackBlock& b = blocks.block[blockIdx.y];
  const int across = (b.columns + 31) / 32, tiles = across * ((b.rows + 31) / 32);
  for (int t = blockIdx.x; t < tiles; t += gridDim.x) {
    const int row = t / across * 32, column = t % across * 32;
    const bool by_column = b.row_step == 1;  // neighbours in memory are neighbours of a column
    for (int y = threadIdx.y; y < 32; y += blockDim.y) {
      const int i = row + (by_column ? threadIdx.x : y), j = column + (by_column ? y : threadIdx.x);
      if (i < b.rows && j < b.columns)
        tile[i - row][j - column] =
            b.from[static_cast<size_t>(i) * b.row_step + static_cast<size_t>(j) * b.column_step];
    }
    __syncthreads();
    for (int y = threadIdx.y; y < 32; y += blockDim.y) {
      const int i = row + y, j = column + threadIdx.x;
      if (i < b.rows && j < b.columns) b.to[static_cast<size_t>(i) * b.ld + j] = tile[y][threadIdx.x];
    }
    __syncthreads();
  }
}

}  // namespace

// The tile whose CTAs take the fewest rounds over the multiprocessors, weighed by what a round costs.
void run_product(const Product& product, cudaStream_t stream) {
  static const Tile tiles[] = {tile<4, 2, 16, 8>(), tile<4, 4, 16, 6>(), tile<8, 4, 8, 4>(),
                               tile<8, 8, 8, 3>()};
  const int columns = product.columns();
  const Tile* best = nullptr;
  int least = 0;
  for (const Tile& t : tiles) {
    const int ctas = ceil_divide(product.rows, t.rows) * ceil_divide(columns, t.columns);
    const int cost = ceil_divide(ctas, multiprocessors()) * t.cost;
    if (!best || cost < least) {
      best = &t;
      least = cost;
    }
  }
  const dim3 grid(ceil_divide(product.rows, best->rows), ceil_divide(columns, best->columns));
  launch("product", product.rows, columns, best->kernel, {grid, dim3(best->threads), best->bytes},
         stream, product, columns);
}

void pack_blocks(const std::vector<PackBlock>& blocks, cudaStream_t stream) {
  for (std::size_t first = 0; first < blocks.size(); first += kMaxPackBlocks) {
    const int count = static_cast<int>(std::min<std::size_t>(kMaxPackBlocks, blocks.size() - first));
    PackBlocks some;
    int largest = 1;
    for (int i = 0; i < count; ++i) {
      some.block[i] = blocks[first + i];
      largest = std::max(largest, ceil_divide(some.block[i].rows, 32) *
                                      ceil_divide(some.block[i].columns, 32));
    }
    pack_kernel<<<dim3(std::min(largest, 256), count), dim3(32, 8), 0, stream>>>(some);
    check_launch("pack", blocks[first].rows, blocks[first].columns);
  }
}

}  // namespace nru::kernels::cuda
