// What the skeleton does to rows of values apart from products: filling, copying, holding finished
// rows, sums of columns, largest magnitudes. Every function queues its work on the stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/program.h"

namespace nru::kernels::cuda {

// Each of `rows` rows [ld] becomes `values` [width], or zero where that is null.
void fill_rows(float* to, int ld, int width, long long rows, const float* values,
               cudaStream_t stream);

// [rows, width] from one distance of rows to another; from null: `otherwise` everywhere.
void copy_rows(const float* from, int from_ld, float* to, int to_ld, int width, long long rows,
               cudaStream_t stream, float otherwise = 0);

// Steps of a batch: [steps, batch] rows, the first of them step `begin` of the sequence; a row is
// finished from step lengths[row] on (null: never).
struct Steps {
  int begin = 0, steps = 0, batch = 0;
  const std::int64_t* lengths = nullptr;
  constexpr long long rows() const { return static_cast<long long>(steps) * batch; }
};

// Input rows from numbers or symbols (one of them null), zero for finished rows. `dense` and
// `symbols` are those of the whole sequence.
void load_input(const Steps& steps, const float* dense, const std::int32_t* symbols, int width,
                float* to, cudaStream_t stream);

// Rows of a table [.., width] by symbol, zero for finished rows.
void gather_rows(const Steps& steps, const std::int32_t* symbols, const float* table, int width,
                 float* to, cudaStream_t stream);

// As copy_rows for the rows of some steps, into those of the whole sequence; finished rows become
// zero if asked for.
void copy_steps_out(const Steps& steps, bool zero_finished, const float* from, int ld, int width,
                    float* to, cudaStream_t stream);
// And from the whole sequence, finished rows being zero.
void copy_steps_in(const Steps& steps, const float* from, int width, float* to, int ld,
                   cudaStream_t stream);

inline constexpr int kMaxStates = 8;

struct HeldStates {
  int count = 0;
  const float* before[kMaxStates];  // [batch, ld]
  float* after[kMaxStates];
  int ld[kMaxStates];
  std::int64_t *events, *events_before;  // [batch, kEvents]
};
// Rows finished at `step` keep their state, and what happens to them there is no event.
void hold_finished_rows(const HeldStates& states, int step, int batch, const std::int64_t* lengths,
                        cudaStream_t stream);

// The gradient of a part as a backward step begins: what later steps sent (nothing, if nothing is
// to be kept of it), what arrives in bulk at this step, and at a row's last step what arrives at
// its final state. A finished row has none, so that it adds nothing to any weight.
struct EnteringPart {
  float* gradient = nullptr;     // [batch, ld]
  const float* bulk = nullptr;   // [batch, ld] or null
  const float* final = nullptr;  // [batch, width] or null
  int ld = 0, width = 0;
  int keep = 0;
};
struct EnteringParts {
  int count = 0;
  EnteringPart part[kMaxStates];
};
void enter_step(const EnteringParts& parts, int step, int steps, int batch,
                const std::int64_t* lengths, cudaStream_t stream);

// Rows of several parts, [batch, ld] each.
struct LimitedPart {
  float* gradient = nullptr;
  int ld = 0, width = 0;
};
struct LimitedParts {
  int count = 0;
  LimitedPart part[kMaxStates];
};
// Scales each row down to this norm, over all parts together, where it is longer.
void limit_rows(const LimitedParts& parts, int batch, double limit, cudaStream_t stream);

// to[j] = sum over rows of from[row, j], in a fixed order. `scratch` holds column_sums_scratch()
// values.
std::size_t column_sums_scratch(int width, long long rows);
void column_sums(const float* from, int ld, int width, long long rows, float* scratch, float* to,
                 cudaStream_t stream);

// *result = max(*result, largest |value| of rows that are not finished), as the bits of a float:
// NaN is larger than all numbers.
void largest_magnitude(const Steps& steps, const float* from, int ld, int width, unsigned* result,
                       cudaStream_t stream);

}  // namespace nru::kernels::cuda
