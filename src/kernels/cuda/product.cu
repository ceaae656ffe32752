// A CTA of eight warps computes a tile of C. Chunks of the depth stream through shared memory
// (cp.async), several in flight at once: a small product is loaded as a whole, so that it costs one
// latency. Each warp holds the whole tile in registers and takes every eighth slice of the depth;
// the warps' sums meet in shared memory at the end, added in a fixed order.
//
// The multiplications run on the tensor cores, and yet are those of float: see tensor.cuh. Each
// slice's products are summed on their own and then added to the rest in float.
//
// Two things about latency. The weights do not depend on the kernel before: their first chunks are
// on their way before this one waits for it (launch.cuh). That is safe because pack_blocks() is not
// the kernel before: fill_rows() comes in between, and has waited for it. And the code is kept
// short, with loops where one would unroll: a kernel of a few microseconds pays for every
// instruction that it has to fetch.
#include <algorithm>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/math.cuh"
#include "kernels/cuda/product.h"
#include "kernels/cuda/tensor.cuh"

namespace nru::kernels::cuda {
namespace {

constexpr int kWarps = 8, kThreads = 32 * kWarps;
constexpr int kChunk = 128, kSlice = 8;  // values of the depth
// Between rows of a chunk: whole vectors, and eight rows' vectors lie in different banks.
constexpr int kStride = kChunk + 4;
constexpr int kVectors = kChunk / 4;              // of a row of a chunk
constexpr int kRowsAtOnce = kThreads / kVectors;  // that all threads copy, a vector each

__device__ inline void copy_async(float* to, const float* from, bool valid) {
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  const int bytes = valid ? 16 : 0;  // the rest is filled with zeros
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
               "r"(bytes));
}
__device__ inline void close_group() { asm volatile("cp.async.commit_group;"); }
template <int kLeft>
__device__ inline void wait_for_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

// A warp's sums of a tile of 16 kM rows and 8 kN columns, in the layout of the tensor cores'
// m16n8k8: lane 4 g + t holds rows g and g + 8, columns 2 t and 2 t + 1 of each 16 x 8 block.
template <int kM, int kN>
struct TileSums {
  static constexpr int kRows = 16 * kM, kColumns = 8 * kN;
  float c[kM][kN][4] = {};

  // Adds a slice; `rows` is its first value in a chunk's [kRows + kColumns, kStride].
  __device__ void add(const float* rows) {
    const int lane = threadIdx.x % 32;
    const float* a_at = rows + lane / 4 * kStride + lane % 4;
    const float* b_at = a_at + kRows * kStride;
    Pair a[kM][4], b[kN][2];
#pragma unroll
    for (int i = 0; i < kM; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) a[i][e] = Pair(a_at[(16 * i + e % 2 * 8) * kStride + e / 2 * 4]);
    }
#pragma unroll
    for (int j = 0; j < kN; ++j) {
#pragma unroll
      for (int e = 0; e < 2; ++e) b[j][e] = Pair(b_at[8 * j * kStride + e * 4]);
    }
#pragma unroll
    for (int i = 0; i < kM; ++i) {
#pragma unroll
      for (int j = 0; j < kN; ++j) {
        float d[4] = {};
        multiply_add(d, a[i][0].small, a[i][1].small, a[i][2].small, a[i][3].small, b[j][0].big,
                     b[j][1].big);
        multiply_add(d, a[i][0].big, a[i][1].big, a[i][2].big, a[i][3].big, b[j][0].small,
                     b[j][1].small);
        multiply_add(d, a[i][0].big, a[i][1].big, a[i][2].big, a[i][3].big, b[j][0].big,
                     b[j][1].big);
#pragma unroll
        for (int e = 0; e < 4; ++e) c[i][j][e] += d[e];
      }
    }
  }

  __device__ void store(float* to) const {  // [kRows, kColumns]
    const int lane = threadIdx.x % 32;
    to += lane / 4 * kColumns + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < kM; ++i) {
#pragma unroll
      for (int j = 0; j < kN; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e)
          to[(16 * i + e / 2 * 8) * kColumns + 8 * j + e % 2] = c[i][j][e];
      }
    }
  }
};

