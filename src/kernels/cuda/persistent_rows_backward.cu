// Backward kernels of the design "rows".
#include "kernels/cuda/persistent_rows_backward.cuh"
#include "kernels/cuda/persistent_rows_kernel.cuh"

namespace nru::kernels::cuda {

void rows_backward(int shape, const RowsBackward& call, cudaStream_t stream) {
  run_rows_tile(shape, call.write, [&](auto tile, auto fast) {
    launch_rows<RowBackward<decltype(tile), decltype(fast)::value>, decltype(tile)>(
        "nru_rows_backward", call, stream);
  });
}

}  // namespace nru::kernels::cuda
