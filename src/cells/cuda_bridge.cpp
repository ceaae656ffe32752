#include "cells/cuda_bridge.h"

#include <stdexcept>

#include "cells/torch_cuda.h"

#if defined(NRU_HAS_CUDA) && defined(NRU_TORCH_CUDA)

#include <fmt/format.h>

#include "kernels/cuda/sequence.h"

namespace nru {
namespace {

namespace cuda = kernels::cuda;

void* allocate(std::size_t bytes, cuda::StreamHandle stream) {
  return c10::cuda::CUDACachingAllocator::raw_alloc_with_stream(bytes, stream);
}
void release(void* memory) { c10::cuda::CUDACachingAllocator::raw_delete(memory); }

class CudaRunner : public Runner<float> {
 public:
  CudaRunner(const FusedCall& call, torch::Device device)
      : device_(device), stream_(c10::cuda::getCurrentCUDAStream(device.index()).stream()) {
    const Scope scope(*this);
    cuda::SequenceOptions options;
    options.stream = stream_;
    options.tf32 = at::globalContext().allowTF32CuBLAS();
    options.state_limit = call.state_gradient_limit > 0;
    sequence_ = std::make_unique<cuda::Sequence>(call.float_program, options);
  }

  void forward(const kernels::SequenceInputs<float>& inputs,
               const kernels::SequenceOutputs<float>& outputs, bool keep) override {
    const Scope scope(*this);
    sequence_->forward(inputs, outputs, keep);
  }

  // Autograd's threads have the forward pass's stream as their current one.
  void backward(const kernels::SequenceInputs<float>& inputs,
                const kernels::SequenceGradients<float>& gradients) override {
    const Scope scope(*this);
    sequence_->backward(inputs, gradients);
  }

 private:
  // torch and the kernels have a CUDA runtime each, with a current device each.
  struct Scope {
    explicit Scope(const CudaRunner& runner)
        : torch_device(runner.device_),
          device(runner.device_.index()),
          pool({allocate, release}, runner.stream_) {}
    c10::cuda::CUDAGuard torch_device;
    cuda::DeviceScope device;
    cuda::PoolScope pool;
  };

  torch::Device device_;
  cuda::StreamHandle stream_;
  std::unique_ptr<cuda::Sequence> sequence_;
};

}  // namespace

std::string no_cuda_kernels_for(const kernels::Program<float>& program) {
  if (cuda::supports(program)) return "";
  return fmt::format("the cell {} has no CUDA kernels",
                     program.cell.empty() ? "of this layer" : program.cell);
}

std::unique_ptr<Runner<float>> make_cuda_runner(const FusedCall& call, torch::Device device) {
  return std::make_unique<CudaRunner>(call, device);
}

}  // namespace nru

#else

namespace nru {

std::string no_cuda_kernels_for(const kernels::Program<float>&) {
#ifdef NRU_HAS_CUDA
  return "nru was built against a torch without CUDA";
#else
  return "nru was built without its CUDA kernels (-DNRU_CUDA=ON builds them)";
#endif
}

std::unique_ptr<Runner<float>> make_cuda_runner(const FusedCall& call, torch::Device) {
  throw std::logic_error(no_cuda_kernels_for(*call.float_program));
}

}  // namespace nru

#endif