// Not inlined: most products have no finish, and the code of all of them is long.
__device__ __noinline__ float finished(Finish finish, float value, const float* h) {
  switch (finish) {
    case Finish::relu:
      return relu(value);
    case Finish::tanh:
      return tanhf(value);
    case Finish::relu_backward:
      return relu_backward(*h, value);
    case Finish::tanh_backward:
      return tanh_backward(*h, value);
    default:
      return value;
  }
}

// A thread's share of loading a tile: one vector's place in a chunk, in some rows of A and of W.
// Rows and columns beyond the edge repeat the last one; their results are dropped.
template <int kRows, int kColumns>
struct Loader {
  static constexpr int kA = kRows / kRowsAtOnce, kW = kColumns / kRowsAtOnce;
  const Product& p;
  int row, column;  // of the first row's vector
  int first_row;
  float* to;
  const float* w[kW];
  const float* a[kA];
  int input = -1, end = 0;  // the input that a[] points into, and where in the depth it ends

  __device__ Loader(const Product& product, int first_row, int first_column, int columns,
                    float* shared)
      : p(product),
        row(threadIdx.x / kVectors),
        column(threadIdx.x % kVectors * 4),
        first_row(first_row),
        to(shared + row * kStride + column) {
#pragma unroll
    for (int i = 0; i < kW; ++i) {
      const int at = min(first_column + row + i * kRowsAtOnce, columns - 1);
      w[i] = p.weights + static_cast<size_t>(at) * p.depth;
    }
  }
  __device__ void weights(int chunk, float* stage) {
    const int k = chunk * kChunk + column;
    const bool inside = k < p.depth;
#pragma unroll
    for (int i = 0; i < kW; ++i)
      copy_async(stage + (kRows + i * kRowsAtOnce) * kStride, w[i] + (inside ? k : 0), inside);
  }
  __device__ void inputs(int chunk, float* stage) {
    const int k = chunk * kChunk + column;
    const bool inside = k < p.depth;
    while (inside && k >= end) {  // on to the next input
      const ProductInput in = p.input[++input];
#pragma unroll
      for (int i = 0; i < kA; ++i)
        a[i] = in.data + min(first_row + row + i * kRowsAtOnce, p.rows - 1) * in.ld - end;
      end += in.ld;
    }
#pragma unroll
    for (int i = 0; i < kA; ++i)
      copy_async(stage + i * kRowsAtOnce * kStride, inside ? a[i] + k : p.weights, inside);
  }
};

template <int kM, int kN, int kStages>
__global__ void __launch_bounds__(kThreads) product_kernel(const Product p, int columns) {
  using Sums = TileSums<kM, kN>;
  constexpr int kRows = Sums::kRows, kColumns = Sums::kColumns;
  constexpr int kStage = (kRows + kColumns) * kStride;
  extern __shared__ float4 shared4[];
  float* shared = reinterpret_cast<float*>(shared4);  // [stages][rows, then columns][kStride]
  const int first_row = blockIdx.x * kRows, first_column = blockIdx.y * kColumns;
  const int chunks = (p.depth + kChunk - 1) / kChunk;
  Loader<kRows, kColumns> load(p, first_row, first_column, columns, shared);
#pragma unroll 1
  for (int i = 0; i < kStages - 1 && i < chunks; ++i) load.weights(i, load.to + i * kStage);
  after_previous();
#pragma unroll 1
  for (int i = 0; i < kStages - 1; ++i) {
    if (i < chunks) load.inputs(i, load.to + i * kStage);
    close_group();
  }

  // This thread's share of the results: one column, every few rows. What is there already is on its
  // way while the sums are formed.
  constexpr int kResultRows = kThreads / kColumns, kResults = kRows / kResultRows;
  const int row = first_row + threadIdx.x / kColumns;
  int column = first_column + threadIdx.x % kColumns, o = 0;
  while (o < p.outputs && column >= p.output[o].width) column -= p.output[o++].width;
  const ProductOutput out = p.output[min(o, p.outputs - 1)];
  const size_t at = static_cast<size_t>(row) * out.ld + column;
  float value[kResults];
#pragma unroll
  for (int i = 0; i < kResults; ++i) {
    const bool there = out.accumulate && o < p.outputs && row + i * kResultRows < p.rows;
    value[i] = there ? out.data[at + static_cast<size_t>(i * kResultRows) * out.ld] : 0.f;
  }

  Sums sums;
  const int warp = threadIdx.x / 32;
#pragma unroll 1
  for (int chunk = 0; chunk < chunks; ++chunk) {
    wait_for_groups<kStages - 2>();
    __syncthreads();  // the chunk is there, and all are done with the one before
    const int next = chunk + kStages - 1;
    if (next < chunks) {
      load.weights(next, load.to + next % kStages * kStage);
      load.inputs(next, load.to + next % kStages * kStage);
    }
    close_group();
    const float* stage = shared + chunk % kStages * kStage;
    const int slices = min(kChunk, p.depth - chunk * kChunk) / kSlice;
#pragma unroll 1
    for (int s = warp; s < slices; s += kWarps) sums.add(stage + s * kSlice);
  }

  release_next();
  __syncthreads();
  static_assert(kRows * kColumns * kWarps <= kStages * kStage, "the sums take the chunks' place");
  sums.store(shared + warp * kRows * kColumns);
  __syncthreads();
  if (o >= p.outputs) return;
#pragma unroll
  for (int i = 0; i < kResults; ++i) {
    if (row + i * kResultRows >= p.rows) break;
#pragma unroll
    for (int w = 0; w < kWarps; ++w)
      value[i] += shared[w * kRows * kColumns + i * kThreads + threadIdx.x];
    const size_t to = at + static_cast<size_t>(i * kResultRows) * out.ld;
    if (out.finish != Finish::none) value[i] = finished(out.finish, value[i], out.h + to);
    (out.d_pre ? out.d_pre : out.data)[to] = value[i];
  }
}

