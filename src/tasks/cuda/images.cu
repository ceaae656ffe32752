// Batches of images that are read pixel by pixel: [images, pixels] turned into [steps, rows].
#include "kernels/cuda/launch.cuh"
#include "tasks/cuda/rules.h"

namespace nru::tasks {
namespace {

constexpr int kTile = 32;  // steps and rows
constexpr int kWarps = 8;

// Reads pixels of one image side by side and writes rows of one step side by side. The choice of
// the images is made again in every tile of their steps: one warp's work, while the others wait.
__global__ void __launch_bounds__(kTile* kWarps)
    images_kernel(const DeviceImages images, const std::uint64_t* index, const DeviceArrays to) {
  __shared__ std::uint32_t image[kTile];
  // Rows of nine words: all threads of a warp find their bytes in different banks.
  __shared__ unsigned char pixels[kTile][kTile + 4];
  const int lane = threadIdx.x, warp = threadIdx.y;
  const int first_step = blockIdx.x * kTile, first_row = blockIdx.y * kTile;

  kernels::cuda::after_previous();
  if (warp == 0 && first_row + lane < to.rows)
    image[lane] = images.rule.image(*index, first_row + lane);
  __syncthreads();
  for (int r = warp; r < kTile && first_row + r < to.rows; r += kWarps) {
    const int step = first_step + lane;  // the step after the last pixel shows nothing
    const long long first = static_cast<long long>(image[r]) * images.size;
    pixels[r][lane] = step < images.size ? images.pixels[first + step] : 0;
  }
  __syncthreads();
  const int row = first_row + lane;
  if (row >= to.rows) return;
  for (int s = warp; s < kTile && first_step + s < to.steps; s += kWarps) {
    const int step = first_step + s;
    const long long at = static_cast<long long>(step) * to.rows + row;
    to.dense[at] = images.rule.brightness(pixels[lane][s], *index, row, step);
    to.targets[at] = step == to.steps - 1 ? images.labels[image[lane]] : 0;
  }
}

}  // namespace

void queue_batch(const DeviceImages& images, const std::uint64_t* index, const DeviceArrays& to,
                 cudaStream_t stream) {
  const dim3 grid((to.steps + kTile - 1) / kTile, (to.rows + kTile - 1) / kTile);
  kernels::cuda::launch("image batch", to.steps, to.rows, images_kernel,
                        {grid, dim3(kTile, kWarps)}, stream, images, index, to);
}

}  // namespace nru::tasks
