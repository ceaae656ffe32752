// The EURNN (Jing et al., "Tunable Efficient Unitary Neural Networks", ICML 2017): a recurrent
// network whose recurrent matrix Q is exactly unitary (or orthogonal), a product of few rotations,
// so that neither states nor gradients can grow or vanish through it.
//
//   z = Q h' + U x        h = modReLU(z; b)        (' = previous step)
//
// Q = product of L = ceil(log2 n) layers of disjoint 2x2 rotations. Layer l = 0..L-1 has stride d =
// 2^(L-1-l) and turns all pairs (a, a+d) with bit d of a clear and a+d < n, in increasing a:
//   real:     y_a = c x_a - s x_b,   y_b = s x_a + c x_b,   c = cos theta, s = sin theta
//   complex:  the same with e^{i phi} x_b for x_b; after the last layer y_j <- e^{i omega_j} y_j
//
// modReLU keeps the direction of z and changes its magnitude:
//   smooth:  z max(N + b, 0) / N,  N = |z| + eps    the identity at b = 0, where training starts
//   sign:    sign(z) max(|z| + eps + b, 0)          real only; eps may be 0
// Where it is not zero, the slope of a real z is 1 + b eps / N^2 with smooth and 1 with sign. So
// only the sign form keeps the length of gradients when b has grown; it jumps at z = 0 instead.
//
// Parameters of layer k (P = number of pairs; suffix _lk), in this order:
//   theta [P]                                 layer by layer, largest stride first
//   phi [P], omega [n]                        complex only
//   weight_ih [n, I]                          U; complex: [2n, I], rows Re U, then Im U
//   bias [n]                                  b of the modReLU
// hidden_size is n. The state h is [n]; complex: [2n], Re h, then Im h. The output is h, complex:
// Re h, so it has n values either way.
//
// Initialisation: theta, phi, omega ~ U(-pi, pi), U ~ U(-0.01, 0.01), b = 0.
//
// Where sources differ: the published code accepts powers of two only (strict_fft = true); letting
// coordinates without a partner pass keeps Q unitary at any n, and is what makes sizes of equal
// parameter count possible. Its modReLU is the sign form with eps = 0.01, which adds eps to every
// |z| at every step even at b = 0; with eps = 0 it starts as the identity, too.
#pragma once

#include <nru/layer.h>

namespace nru {

enum class ModReLU { smooth, sign };

struct EURNNOptions : LayerOptions<EURNNOptions> {
  using LayerOptions::LayerOptions;

  NRU_OPTION(bool, complex, false);
  NRU_OPTION(ModReLU, modrelu, ModReLU::smooth);
  NRU_OPTION(double, epsilon, 0.01);    // of the modReLU
  NRU_OPTION(bool, strict_fft, false);  // refuse hidden sizes that are no power of two
};

NRU_LAYER(EURNN);

}  // namespace nru
