// The clock that durations are measured by: it never goes back, whatever happens to the date.
#pragma once

#include <chrono>

namespace nru {

inline double steady_seconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

}  // namespace nru
