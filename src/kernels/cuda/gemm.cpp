#include "kernels/cuda/gemm.h"

#include <cublas_v2.h>

#include <string>

#include "kernels/cuda/check.h"

namespace nru::kernels::cuda {
namespace {

constexpr std::size_t kWorkspace = std::size_t{32} << 20;  // what cuBLAS asks for on Hopper

void check_blas(cublasStatus_t status, const std::string& what) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw Error("cuBLAS: " + what + ": " + cublasGetStatusString(status));
  }
}

}  // namespace

struct Gemm::Handle {
  cublasHandle_t blas = nullptr;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  ~Handle() {
    if (blas) cublasDestroy(blas);
  }
};

Gemm::Gemm(StreamHandle stream, bool tf32) : handle_(std::make_unique<Handle>()) {
  check_blas(cublasCreate(&handle_->blas), "creating a handle");
  check_blas(cublasSetStream(handle_->blas, stream), "setting the stream");
  // After the stream: setting a stream takes the workspace away.
  check_blas(cublasSetWorkspace(handle_->blas, workspace_.require(kWorkspace), kWorkspace),
             "setting the workspace");
  check_blas(cublasSetAtomicsMode(handle_->blas, CUBLAS_ATOMICS_NOT_ALLOWED), "forbidding atomics");
  if (tf32) handle_->compute = CUBLAS_COMPUTE_32F_FAST_TF32;
}

Gemm::~Gemm() = default;

void Gemm::nt(int m, int n, int k, Matrix a, Matrix b, bool accumulate, float* c, int ldc) {
  run(false, true, m, n, k, a, b, accumulate, c, ldc);
}
void Gemm::nn(int m, int n, int k, Matrix a, Matrix b, bool accumulate, float* c, int ldc) {
  run(false, false, m, n, k, a, b, accumulate, c, ldc);
}
void Gemm::tn(int m, int n, int k, Matrix a, Matrix b, bool accumulate, float* c, int ldc) {
  run(true, false, m, n, k, a, b, accumulate, c, ldc);
}

// cuBLAS is column-major, where a row-major C = A B reads C^T = B^T A^T.
void Gemm::run(bool transpose_a, bool transpose_b, int m, int n, int k, Matrix a, Matrix b,
               bool accumulate, float* c, int ldc) {
  const float one = 1, beta = accumulate ? 1 : 0;
  const auto op = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
  const cublasStatus_t status = cublasGemmEx(
      handle_->blas, op(transpose_b), op(transpose_a), n, m, k, &one, b.data, CUDA_R_32F, b.ld,
      a.data, CUDA_R_32F, a.ld, &beta, c, CUDA_R_32F, ldc, handle_->compute, CUBLAS_GEMM_DEFAULT);
  if (status != CUBLAS_STATUS_SUCCESS) {
    check_blas(status, "product [" + std::to_string(m) + ", " + std::to_string(k) + "] x [" +
                           std::to_string(k) + ", " + std::to_string(n) + "]");
  }
}

}  // namespace nru::kernels::cuda
