// The LSTM's equations for one unit of one row (lstm.cu has them as a whole).
#pragma once

#include "kernels/cuda/math.cuh"

namespace nru::kernels::cuda {

// Zero: a cell without peepholes.
struct LstmPeephole {
  float i = 0, f = 0, o = 0;
};

struct LstmUnit {
  float i, f, g, o;  // activated gates
  float c, h;
};

__device__ inline LstmUnit lstm_forward(float a_i, float a_f, float a_g, float a_o, float c0,
                                        const LstmPeephole& p) {
  LstmUnit u;
  u.i = sigmoid(fmaf(p.i, c0, a_i));
  u.f = sigmoid(fmaf(p.f, c0, a_f));
  u.g = tanhf(a_g);
  u.c = fmaf(u.f, c0, u.i * u.g);
  u.o = sigmoid(fmaf(p.o, u.c, a_o));
  u.h = u.o * tanhf(u.c);
  return u;
}

struct LstmGradient {
  float i, f, g, o;  // of the pre-activations
  float c0;
};

// `u` without h; dh and dc: of h and c.
__device__ inline LstmGradient lstm_backward(const LstmUnit& u, float c0, float dh, float dc,
                                             const LstmPeephole& p) {
  LstmGradient d;
  const float tc = tanhf(u.c);
  d.o = dh * tc * u.o * (1.f - u.o);
  const float d_c = fmaf(d.o, p.o, fmaf(dh * u.o, 1.f - tc * tc, dc));
  d.f = d_c * c0 * u.f * (1.f - u.f);
  d.i = d_c * u.g * u.i * (1.f - u.i);
  d.g = d_c * u.i * (1.f - u.g * u.g);
  d.c0 = fmaf(d.f, p.f, fmaf(d.i, p.i, d_c * u.f));
  return d;
}

}  // namespace nru::kernels::cuda
