// Parts and parameters of the EURNN by name, for its kernels (eurnn.cu, eurnn_rows.cu).
#pragma once

namespace nru::kernels::cuda::eurnn {

inline constexpr int kH = 1, kZ = 2, kRe = 3;  // parts; kRe: complex only

template <int P>  // parameters; 1: real, 2: complex
struct Index {
  static constexpr int kTheta = 0, kPhi = 1, kOmega = 2;  // phi and omega: complex only
  static constexpr int kBias = P == 1 ? 2 : 4;
};

}  // namespace nru::kernels::cuda::eurnn
