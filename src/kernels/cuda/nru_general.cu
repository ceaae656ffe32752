// Launches the general form of the NRU's write: nru_general.cuh.
#include "kernels/cuda/nru_general.cuh"

namespace nru::kernels::cuda {
namespace {

template <bool kStored>
__global__ void forward_kernel(const NruWriteSizes s, const NruWriteRows rows) {
  extern __shared__ general::Head shared[];
  after_previous();
  general::forward<kStored>(s, rows, shared);
}

template <bool kStored>
__global__ void backward_kernel(const NruWriteSizes s, const NruWriteRows rows) {
  extern __shared__ general::Head shared[];
  after_previous();
  general::backward<kStored>(s, rows, shared);
}

// Stores V if a CTA has room for it besides `bytes`.
void launch_general(const char* name, NruWriteKernel* stored, NruWriteKernel* formed,
                    std::size_t bytes, const NruWriteSizes& s, const NruWriteRows& rows,
                    cudaStream_t stream) {
  const std::size_t all = bytes + general::stored_bytes(s);
  const auto limit = static_cast<std::size_t>(device_limits().shared_bytes);
  if (all <= limit)
    launch_write(name, stored, all, s, rows, stream);
  else
    launch_write(name, formed, bytes, s, rows, stream);
}

}  // namespace

void write_general(const NruWriteSizes& s, const NruWriteRows& rows, cudaStream_t stream) {
  launch_general("nru_write_general", forward_kernel<true>, forward_kernel<false>,
                 general::forward_bytes(s), s, rows, stream);
}

void write_general_backward(const NruWriteSizes& s, const NruWriteRows& rows, cudaStream_t stream) {
  launch_general("nru_write_general_backward", backward_kernel<true>, backward_kernel<false>,
                 general::backward_bytes(s), s, rows, stream);
}

}  // namespace nru::kernels::cuda
