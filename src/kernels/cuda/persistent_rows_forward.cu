// Forward kernels of the design "rows".
#include "kernels/cuda/persistent_rows_forward.cuh"
#include "kernels/cuda/persistent_rows_kernel.cuh"

namespace nru::kernels::cuda {

void rows_forward(int shape, const RowsForward& call, cudaStream_t stream) {
  run_rows_tile(shape, call.write, [&](auto tile, auto fast) {
    launch_rows<RowForward<decltype(tile), decltype(fast)::value>, decltype(tile)>(
        "nru_rows_forward", call, stream);
  });
}

}  // namespace nru::kernels::cuda
