// A CTA of four groups of 64 threads forms a tile of 32 x 32 sums over a piece of the rows. All
// threads load 32 rows at a time; each group multiplies eight of them, 4 x 4 sums a thread.
#include "kernels/cuda/outer_sums.h"

#include <algorithm>
#include <stdexcept>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/math.cuh"

namespace nru::kernels::cuda {
namespace {

constexpr int kTile = 32, kThreads = 256, kGroupThreads = 64, kGroups = kThreads / kGroupThreads;
constexpr int kChunk = 32, kRowsOfGroup = kChunk / kGroups, kLoads = kChunk * kTile / kThreads;
constexpr int kMostPieces = 16;
constexpr int kCtas = 264;  // that the cut of the rows aims at
constexpr double kMostMultiplications = 4e8;

struct Work {
  OuterGroup group[OuterSums::kMaxGroups];
  int tiles[OuterSums::kMaxGroups];  // of each group
  int groups, pieces;
  float* pieces_at;
  unsigned* ended;
};

// One column of a factor: what a thread loads.
struct Column {
  const float* data = nullptr;  // null: zero, or one
  size_t ld = 0;
  float otherwise = 0;
  __device__ float at(long long row, bool valid) const {
    return !valid ? 0.f : data ? data[row * ld] : otherwise;
  }
};

struct Place {  // of a column of all factors together
  const OuterFactor* factor = nullptr;
  int column = 0;
  __device__ Place(const OuterGroup& group, int n) {
    for (int f = 0; f < group.factors; ++f) {
      if (n < group.factor[f].columns) {
        factor = &group.factor[f];
        column = n;
        return;
      }
      n -= group.factor[f].columns;
    }
  }
};

struct Tile {
  int group, output, column;  // first ones
  __device__ Tile(const Work& w, int index) : group(0) {
    while (index >= w.tiles[group]) index -= w.tiles[group++];
    const int across = (w.group[group].outputs + kTile - 1) / kTile;
    output = index % across * kTile;
    column = index / across * kTile;
  }
};

union Shared {
  struct {
    float d[kChunk][kTile], values[kChunk][kTile];
  } chunk;
  float sums[kGroups][kTile * kTile];
};

// The sums of this thread's group over rows [first, end).
__device__ inline void multiply(const OuterGroup& g, const Tile& tile, long long first,
                                long long end, Shared& s, float (&sum)[4][4]) {
  const int x = threadIdx.x % kTile, y = threadIdx.x / kTile;
  Column left, right;
  if (tile.output + x < g.outputs) left = {g.d + tile.output + x, static_cast<size_t>(g.ld), 0};
  const Place place(g, tile.column + x);
  if (place.factor) {
    const float* values = place.factor->values;
    right = {values ? values + place.column : nullptr, static_cast<size_t>(place.factor->ld), 1};
  }
  float d[kLoads], v[kLoads];
  const auto load = [&](long long row) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const long long r = row + y + i * (kThreads / kTile);
      d[i] = left.data ? left.at(r, r < end) : 0.f;
      v[i] = right.at(r, r < end);
    }
  };
  const int group = threadIdx.x / kGroupThreads, tx = threadIdx.x % 8, ty = threadIdx.x / 8 % 8;
  load(first);
  for (long long row = first; row < end; row += kChunk) {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      s.chunk.d[y + i * (kThreads / kTile)][x] = d[i];
      s.chunk.values[y + i * (kThreads / kTile)][x] = v[i];
    }
    __syncthreads();
    load(row + kChunk);
#pragma unroll
    for (int r = 0; r < kRowsOfGroup; ++r) {
      const int at = group * kRowsOfGroup + r;
      const float4 a = *reinterpret_cast<const float4*>(&s.chunk.d[at][4 * ty]);
      const float4 b = *reinterpret_cast<const float4*>(&s.chunk.values[at][4 * tx]);
      const float da[4] = {a.x, a.y, a.z, a.w}, vb[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[i][j] = fmaf(da[i], vb[j], sum[i][j]);
    }
  }
}

__global__ void __launch_bounds__(kThreads) outer_sums_kernel(const __grid_constant__ Work w) {
  __shared__ __align__(16) Shared s;
  const Tile tile(w, blockIdx.x);
  const OuterGroup& g = w.group[tile.group];
  const long long each = (g.rows + w.pieces - 1) / w.pieces;
  const long long first = min(each * blockIdx.y, g.rows), end = min(first + each, g.rows);
  float sum[4][4] = {};
  after_previous();
  multiply(g, tile, first, end, s, sum);
  __syncthreads();
  {
    const int group = threadIdx.x / kGroupThreads, tx = threadIdx.x % 8, ty = threadIdx.x / 8 % 8;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      *reinterpret_cast<float4*>(&s.sums[group][(4 * ty + i) * kTile + 4 * tx]) =
          make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
    }
  }
  __syncthreads();
  float* pieces = w.pieces_at + static_cast<size_t>(blockIdx.x) * w.pieces * kTile * kTile;
  for (int e = threadIdx.x; e < kTile * kTile; e += kThreads) {
    pieces[blockIdx.y * kTile * kTile + e] =
        (s.sums[0][e] + s.sums[1][e]) + (s.sums[2][e] + s.sums[3][e]);
  }
  if (!comes_last(w.ended + blockIdx.x, w.pieces)) return;
  const Place place(g, tile.column + threadIdx.x % kTile);
#pragma unroll
  for (int i = 0; i < kTile * kTile / kThreads; ++i) {
    const int e = threadIdx.x + i * kThreads, o = tile.output + e / kTile;
    float total = 0;
    for (int p = 0; p < w.pieces; ++p) total += __ldcg(pieces + p * kTile * kTile + e);
    if (place.factor && o < g.outputs)
      place.factor->to[static_cast<size_t>(o) * place.factor->to_ld + place.column] = total;
  }
}

}  // namespace

void OuterGroup::add(const float* values, int values_ld, int columns, float* to, int to_ld) {
  if (!to) return;
  if (factors == kMaxFactors) throw std::logic_error("an OuterGroup holds no more factors");
  factor[factors++] = {values, values_ld, columns, to, to_ld};
}

int OuterGroup::columns() const {
  int sum = 0;
  for (int f = 0; f < factors; ++f) sum += factor[f].columns;
  return sum;
}

bool OuterSums::fits(const std::vector<OuterGroup>& groups) {
  double multiplications = 0;
  for (const OuterGroup& g : groups) multiplications += g.multiplications();
  return groups.size() <= kMaxGroups && multiplications <= kMostMultiplications;
}

void OuterSums::run(const std::vector<OuterGroup>& groups, cudaStream_t stream) {
  Work w{};
  int tiles = 0;
  for (const OuterGroup& g : groups) {
    if (g.columns() == 0) continue;
    w.group[w.groups] = g;
    w.tiles[w.groups] = (g.outputs + kTile - 1) / kTile * ((g.columns() + kTile - 1) / kTile);
    tiles += w.tiles[w.groups++];
  }
  if (tiles == 0) return;
  w.pieces = std::clamp(kCtas / tiles, 1, kMostPieces);
  w.pieces_at = pieces_.require(static_cast<std::size_t>(tiles) * w.pieces * kTile * kTile);
  w.ended = ended_.require(tiles);
  launch("outer_sums", tiles, w.pieces, outer_sums_kernel, {dim3(tiles, w.pieces), dim3(kThreads)},
         stream, w);
}

}  // namespace nru::kernels::cuda
