// Text from a character model, one character at a time.
#pragma once

#include <cstdint>

#include "cells/model.h"

namespace nru::training {

class Sampler {
 public:
  // Draws are a pure function of the seed and what was read before.
  Sampler(Model model, std::uint64_t seed);

  // Reads one symbol: the next draw is what may follow it.
  void read(std::int32_t symbol);

  // A symbol from softmax(logits / temperature); 0 takes the most likely one. Needs read() first.
  std::int32_t draw(double temperature);

  const torch::Tensor& logits() const { return logits_; }  // [V], of what follows

 private:
  Model model_;
  State state_;
  torch::Tensor logits_;
  std::uint64_t seed_;
  std::uint64_t draws_ = 0;
};

}  // namespace nru::training