struct Tile {
  int rows, columns;
  void (*kernel)(Product, int);
  std::size_t bytes;
};

template <int kM, int kN, int kStages>
Tile tile() {
  Tile t{16 * kM, 8 * kN, product_kernel<kM, kN, kStages>, 0};
  t.bytes = sizeof(float) * kStages * (t.rows + t.columns) * kStride;
  return t;
}

// The first one fits all that the library is built for.
const std::vector<Tile>& tiles() {
  static const std::vector<Tile> all = {tile<1, 2, 4>(), tile<1, 4, 4>(), tile<2, 4, 3>(),
                                        tile<2, 8, 3>()};
  return all;
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
      if (i < b.rows && j < b.columns)
        b.to[static_cast<size_t>(i) * b.ld + j] = tile[y][threadIdx.x];
    }
    __syncthreads();
  }
}

}  // namespace

// The tile whose CTAs take the fewest rounds over the multiprocessors, weighed by what a round
// costs: the values that a CTA loads.
void run_product(const Product& product, cudaStream_t stream) {
  const DeviceLimits limits = device_limits();
  const int multiprocessors = std::max(1, limits.multiprocessors);  // none: the launch says why
  const int columns = product.columns();
  const Tile* best = nullptr;
  int least = 0;
  for (const Tile& t : tiles()) {
    if (best && t.bytes > static_cast<std::size_t>(limits.shared_bytes)) continue;
    const int ctas = ceil_divide(product.rows, t.rows) * ceil_divide(columns, t.columns);
    const int cost = ceil_divide(ctas, multiprocessors) * (t.rows + t.columns);
    if (!best || cost < least) {
      best = &t;
      least = cost;
    }
  }
  allow_shared_memory("product", reinterpret_cast<const void*>(best->kernel), best->bytes);
  const dim3 grid(ceil_divide(product.rows, best->rows), ceil_divide(columns, best->columns));
  launch("product", product.rows, columns, best->kernel, {grid, dim3(kThreads), best->bytes},
         stream, product, columns);
}

void pack_blocks(const std::vector<PackBlock>& blocks, cudaStream_t stream) {
  for (std::size_t first = 0; first < blocks.size(); first += kMaxPackBlocks) {
    const int count =
        static_cast<int>(std::min<std::size_t>(kMaxPackBlocks, blocks.size() - first));
    PackBlocks some;
    int largest = 1;
    for (int i = 0; i < count; ++i) {
      some.block[i] = blocks[first + i];
      largest = std::max(
          largest, ceil_divide(some.block[i].rows, 32) * ceil_divide(some.block[i].columns, 32));
    }
    pack_kernel<<<dim3(std::min(largest, 256), count), dim3(32, 8), 0, stream>>>(some);
    check_launch("pack", blocks[first].rows, blocks[first].columns);
  }
}

}  // namespace nru::kernels::cuda
