#include "kernels/cuda/gemm.h"

#include <cublas_v2.h>
#include <dlfcn.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/cuda/check.h"

namespace nru::kernels::cuda {
namespace {

constexpr std::size_t kWorkspace = std::size_t{32} << 20;  // what cuBLAS asks for on Hopper

// cuBLAS, loaded when the first object needs it: its 600 MB of libraries would cost every start of
// the program 0.1 s, and machines without a GPU need not have them.
class Cublas {
 public:
  static const Cublas& get() {
    static const Cublas library;
    return library;
  }

  decltype(&cublasCreate_v2) create;
  decltype(&cublasSetStream_v2) set_stream;
  decltype(&cublasSetWorkspace_v2) set_workspace;
  decltype(&cublasSetAtomicsMode) set_atomics_mode;
  decltype(&cublasSetMathMode) set_math_mode;
  decltype(&cublasSgemm_v2) gemm;
  decltype(&cublasGetStatusString) status_string;

  void check(cublasStatus_t status, const std::string& what) const {
    if (status != CUBLAS_STATUS_SUCCESS) {
      throw Error("cuBLAS: " + what + ": " + status_string(status));
    }
  }

 private:
  Cublas() {
    const std::string name = "libcublas.so." + std::to_string(CUBLAS_VER_MAJOR);
    void* library = dlopen(name.c_str(), RTLD_NOW);
    if (!library) library = dlopen((NRU_CUDA_LIBRARY_DIR "/" + name).c_str(), RTLD_NOW);
    if (!library) {
      throw Error("cuBLAS: " + std::string(dlerror()) + "; install CUDA " +
                  std::to_string(CUBLAS_VER_MAJOR) + " or put its libraries on LD_LIBRARY_PATH");
    }
    load(library, "cublasCreate_v2", create);
    load(library, "cublasSetStream_v2", set_stream);
    load(library, "cublasSetWorkspace_v2", set_workspace);
    load(library, "cublasSetAtomicsMode", set_atomics_mode);
    load(library, "cublasSetMathMode", set_math_mode);
    load(library, "cublasSgemm_v2", gemm);
    load(library, "cublasGetStatusString", status_string);
  }

  template <class F>
  static void load(void* library, const char* symbol, F& function) {
    function = reinterpret_cast<F>(dlsym(library, symbol));
    if (!function) throw Error(std::string("cuBLAS: no ") + symbol + " in this version");
  }
};

}  // namespace

// A handle takes milliseconds and memory of its own to make, so those of objects that are gone are
// used again. What an object sets (stream, workspace, precision) the next one sets anew.
struct Gemm::Handle {
  explicit Handle(const Cublas& cublas) {
    check(cudaGetDevice(&device), "cudaGetDevice");
    {
      const std::lock_guard lock(idle_mutex());
      auto& handles = idle()[device];
      if (!handles.empty()) {
        blas = handles.back();
        handles.pop_back();
        return;
      }
    }
    const Unrecorded unrecorded;
    const RelaxedCapture relaxed;
    cublas.check(cublas.create(&blas), "creating a handle");
    cublas.check(cublas.set_atomics_mode(blas, CUBLAS_ATOMICS_NOT_ALLOWED), "forbidding atomics");
  }
  ~Handle() {
    const std::lock_guard lock(idle_mutex());
    idle()[device].push_back(blas);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  cublasHandle_t blas = nullptr;

 private:
  // Never destroyed: at the end of the program the driver may be gone before them.
  static std::mutex& idle_mutex() {
    static std::mutex& mutex = *new std::mutex;
    return mutex;
  }
  static std::map<int, std::vector<cublasHandle_t>>& idle() {  // by device
    static auto& handles = *new std::map<int, std::vector<cublasHandle_t>>;
    return handles;
  }

  int device = 0;
};

Gemm::Gemm(StreamHandle stream, bool tf32) : handle_(std::make_unique<Handle>(Cublas::get())) {
  const Cublas& cublas = Cublas::get();
  cublas.check(cublas.set_stream(handle_->blas, stream), "setting the stream");
  // After the stream: setting a stream takes the workspace away.
  cublas.check(cublas.set_workspace(handle_->blas, workspace_.require(kWorkspace), kWorkspace),
               "setting the workspace");
  const cublasMath_t math = tf32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH;
  cublas.check(cublas.set_math_mode(handle_->blas, math), "setting the precision");
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
  const Cublas& cublas = Cublas::get();
  const float one = 1, beta = accumulate ? 1 : 0;
  const auto op = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
  const cublasStatus_t status = cublas.gemm(handle_->blas, op(transpose_b), op(transpose_a), n, m,
                                            k, &one, b.data, b.ld, a.data, a.ld, &beta, c, ldc);
  if (status != CUBLAS_STATUS_SUCCESS) {
    cublas.check(status, "product [" + std::to_string(m) + ", " + std::to_string(k) + "] x [" +
                             std::to_string(k) + ", " + std::to_string(n) + "]");
  }
}

}  // namespace nru::kernels::cuda
