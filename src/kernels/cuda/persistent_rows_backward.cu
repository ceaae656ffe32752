// Backward kernels of the design "rows".
#include "kernels/cuda/persistent_rows_backward.cuh"
#include "kernels/cuda/persistent_rows_kernel.cuh"

namespace nru::kernels::cuda {

void rows_backward(int shape, const RowsBackward& call, cudaStream_t stream) {
  run_rows_tile(shape, call.write, [&](auto tile, auto fast) {
    using Shape = decltype(tile);
    constexpr bool kFast = decltype(fast)::value;
    if (call.state_limit > 0) {
      launch_rows<RowBackward<Shape, kFast, true>, Shape>("nru_rows_backward_limited", call,
                                                          stream);
    } else {
      launch_rows<RowBackward<Shape, kFast, false>, Shape>("nru_rows_backward", call, stream);
    }
  });
}

}  // namespace nru::kernels::cuda
