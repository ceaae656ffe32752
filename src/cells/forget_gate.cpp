#include "cells/forget_gate.h"

#include <nru/error.h>

#include <fmt/format.h>

#include <limits>

namespace nru {

std::vector<OptionSpec> forget_options() {
  return {{"forget_bias", 1.0, "initial bias of the forget gate, without chrono", {}},
          {"chrono_t_max", std::int64_t{0}, "T of the chrono initialisation; 0: none", {}},
          {"chrono_form",
           std::string("integer"),
           "chrono draws: {1..T}, or [1, T-1]",
           {"integer", "paper"}}};
}

void check_chrono(std::int64_t t_max) {
  constexpr std::int64_t kLargest = std::numeric_limits<std::uint32_t>::max();  // of the generator
  if (t_max > kLargest)
    throw Error(fmt::format("chrono_t_max must be at most {}, got {}", kLargest, t_max));
  if (t_max == 0 || t_max >= 2) return;
  throw Error(fmt::format(
      "chrono_t_max must be at least 2 (or 0 for no chrono initialisation), got {}", t_max));
}

}  // namespace nru
