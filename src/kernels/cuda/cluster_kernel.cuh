// What the forward and the backward kernel of a cluster share: the tile, where a CTA stands, how
// weights come on chip, and the launch.
#pragma once

#include <type_traits>

#include "kernels/cuda/cluster.h"
#include "kernels/cuda/cluster_exchange.cuh"
#include "kernels/cuda/cluster_product.cuh"
#include "kernels/cuda/cluster_write_linear.cuh"
#include "kernels/cuda/cluster_write_relu.cuh"

namespace nru::kernels::cuda {

// Up to 32 NH hidden units, 32 NM numbers of memory, 32 NU head outputs; RP and NS: see
// cluster_write.cuh. Each warp of a cluster's 32 makes NH, NM or NU outputs of a product.
// kSpill: the weights between memory and heads go to shared memory, too.
template <int NH_, int NM_, int NU_, int RP_, int NS_, bool kSpill_, bool kRelu_>
struct Tile {
  static constexpr int NH = NH_, NM = NM_, NU = NU_, RP = RP_, NS = NS_;
  static constexpr bool kRelu = kRelu_;
  static constexpr int kNothing = 32 * NU;  // a place behind the head outputs
  template <int O, int N>
  using Spilled = std::conditional_t<kSpill_, SharedWeights<O, N>, RegisterWeights<O, N>>;
  using Write = std::conditional_t<kRelu, ReluWrite<Tile>, LinearWrite<Tile>>;
  using WriteBackward =
      std::conditional_t<kRelu, ReluWriteBackward<Tile>, LinearWriteBackward<Tile>>;
};

// A block of weights as a product sees it, possibly transposed.
struct WeightBlock {
  const float* data;
  int outputs, inputs;
  int output_stride, input_stride;
};

#if NRU_CLUSTER_CODE

// The part of a warp in a block of weights: for RegisterWeights::load().
template <int O>
struct WarpBlock {
  const WeightBlock& block;
  WarpShare share;
  __device__ WarpBlock(const WeightBlock& b, int rank) : block(b), share(rank, b.outputs) {}
  __device__ float operator()(int slot, int n) const {
    const int o = Fold<O>::output(slot);
    return o < share.count && n < block.inputs
               ? block.data[static_cast<std::size_t>(share.first + o) * block.output_stride +
                            static_cast<std::size_t>(n) * block.input_stride]
               : 0.f;
  }
};

// Where a thread stands. Row r of a cluster is row(r) of the batch, if used(r).
struct Place {
  int lane = threadIdx.x % 32, quad_lane = threadIdx.x % 4;
  int rank = cluster_rank();
  int first_row = static_cast<int>(blockIdx.x) / kClusterCtas * kClusterRows;
  int batch;
  __device__ explicit Place(int b) : batch(b) {}
  __device__ bool used(int r) const { return first_row + r < batch; }
  __device__ std::size_t row(int r) const { return first_row + r; }
};

// values[n] = the four rows' numbers n of a [batch, ld] array; zero for rows that there are not.
__device__ inline void load_rows(const Place& at, const float* from, int ld, int width,
                                 float4* values) {
  for (int n = threadIdx.x; n < width; n += kClusterThreads) {
    float row[kClusterRows];
#pragma unroll
    for (int r = 0; r < kClusterRows; ++r) row[r] = at.used(r) ? from[at.row(r) * ld + n] : 0.f;
    values[n] = make_float4(row[0], row[1], row[2], row[3]);
  }
}

// The place of something in this CTA's shared memory, in the CTA that this lane sends to.
__device__ inline std::uint32_t destination(const Place& at, const void* shared) {
  std::uint32_t there = address_in(shared_address(shared), at.quad_lane);
  hold(there);
  return there;
}

template <class Shared>
__device__ inline void clear_shared(Shared& shared) {
  static_assert(sizeof(Shared) % sizeof(float4) == 0);
  float4* all = reinterpret_cast<float4*>(&shared);
  for (int i = threadIdx.x; i < static_cast<int>(sizeof(Shared) / sizeof(float4));
       i += kClusterThreads)
    all[i] = zero4();
  __syncthreads();
}

#endif

template <class Call>
void launch_cluster(const char* name, void (*kernel)(Call), std::size_t shared_bytes,
                    const Call& call, cudaStream_t stream) {
  allow_shared_memory(name, reinterpret_cast<const void*>(kernel), shared_bytes);
  const int clusters = (call.of.batch + kClusterRows - 1) / kClusterRows;
  cudaLaunchAttribute attributes[2]{};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim = {kClusterCtas, 1, 1};
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(clusters * kClusterCtas);
  config.blockDim = dim3(kClusterThreads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = 2;
  cudaLaunchKernelEx(&config, kernel, call);
  check_launch(name, call.of.batch, call.of.hidden);
}

}  // namespace nru::kernels::cuda
