// Checks of options that several cells share.
#pragma once

#include <fmt/format.h>
#include <nru/error.h>

#include <cstdint>
#include <string_view>

namespace nru {

inline constexpr std::int64_t kLargestSize =
    1'000'000;  // the kernels count rows and columns in ints

// Throws nru::Error unless 1 <= value <= kLargestSize.
inline void check_size(std::string_view name, std::int64_t value) {
  if (value < 1) throw Error(fmt::format("{} must be at least 1, got {}", name, value));
  if (value > kLargestSize)
    throw Error(fmt::format("{} must be at most {}, got {}", name, kLargestSize, value));
}

}  // namespace nru
