// modReLU, the nonlinearity of EURNN and GORU: shrinks or grows |z| and keeps its direction.
#pragma once

namespace nru::kernels {

enum class ModRelu {
  smooth,  // z max(N + b, 0) / N, N = |z| + eps: the identity at b = 0
  sign,    // sign(z) max(|z| + eps + b, 0): real numbers only
};

}  // namespace nru::kernels
