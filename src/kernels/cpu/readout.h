// Softmax cross-entropy on rows of logits.
#pragma once

#include <cstdint>

namespace nru::kernels {

// For each of `rows` rows of logits [rows, ld]: adds weight * -log softmax(logits)[target] to the
// returned sum, replaces the logits by weight*scale*(softmax - onehot(target)), and writes the most
// likely class to predictions if not null. A row with weight 0 counts nothing and gets gradient 0.
template <class T>
double softmax_cross_entropy(T* logits, int ld, int classes, int rows, const std::int32_t* targets,
                             const T* weights, T scale, std::int32_t* predictions);

}  // namespace nru::kernels
