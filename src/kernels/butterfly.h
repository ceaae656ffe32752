// The wiring of the butterfly: an orthogonal matrix Q as a product of L = ceil(log2 n) layers of
// disjoint plane rotations, the fast Fourier transform's pattern without its fixed angles.
//
// Layer l = 0..L-1 turns the pairs (a, a + d), d = 2^(L-1-l), of all coordinates a whose bit d is
// clear and that have a partner (a + d < n), in increasing a. For a power of two these are n/2
// pairs per layer; for any other n the coordinates without a partner pass unchanged, which keeps Q
// exactly orthogonal at every size. The angles of all layers follow each other, largest stride
// first.
//
// Shared by EURNN and GORU, by the kernels and the reference.
#pragma once

#include <vector>

namespace nru::kernels {

struct ButterflyLayer {
  int stride = 0;  // d
  int first = 0;   // index of its first angle
  int pairs = 0;

  // The pair with the layer's angle p is (a, a + stride). All runs of `stride` coordinates are full
  // but the last.
  int lower(int p) const { return p / stride * 2 * stride + p % stride; }
};

class Butterfly {
 public:
  explicit Butterfly(int size);

  int size() const { return size_; }      // n
  int angles() const { return angles_; }  // pairs of all layers together
  const std::vector<ButterflyLayer>& layers() const { return layers_; }

 private:
  int size_ = 0, angles_ = 0;
  std::vector<ButterflyLayer> layers_;
};

}  // namespace nru::kernels
