// What launches a pass of the design "rows".
#pragma once

#include "kernels/cuda/persistent_rows.cuh"

namespace nru::kernels::cuda {

template <class Row, class T, class Call>
__global__ void __launch_bounds__(T::kThreads, 1) rows_kernel(const __grid_constant__ Call call) {
  __shared__ typename Row::Shared shared;
  extern __shared__ float4 off_path[];
  Row::run(call, shared, reinterpret_cast<float*>(off_path));
}

// A tile's line of kRowsShapes.
template <class T>
constexpr RowsShape compiled_shape() {
  for (const RowsShape& s : kRowsShapes)
    if (s.hidden == T::kHidden && s.memory == T::kMemory && s.heads == T::kHeads) return s;
  return {};
}

template <class Row, class T, class Call>
void launch_rows(const char* name, const Call& call, cudaStream_t stream) {
  constexpr std::size_t kBytes = sizeof(float) * Row::kSpace;
  static_assert(kBytes + sizeof(typename Row::Shared) <= compiled_shape<T>().shared_bytes);
  const auto kernel = rows_kernel<Row, T, Call>;
  allow_shared_memory(name, reinterpret_cast<const void*>(kernel), kBytes);
  launch(name, call.batch, call.hidden, kernel, {dim3(call.batch), dim3(T::kThreads), kBytes},
         stream, call);
}

// Calls f(tile, fast) for the compiled shape; fast says that the write has its own form.
template <class F>
void run_rows_tile(int shape, const NruWriteSizes& s, const F& f) {
  const bool fast = s.k == 4 && s.R == 4 && !s.relu;
  if (shape == 0)
    return fast ? f(SmallRows{}, std::true_type{}) : f(SmallRows{}, std::false_type{});
  if (shape == 1) return fast ? f(WideRows{}, std::true_type{}) : f(WideRows{}, std::false_type{});
  f(LargeRows{}, std::false_type{});
}

}  // namespace nru::kernels::cuda
