// What comes before the first step of a call, in as few launches as possible: at small sizes each
// of them costs as much as several steps.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/rows.h"

namespace nru::kernels::cuda {

// Initial states, and zero for all that is counted or summed up.
struct SequenceStart {
  struct State {
    const float* from = nullptr;  // [batch, width]; null: `otherwise` everywhere
    float* to = nullptr;          // [batch, ld]
    int width = 0, ld = 0;
    float otherwise = 0;
  };
  int batch = 0, states = 0;
  State state[kMaxStates];
  std::int64_t* events = nullptr;  // [2, batch, kEvents]
  double* loss = nullptr;
  unsigned* largest = nullptr;  // [parts]
  int parts = 0;
};
void start_sequence(const SequenceStart& start, cudaStream_t stream);

// The share of input and bias in the pre-activations of all phases, over all steps of a window, for
// inputs so narrow that a product would be all overhead.
struct InputShare {
  static constexpr int kMaxWidth = 32, kMaxPhases = 4;
  struct Phase {
    const float* weights = nullptr;  // [width, ld_weights], the input's columns; null: none
    const float* bias = nullptr;     // null: zero
    int ld_weights = 0;
    float* pre = nullptr;  // [rows, ld]
    int width = 0, ld = 0;
  };
  Steps steps;
  const float* dense = nullptr;           // [T, batch, input], of the whole sequence, or
  const std::int32_t* symbols = nullptr;  // [T, batch]
  int input = 0;
  float* x = nullptr;  // [rows, input], where the input is to be kept; null: nowhere
  int phases = 0;
  Phase phase[kMaxPhases];

  static bool fits(const Program<float>& program);
};
void input_share(const InputShare& share, cudaStream_t stream);

}  // namespace nru::kernels::cuda
