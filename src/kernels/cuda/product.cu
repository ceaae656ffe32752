// A CTA computes a tile of C. Its warps share out the depth, sector by sector, so that all of a
// tile's loads are in flight at once; each warp holds the whole tile in registers, and the warps'
// sums meet in shared memory, added in a fixed order.
#include <algorithm>

#include "kernels/cuda/check.h"
#include "kernels/cuda/product.h"

namespace nru::kernels::cuda {
namespace {

constexpr int kLaneRows = 4, kLaneColumns = 8;  // a warp's lanes over the tile
constexpr int kUnit = 8;                        // values of a row that a warp takes at a time
constexpr int kSums = 8192;                     // floats of shared memory

__device__ inline void multiply_add(const float4& a, const float4& b, float& sum) {
  sum = fmaf(a.x, b.x, sum);
  sum = fmaf(a.y, b.y, sum);
  sum = fmaf(a.z, b.z, sum);
  sum = fmaf(a.w, b.w, sum);
}

__device__ inline void store(const Product& p, int row, int column, float value) {
  int o = 0;
  while (o < p.outputs && column >= p.output[o].width) column -= p.output[o++].width;
  if (o == p.outputs || row >= p.rows) return;
  float* to = p.output[o].data + static_cast<size_t>(row) * p.output[o].ld + column;
  *to = p.output[o].accumulate ? *to + value : value;
}

// kM x kN values per lane: tiles of 4 kM rows and 8 kN columns.
template <int kM, int kN, int kWarps>
__global__ void __launch_bounds__(32 * kWarps) product_kernel(const Product p, int columns) {
  constexpr int kRows = kLaneRows * kM, kColumns = kLaneColumns * kN;
  __shared__ float sums[kSums];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int lane_row = lane / kLaneColumns, lane_column = lane % kLaneColumns;
  const int first_row = blockIdx.x * kRows, first_column = blockIdx.y * kColumns;

  // Rows and columns beyond the edge repeat the last one; their results are dropped.
  int rows[kM];
  const float* weights[kN];
  for (int i = 0; i < kM; ++i)
    rows[i] = min(first_row + lane_row + kLaneRows * i, p.rows - 1);
  for (int j = 0; j < kN; ++j) {
    const int column = min(first_column + lane_column + kLaneColumns * j, columns - 1);
    weights[j] = p.weights + static_cast<size_t>(column) * p.depth;
  }

  float c[kM][kN] = {};
  int unit = warp, offset = 0;
  for (int s = 0; s < p.inputs; ++s) {
    const float* data = p.input[s].data;
    const int ld = p.input[s].ld, units = ld / kUnit;
    for (; unit < units; unit += kWarps) {
      const int k = unit * kUnit;
#pragma unroll
      for (int half = 0; half < kUnit; half += 4) {
        float4 a[kM], b[kN];
#pragma unroll
        for (int i = 0; i < kM; ++i)
          a[i] = *reinterpret_cast<const float4*>(data + static_cast<size_t>(rows[i]) * ld + k + half);
#pragma unroll
        for (int j = 0; j < kN; ++j)
          b[j] = __ldg(reinterpret_cast<const float4*>(weights[j] + offset + k + half));
#pragma unroll
        for (int i = 0; i < kM; ++i) {
#pragma unroll
          for (int j = 0; j < kN; ++j) multiply_add(a[i], b[j], c[i][j]);
        }
      }
    }
    unit -= units;
    offset += ld;
  }

  // As many of the tile's rows at a time as the shared memory holds of all warps.
  constexpr int kPasses = (kRows * kColumns * kWarps + kSums - 1) / kSums;
  constexpr int kPassM = kM / kPasses, kTile = kLaneRows * kPassM * kColumns;
  static_assert(kPassM * kPasses == kM && kTile * kWarps <= kSums, "whole rows per pass");
#pragma unroll
  for (int pass = 0; pass < kPasses; ++pass) {
    if (pass > 0) __syncthreads();
#pragma unroll
    for (int i = 0; i < kPassM; ++i) {
#pragma unroll
      for (int j = 0; j < kN; ++j) {
        sums[warp * kTile + (lane_row + kLaneRows * i) * kColumns + lane_column + kLaneColumns * j] =
            c[pass * kPassM + i][j];
      }
    }
    __syncthreads();
    for (int at = threadIdx.x; at < kTile; at += 32 * kWarps) {
      float sum = 0;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) sum += sums[w * kTile + at];
      store(p, first_row + pass * kPassM * kLaneRows + at / kColumns, first_column + at % kColumns,
            sum);
    }
  }
}

struct Tile {
  int rows, columns;
  // What a CTA's share of the work costs per four values of depth, in cycles of the L1 cache: a lane
  // loads kM + kN vectors.
  int cost;
  void (*kernel)(Product, int);
  int threads;
};

template <int kM, int kN, int kWarps>
constexpr Tile tile() {
  return {kLaneRows * kM, kLaneColumns * kN, kM + kN, product_kernel<kM, kN, kWarps>, 32 * kWarps};
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
  static const Tile tiles[] = {tile<4, 2, 16>(), tile<4, 4, 16>(), tile<8, 4, 8>(),
                               tile<8, 8, 8>()};
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
  best->kernel<<<grid, best->threads, 0, stream>>>(product, columns);
  check_launch("product", product.rows, columns);
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
