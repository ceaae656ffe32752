// Counts and times as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace nru {

// "1h 02m", "3m 20s", "7s": at most two units.
std::string format_duration(double seconds);
// 12300 -> "12,300".
std::string format_count(std::int64_t count);

}  // namespace nru
